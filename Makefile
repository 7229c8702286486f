# Firstlight. "make help" lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
# how many simulated servers "make lab" starts
FLEET ?=
PYTEST := $(BIN)/python -m pytest -q
# tests side by side, a file at a time: every file has addresses of its own
JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile
# those that mostly wait for simulators: two for each core
WAITING := -n $$((2 * $(JOBS) < 4 ? 2 * $(JOBS) : 4)) --dist loadfile
# hundreds of short Python programs: let each find the bytecode of the one before
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lab week lab-down lab-status test lint unit integration molecule e2e test-vm bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup:  ## install what is missing: system packages (apt), .venv
	@scripts/system-packages
	@scripts/venv

lab: setup  ## start a lab of simulated servers and bring it up with site.yml (FLEET=24 for more servers)
	@scripts/lab up $(if $(FLEET),--fleet $(FLEET))
	@status=0; source .lab/activate; ansible-playbook site.yml || status=$$?; \
	echo; \
	echo "The run ended with status $$status (0: the fleet meets its policy, 2: it does not, 1: the run broke, 99: it was stopped)."; \
	echo "  report            reports/latest.txt, latest.json, latest.html"; \
	echo "  run it again      source .lab/activate; ansible-playbook site.yml"; \
	echo "  look around       ansible-inventory --graph; scripts/lab status; scripts/lab ssh r1-n01"; \
	echo "  break something   scripts/lab faults; scripts/lab fault r1-n01 psu_failed on"; \
	echo "  see it found      ansible-playbook site.yml -l r1-n01 --flush-cache"; \
	echo "  stop              make lab-down"; \
	exit $$status

week: setup  ## a scripted week in a new lab: hosts fail, are mended, come back (SEED=7 DAYS=7 KILLS=0)
	@scripts/lab up --fresh --sound --fleet 4
	@scripts/lab week --seed $(or $(SEED),7) --days $(or $(DAYS),7) --kills $(or $(KILLS),0)

lab-down:  ## stop the lab and remove its containers
	@if [ -x $(BIN)/python ]; then scripts/lab down; else echo "there is no lab"; fi

lab-status:  ## what of the lab runs
	@scripts/lab status

test: setup  ## everything that CI runs: lint, unit, integration, molecule, e2e
	@scripts/run-tests

lint: setup  ## ruff, mypy, yamllint, ansible-lint
	@scripts/lint

unit: setup  ## tests of one part each
	$(PYTEST) $(SIDE_BY_SIDE) tests/unit

integration: setup  ## tests of the plugins and playbooks against the simulators (needs root or sudo)
	@scripts/system-packages --browser --postgresql
	$(PYTEST) $(WAITING) tests/integration

molecule: setup  ## every role in containers of Debian 12 and 13
	scripts/molecule-all

e2e: setup  ## a whole lab: killed on the way, brought up, run again, broken, repaired
	@scripts/system-packages --postgresql
	$(PYTEST) $(SIDE_BY_SIDE) --durations=8 tests/e2e

test-vm: setup  ## QEMU machines: installed through a real network boot, BIOS and UEFI; the roles on real drives; an hour
	@scripts/system-packages --vm
	$(PYTEST) tests/vm

bench: setup  ## what 500 BMCs, 511 installations and the roles on 20 hosts cost; takes half an hour, tests nothing
	@$(BIN)/python tests/benchmarks/bmc_discovery.py
	@$(BIN)/python tests/benchmarks/maas_fleet.py
	@$(BIN)/python tests/benchmarks/configure_hosts.py
	@$(BIN)/python tests/benchmarks/apt_upstream.py
	@$(BIN)/python tests/benchmarks/health_hosts.py

clean: lab-down  ## remove the lab, the venv, caches and reports
	rm -rf .lab .venv .cache .ansible .mypy_cache .pytest_cache .ruff_cache .hypothesis reports
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

"""Is what runs on an installed host what was pinned? Pure; standard library only."""

from __future__ import annotations

from ..findings import Finding, shorten

ACTION = "escalate"  # installing it once more from the same image would end the same


def judge_image(wanted: dict[str, str], os_release: str, kernel: str) -> list[Finding]:
    """Findings of the stage install: install.wrong_image, install.wrong_kernel, or one that says what runs.

    wanted: image (full name in MAAS: "ubuntu/noble"), release ("ubuntu-24.04"), kernel_version; "" or left out where
    anything is right. os_release: text of /etc/os-release. kernel: uname -r.
    """
    said = _parse(os_release)
    runs = f"{said.get('ID', '?')}-{said.get('VERSION_ID', '?')}"
    codename = said.get("VERSION_CODENAME", "?")
    system, _, series = wanted.get("image", "").partition("/")
    findings = []
    if not said.get("ID"):
        evidence = f"the host does not say what it runs: {shorten(os_release, 80) or 'empty'}"
        findings.append(Finding("install", "unknown", "install.wrong_image", "/etc/os-release", evidence, "retry"))
    elif wanted.get("release") and wanted["release"] != runs:
        findings.append(
            _wrong("image", "/etc/os-release", "{} runs, versions.yml pins {}".format(runs, wanted["release"]))
        )
    elif system == "ubuntu" and series not in (codename, said.get("VERSION_ID")):
        evidence = f"{runs} ({codename}) runs, {wanted['image']} was installed"
        findings.append(_wrong("image", "/etc/os-release", evidence))
    if wanted.get("kernel_version") and wanted["kernel_version"] != kernel:
        evidence = f"{shorten(kernel, 80)} runs, versions.yml pins {wanted['kernel_version']}"
        findings.append(_wrong("kernel", "uname -r", evidence))
    return findings or [Finding("install", "ok", "image", evidence=f"{runs}, Linux {shorten(kernel, 80)}")]


def _wrong(what: str, locator: str, evidence: str) -> Finding:
    return Finding("install", "fail", f"install.wrong_{what}", locator, evidence, ACTION)


def _parse(os_release: str) -> dict[str, str]:
    """NAME=value lines (os-release(5)); values are cut, quotes taken off."""
    found = {}
    for line in os_release[:65536].splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = shorten(value.strip().strip("\"'"), 60)
    return found

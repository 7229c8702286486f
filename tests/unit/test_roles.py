"""Every role keeps the house rules: specified options, prefixed names, no flow control by ignored errors."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
SCENARIOS = {path.parent.name: yaml.safe_load(path.read_text()) for path in (ROOT / "molecule").glob("*/molecule.yml")}
TYPES = {"str": str, "path": str, "int": int, "float": (float, int), "bool": bool, "list": list, "dict": dict}

pytestmark = pytest.mark.parametrize("role", ROLES, ids=[role.name for role in ROLES])


class _Tagged(yaml.SafeLoader):
    """Reads Ansible's own tags (!unsafe, !vault) as what they tag."""


_Tagged.add_multi_constructor("!", lambda loader, tag, node: loader.construct_scalar(node))


def load(path):
    return yaml.load(path.read_text(), Loader=_Tagged)  # a SafeLoader


def yaml_files(role):
    return sorted(role.rglob("*.yml"))


def tasks(role):
    """All tasks and handlers with the file they are in, those within blocks too."""

    def walk(items, path):
        for item in items or []:
            yield path, item
            for part in ("block", "rescue", "always"):
                yield from walk(item.get(part), path)

    for path in yaml_files(role):
        if path.parent.name in ("tasks", "handlers"):
            yield from walk(load(path), path)


def options(role):
    return load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]


def test_defaults_and_specs_agree(role):
    specified = options(role)
    defaults = load(role / "defaults/main.yml")
    assert defaults == {name: option["default"] for name, option in specified.items() if "default" in option}
    for name, option in specified.items():
        assert option.get("description"), f"{name} is not described"
        assert "default" in option or option.get("required"), f"{name} has neither a default nor is it required"
        assert isinstance(defaults.get(name, option.get("default")), TYPES[option["type"]]), name
        if option["type"] == "bool":
            continue
        assert not isinstance(defaults.get(name), bool), name


def test_options_carry_the_role_s_name(role):
    assert all(name.startswith(f"{role.name}_") for name in options(role))


def test_internal_names_carry_the_role_s_name(role):
    prefix = f"__{role.name}_"
    for path in role.glob("vars/*.yml"):
        assert [name for name in load(path) if not name.startswith(prefix)] == []
    for path, task in tasks(role):
        names = [*task.get("vars", {}), *([task["register"]] if "register" in task else [])]
        # a name of the role's own options may be set where another role, or itself, is included
        assert [n for n in names if not n.startswith((prefix, f"{role.name}_"))] == [], f"{path.name}: {task['name']}"


def test_every_task_can_be_chosen_by_tag(role):
    allowed = {f"{role.name}_install", f"{role.name}_configure"}
    for item in load(role / "tasks/main.yml"):
        action = next((key for key in item if key.endswith("meta")), None)
        if action is None:
            assert set(item.get("tags", [])) & allowed, item["name"]
            assert set(item["tags"]) <= allowed, item["name"]


def test_nothing_is_ignored_or_asserted_for_show(role):
    for path, task in tasks(role):
        where = f"{path.relative_to(ROOT)}: {task['name']}"
        assert "ignore_errors" not in task, where
        assert "ignore_unreachable" not in task, where
        that = next((task[key].get("that", []) for key in task if key.endswith(".assert")), None)
        if that is not None:
            conditions = that if isinstance(that, list) else [that]
            assert conditions, where
            assert not [c for c in conditions if c is True or str(c).strip().lower() == "true"], where
            assert "fail_msg" in next(task[key] for key in task if key.endswith(".assert")), where


def test_facts_are_read_only_through_ansible_facts(role):
    magic = {"check_mode", "facts", "managed", "play_hosts", "failed_task", "failed_result", "loop", "connection"}
    for path in [*yaml_files(role), *role.rglob("*.j2")]:
        used = set(re.findall(r"(?<![\w.])ansible_(\w+)", path.read_text())) - magic
        assert not {name for name in used if not name.startswith("version")}, f"{path}: ansible_{used}"


def test_check_mode_foretells_what_a_command_would_change(role):
    """Ansible skips a command in check mode, as if it changed nothing, unless it has creates or removes."""
    variables = {name: str(value) for path in role.glob("vars/*.yml") for name, value in load(path).items()}
    # a handler is called by what was foretold; the proof is left out
    items = [task for path, task in tasks(role) if path.parent.name == "tasks" and path.name != "prove.yml"]
    readings, changing = {}, []
    for task in items:
        options = next((task[key] for key in task if key.split(".")[-1] in ("command", "shell", "script")), None)
        if options is None:
            continue
        if task.get("changed_when") is not False:
            changing.append((task, options))
        elif "not ansible_check_mode" not in str(task.get("when")):  # what is read again after a change
            readings[task.get("register")] = task
    for task, options in changing:
        assert task.get("check_mode") is not False, f"{task['name']}: it acts in check mode"
        assert {"creates", "removes"} & set(options), f"{task['name']}: check mode does not foretell it"
        # and what says whether it is needed is read in check mode too
        text, known = f"{task.get('when', '')} {task.get('loop', '')}", set()
        while more := {name for name in re.findall(r"\b__\w+", text) if name in variables} - known:
            known |= more
            text += " ".join(variables[name] for name in more)
        for name in readings.keys() & set(re.findall(r"\b__\w+", text)):
            assert readings[name].get("check_mode") is False, readings[name]["name"]


def test_what_a_handler_is_called_for_exists(role):
    handlers = {task["name"] for path, task in tasks(role) if path.parent.name == "handlers"}
    notified = set()
    for _, task in tasks(role):
        wanted = task.get("notify", [])
        notified |= {wanted} if isinstance(wanted, str) else set(wanted)
    assert notified <= handlers
    assert handlers <= notified, "a handler that nothing notifies"


def test_the_last_task_reads_back_and_can_fail(role):
    last = load(role / "tasks/main.yml")[-1]
    assert last["ansible.builtin.import_tasks"] == "prove.yml"
    proof = load(role / "tasks/prove.yml")
    assert any("ansible.builtin.assert" in task or "role_findings" in task for task in proof)


def test_a_proof_hands_over_findings(role):
    """So a host leaves its stage with all that is wrong with it."""
    proof = [task for path, task in tasks(role) if path.name == "prove.yml"]
    assert any("role_findings" in task for task in proof)
    assert [task["name"] for task in proof if "ansible.builtin.assert" in task] == []


def test_only_wrong_input_of_people_ends_a_host_s_run(role):
    """An assertion takes the host out of the stage: the roles after it never run. What a host is like is a finding."""
    variables = {name: str(value) for path in role.glob("vars/*.yml") for name, value in load(path).items()}
    registered = {task["register"] for _, task in tasks(role) if "register" in task}
    for path, task in tasks(role):
        fails = next((task[key] for key in task if key.split(".")[-1] in ("assert", "fail")), None)
        if fails is None:
            continue
        text, known = f"{fails.get('that', '')} {task.get('when', '')} {task.get('vars', '')}", set()
        while more := {name for name in re.findall(r"\b__\w+", text) if name in variables} - known:
            known |= more
            text += " ".join(variables[name] for name in more)
        where = f"{path.relative_to(ROOT)}: {task['name']}"
        assert {name for name in registered if re.search(rf"\b{name}\b", text)} == set(), where
        # what was installed is what people chose; an option, a profile and the inventory are theirs too
        facts = set(re.findall(r"ansible_facts\W+(\w+)", text))
        assert {fact for fact in facts if not fact.startswith("distribution")} == set(), where


def test_a_check_that_the_site_switched_off_is_off_in_the_role_s_proof_too(role):
    for _, task in tasks(role):
        for check in task.get("host_check", {}).get("checks", []):
            wanted = f"{{{{ host_check_skip | default([]) | selectattr('check', 'equalto', '{check}') }}}}"
            assert task["host_check"].get("skip") == wanted, task["name"]


def test_lists_of_a_role_s_own_repositories_are_fetched_by_what_they_are_of(role):
    """A run that was stopped after it wrote a repository has young lists, and none of that one."""
    written = [Path(task[key]["dest"]) for _, task in tasks(role) for key in task if key.endswith(".template")]
    for _, task in tasks(role):
        files = task.get("host_files", {}).get("files", [])
        written += [Path(entry["path"]) for entry in files if entry.get("state") != "absent"]
    own = [path.name for path in written if path.parent == Path("/etc/apt/sources.list.d")]
    fetched = [str(task["apt_lists"]["sources"]) for _, task in tasks(role) if "apt_lists" in task]
    assert [name for name in own if not any(re.sub(r"{{.*}}", r"\\1", name) in names for names in fetched)] == []
    if fetched and role.name != "apt_cache":  # which installs its server before it writes repositories
        by_date = [
            t["ansible.builtin.apt"] for _, t in tasks(role) if "update_cache" in t.get("ansible.builtin.apt", {})
        ]
        # only where there is no such repository
        only = f"{{{{ {role.name}_package_source == 'distribution' }}}}"
        assert [options["update_cache"] for options in by_date if options["update_cache"] != only] == []


def test_a_scenario_converges_the_role_on_both_debians(role):
    scenario = SCENARIOS[role.name]
    assert scenario["provisioner"]["inventory"]["group_vars"]["all"]["scenario_role"] == role.name
    shared = load(ROOT / ".config/molecule/config.yml")
    platforms = scenario.get("platforms", shared["platforms"])
    # without a word of somebody's these are the images
    images = {re.sub(r"\$\{\w+:-(.+)\}", r"\1", platform["image"]) for platform in platforms}
    assert images == {"localhost/firstlight-debian:12", "localhost/firstlight-debian:13"}
    sequence = scenario.get("scenario", shared["scenario"])["test_sequence"]
    assert [step for step in sequence if step != "prepare"] == [
        "syntax", "create", "check", "converge", "idempotence", "verify", "destroy",
    ]  # fmt: skip
    verify = (ROOT / "molecule" / role.name / "verify.yml").read_text()
    assert not re.search(r"that:\s*(-\s*)?true\s*$", verify, re.MULTILINE)


def test_each_role_is_a_part_of_configure_with_its_tags(role):
    play = load(ROOT / "playbooks/configure.yml")[0]
    stages = [task["fleet_stage"] for task in play["tasks"] if "fleet_stage" in task]
    assert [stage["parts"] for stage in stages] == ["{{ __stage_parts }}"] * 2
    assert role.name in play["vars"]["__stage_parts"]
    includes = [t for t in play["tasks"] if t.get("ansible.builtin.include_role", {}).get("name") == role.name]
    # a part of a role may come earlier by itself
    include = next(t for t in includes if "tasks_from" not in t["ansible.builtin.include_role"])
    assert include["tags"] == [role.name, f"{role.name}_install", f"{role.name}_configure"]
    assert include["ansible.builtin.include_role"]["apply"]["tags"] == [role.name]
    conditions = include["when"] if isinstance(include["when"], list) else [include["when"]]
    assert f"'{role.name}' not in configure_skip | default([])" in conditions

"""The pool of a host from nothing to a replaced drive, against the stand-in of the scenario zfs_pool."""

import pytest
from standin import Host

from firstlight.zfs.plan import Wanted
from firstlight.zfs.run import NOT_FOUND, bring_about

DATASETS = [("images", {"recordsize": "1M"}), ("scratch", {"quota": "none"})]
WANTED = Wanted(
    name="data",
    drives=6,
    pool_properties={"autotrim": "on"},
    properties={"compression": "lz4", "atime": "off", "mountpoint": "/data"},
)
CHANGING = {"create", "import", "replace", "set", "--all"}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def want(**changes):
    return Wanted(**{**WANTED.__dict__, **changes})


def bring(host, wanted=WANTED, check=False):
    host.calls.clear()
    return bring_about(wanted, DATASETS, host.facts(), host.run, check)


def changes(host):
    return [
        c
        for c in host.calls
        if c[0] in ("zpool", "zfs", "wipefs") and set(c[1:3]) & CHANGING and c[-1] != "/dev/disk/by-id/"
    ]


def symptoms(outcome):
    return [finding.symptom for finding in outcome.findings]


def test_made_once_and_then_left_alone(host):
    outcome = bring(host)
    assert outcome.action == "create"
    assert symptoms(outcome) == ["zfs_pool"]
    create = outcome.commands[0]
    assert create[:4] == ["zpool", "create", "-o", "ashift=12"]
    assert create[create.index("raidz2") + 1 :] == [f"/dev/disk/by-id/nvme-Stand_in_S7F{n:03d}" for n in range(6)]
    assert "-f" not in create
    again = bring(host)
    assert (again.action, again.commands, changes(host)) == ("keep", [], [])
    assert [(f.status, f.evidence) for f in again.findings] == [("ok", "ONLINE over 6 drives; not scrubbed yet")]


def test_check_mode_says_what_it_would_do_and_does_nothing(host):
    foreseen = bring(host, check=True)
    assert changes(host) == []
    done = bring(host)
    # what the drives are called is noted in the pool only when it is there
    assert foreseen.commands == [c for c in done.commands if "firstlight:drives" not in " ".join(c)]
    assert bring(host, want(properties={"compression": "zstd"}), check=True).commands == [
        ["zfs", "set", "compression=zstd", "data"]
    ]
    assert changes(host) == []


def test_check_mode_before_zfs_is_installed(host):
    outcome = bring_about(WANTED, [], host.facts(), lambda command: (NOT_FOUND, "", "no"), True)
    assert outcome.action == "create"
    outcome = bring_about(WANTED, [], host.facts(), lambda command: (NOT_FOUND, "", "no"), False)
    assert (outcome.action, symptoms(outcome)) == ("refuse", ["zfs.not_installed"])


def test_order_of_drives_does_not_matter(host):
    bring(host)
    host.control("shuffle")
    assert bring(host).commands == []


def test_settings_that_drifted_are_set_again(host):
    bring(host)
    host.run(["zfs", "set", "atime=on", "data"])
    host.run(["zfs", "set", "recordsize=131072", "data/images"])
    assert bring(host).commands == [
        ["zfs", "set", "atime=off", "data"],
        ["zfs", "set", "recordsize=1M", "data/images"],
    ]
    assert bring(host).commands == []


def test_a_drive_that_is_gone_is_named_by_its_serial_and_replaced(host):
    bring(host)
    host.control("pull", "S7F002")
    outcome = bring(host)
    assert outcome.commands == []
    finding = outcome.findings[0]
    assert (finding.status, finding.symptom, finding.action) == ("fail", "zfs.drive_missing", "reseat")
    assert finding.locator == "serial S7F002, nvme-Stand_in_S7F002"
    host.control("add", "S7F009", "ext4", "photos")
    refused = bring(host, want(replace={"S7F002": "S7F009"}))
    assert changes(host) == []
    assert refused.findings[0].symptom == "zfs.drive_not_empty"
    assert "ext4 'photos' on nvme6n1" in refused.findings[0].evidence
    done = bring(host, want(replace={"S7F002": "S7F009"}, wipe=("S7F009",)))
    assert ["zpool", "replace", "data"] in [c[:3] for c in done.commands]
    assert bring(host, want(replace={"S7F002": "S7F009"}, wipe=("S7F009",))).commands == []
    assert symptoms(bring(host)) == ["zfs_pool"]


def test_a_pool_that_is_there_is_imported_and_never_made_anew(host):
    bring(host)
    host.control("export")
    assert bring(host, check=True).commands[0][:2] == ["zpool", "import"]
    outcome = bring(host)
    assert (outcome.action, [c[1] for c in outcome.commands]) == ("import", ["import"])
    host.control("other-host")
    refused = bring(host)
    assert (refused.action, symptoms(refused)) == ("refuse", ["zfs.pool_of_other_host"])
    assert changes(host) == []
    assert bring(host, want(force_import=True)).action == "import"
    # too many of its drives are gone: still its drives
    host.control("export")
    for n in range(3):
        host.control("pull", f"S7F{n:03d}")
    lost = bring(host, want(drives=0, wipe=()))
    assert (lost.action, symptoms(lost)) == ("refuse", ["zfs.pool_unavailable"])


def test_wiping_is_for_the_drives_that_are_listed(host):
    host.control("put", "S7F003", "linux_raid_member")
    refused = bring(host)
    assert (refused.action, changes(host)) == ("refuse", [])
    assert "serial S7F003" in refused.findings[0].locator
    assert "linux_raid_member" in refused.findings[0].evidence
    done = bring(host, want(wipe=("S7F003",)))
    assert done.commands[0] == ["wipefs", "--all", "--quiet", "/dev/disk/by-id/nvme-Stand_in_S7F003"]
    assert [c for c in done.commands if c[0] == "wipefs"] == done.commands[:1]
    assert symptoms(done) == ["zfs_pool"]


SIX = tuple(f"S7F{n:03d}" for n in range(6))
SEARCH = ["zpool", "import", "-d", "/dev/disk/by-id/"]


def test_a_pool_that_is_not_offered_is_given_up_only_when_asked(host):
    bring(host)
    host.control("forget")  # as where it cannot be imported: its labels are all that is left
    for listed in ((), SIX):
        refused = bring(host, want(wipe=listed))
        assert (refused.action, symptoms(refused), changes(host)) == ("refuse", ["zfs.pool_unavailable"] * 6, [])
    assert bring(host, want(wipe=SIX[:5], anew=True)).action == "refuse"
    assert changes(host) == []
    assert bring(host, want(wipe=SIX, anew=True)).action == "create"


@pytest.mark.parametrize(
    ("answer", "symptom"),
    [
        ((1, "", "Input/output error\n"), "zfs.command_failed"),
        ((1, "", ""), "zfs.command_failed"),
        ((1, "", "cannot resolve path '/dev/disk/by-id/'\nno pools available to import\n"), "zfs.command_failed"),
        ((-9, "", "no pools"), "zfs.command_failed"),
        ((0, "", ""), "zfs.unreadable"),
    ],
)
@pytest.mark.parametrize("there", ["pool", "nothing"])
@pytest.mark.parametrize("anew", [False, True])
def test_pools_that_cannot_be_looked_for_are_not_none(host, answer, symptom, there, anew):
    if there == "pool":
        bring(host)
        host.control("export")
    wanted = want(wipe=SIX, anew=anew)
    for check in (True, False):
        host.calls.clear()
        outcome = bring_about(wanted, DATASETS, host.facts(), lambda c: answer if c == SEARCH else host.run(c), check)
        assert (outcome.action, symptoms(outcome), changes(host)) == ("refuse", [symptom], [])
    assert bring(host, wanted).action == ("import" if there == "pool" and not anew else "create")


def test_no_pool_is_none_whatever_the_status(host):
    for status in (0, 1):
        answer = (status, "", "no pools available to import\n")
        outcome = bring_about(WANTED, [], host.facts(), lambda c, a=answer: a if c == SEARCH else host.run(c), True)
        assert (outcome.action, symptoms(outcome)) == ("create", [])


def test_drives_of_another_pool_are_wiped_where_they_are_listed(host):
    for serial in SIX[:3]:
        host.control("put", serial, "zfs_member", "tank")
    assert symptoms(bring(host)) == ["zfs.drive_not_empty"] * 3
    assert changes(host) == []
    assert bring(host, want(wipe=SIX[:3])).action == "create"


def test_a_replaced_drive_that_is_there_again(host):
    bring(host)
    host.control("pull", "S7F002")
    host.control("add", "S7F009")
    bring(host, want(replace={"S7F002": "S7F009"}))
    host.control("add", "S7F00X", "zfs_member", "data")  # another one that was in the pool
    listed = bring(host, want(wipe=("S7F00X",)))
    assert (symptoms(listed), changes(host)) == (["zfs.drive_unused"], [])
    host.control("pull", "S7F003")
    done = bring(host, want(replace={"S7F003": "S7F00X"}, wipe=("S7F00X",)))
    assert done.commands[0] == ["wipefs", "--all", "--quiet", "/dev/disk/by-id/nvme-Stand_in_S7F00X"]
    assert symptoms(bring(host)) == ["zfs_pool"]


def test_another_link_to_the_same_drive_is_the_same_drive(host):
    bring(host)

    def run(command):
        code, text, errors = host.run(command)
        return code, text.replace("nvme-Stand_in_", "wwn-0x") if command[:2] == ["zpool", "status"] else text, errors

    outcome = bring_about(WANTED, DATASETS, host.facts(), run, False)
    assert outcome.action == "keep"
    assert [f.status for f in outcome.findings] == ["ok"]


def test_pools_that_change_while_they_are_read(host):
    bring(host)
    outcome = bring_about(WANTED, [], host.facts(), lambda c: (0, "", "") if "-L" in c else host.run(c), False)
    assert (outcome.action, symptoms(outcome)) == ("refuse", ["zfs.unreadable"])


def test_a_command_that_fails_is_a_finding(host):
    def run(command):
        return (1, "", "cannot create 'data': I/O error\n") if command[1] == "create" else host.run(command)

    outcome = bring_about(WANTED, [], host.facts(), run, False)
    assert [(f.symptom, f.evidence) for f in outcome.findings] == [
        ("zfs.command_failed", "cannot create 'data': I/O error")
    ]


def test_zfs_that_does_not_answer_is_a_finding(host):
    outcome = bring_about(WANTED, [], host.facts(), lambda c: (1, "", "The ZFS modules are not loaded."), False)
    assert [(f.symptom, f.evidence) for f in outcome.findings] == [("zfs.no_module", "The ZFS modules are not loaded.")]

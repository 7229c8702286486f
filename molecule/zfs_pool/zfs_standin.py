#!/usr/bin/python3
"""A stand-in for drives and ZFS, for the scenario zfs_pool and unit tests: containers have neither.

Called as zpool, zfs, lsblk, wipefs or udevadm it answers as those do, from a state in a file, as far as the role asks.
Called as ``zfs_standin.py``: ``reset``, ``pull SERIAL``, ``add SERIAL [TYPE LABEL]``, ``shuffle``, ``put SERIAL TYPE
[LABEL]``, ``export``, ``other-host``, ``forget`` (pools, of which the labels stay), ``break`` and ``repair`` (the
search for pools). It knows nothing of data; what ZFS really does is shown on virtual machines.
"""

import json
import os
import re
import sys
from pathlib import Path

STATE, DEV = Path("/var/lib/zfs-standin.json"), Path("/dev")
SIZE = 3840755982336
ROOT_DEFAULTS = {"compression": "off", "atime": "on", "mountpoint": "", "recordsize": "131072", "quota": "0"}
INHERITED = ("compression", "atime", "recordsize", "xattr", "acltype")


def fresh():
    drives = [drive(f"S7F{n:03d}", f"nvme{n}n1") for n in range(6)]
    return {"drives": drives, "pools": {}, "guid": 9000}


def drive(serial, name, kind="", label=""):
    signatures = [{"at": "", "type": kind, "label": label}] if kind else []
    return {"serial": serial, "name": name, "here": True, "parts": 0, "signatures": signatures}


def by_id(one):
    return f"nvme-Stand_in_{one['serial']}"


def save(state):
    new = STATE.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(state))
    new.replace(STATE)  # others read it meanwhile
    links = DEV / "disk/by-id"
    links.mkdir(parents=True, exist_ok=True)
    for old in [*links.glob("nvme-Stand_in_*"), *DEV.glob("nvme*n1*"), *DEV.glob("vda*")]:
        old.unlink()
    for name in ("vda", "vda1"):
        (DEV / name).touch()
    (links / "virtio-SYSTEM").unlink(missing_ok=True)
    (links / "virtio-SYSTEM").symlink_to("../../vda")
    for one in state["drives"]:
        for part in range(one["parts"] + 1) if one["here"] else ():
            node, link = (f"p{part}", f"-part{part}") if part else ("", "")
            (DEV / (one["name"] + node)).touch()
            (links / (by_id(one) + link)).symlink_to(f"../../{one['name']}{node}")


def find(state, path):
    """The drive that a path, by-id or kernel name, leads to."""
    name = re.sub(r"-part[0-9]+$", "", Path(path).name)
    name = re.sub(r"^(nvme[0-9]+n1)p[0-9]+$", r"\1", name)
    return next((d for d in state["drives"] if d["here"] and name in (by_id(d), d["name"])), None)


def lsblk(state, arguments):
    rows = []
    root = next(
        line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] == "/"
    )
    common = {"rota": False, "log-sec": 512, "phy-sec": 4096, "mountpoints": [None], "wwn": None, "model": None}
    system = {**common, "name": "vda", "kname": "vda", "type": "disk", "size": 10**10, "serial": "SYSTEM"}
    system.update({"tran": "virtio", "maj:min": "254:0"})
    part = {**system, "name": "vda1", "kname": "vda1", "type": "part", "serial": None, "mountpoints": ["/"]}
    part.update({"maj:min": root[2], "fstype": "ext4"})
    rows.append({**system, "children": [part]})
    for number, one in enumerate(d for d in state["drives"] if d["here"]):
        row = {**common, "name": one["name"], "kname": one["name"], "type": "disk", "size": SIZE, "model": "Stand in",
               "serial": one["serial"], "wwn": f"eui.{one['serial']}", "tran": "nvme", "mountpoints": [None],
               "maj:min": f"259:{number * 16}"}  # fmt: skip
        parts = [{**row, "name": f"{one['name']}p{p}", "kname": f"{one['name']}p{p}", "type": "part", "serial": None,
                  "maj:min": f"259:{number * 16 + p}"} for p in range(1, one["parts"] + 1)]  # fmt: skip
        rows.append({**row, "children": parts} if parts else row)
    print(json.dumps({"blockdevices": rows}))
    return 0


def wipefs(state, arguments):
    paths = [a for a in arguments if a.startswith("/")]
    if "--all" in arguments:
        one = find(state, paths[0])
        if one is None:
            print(f"wipefs: error: {paths[0]}: probing initialization failed: No such file", file=sys.stderr)
            return 1
        at = re.search(r"(?:-part|p)([0-9]+)$", paths[0])
        one["signatures"] = [s for s in one["signatures"] if s["at"] != (at.group(1) if at else "")]
        if not at:
            one.update(parts=0, signatures=[])
        save(state)
        return 0
    rows = []
    for one in state["drives"]:
        for sign in one["signatures"] if one["here"] else ():
            node = f"/dev/{one['name']}" + (f"p{sign['at']}" if sign["at"] else "")
            if node in paths:
                rows.append({"device": Path(node).name, "type": sign["type"], "label": sign["label"] or None,
                             "uuid": None, "usage": "filesystem"})  # fmt: skip
    print(json.dumps({"signatures": rows}) if rows else "")
    return 0


def leaf_state(state, leaf):
    return "ONLINE" if any(d["here"] and by_id(d) == leaf["id"] for d in state["drives"]) else "UNAVAIL"


def show(state, name, pool, real, heading, numbers=False):
    lines = [f"  pool: {name}"] if not heading else [f"   pool: {name}", f"     id: {pool['guid']}"]
    lost = max(sum(leaf_state(state, leaf) != "ONLINE" for leaf in g["leaves"]) for g in pool["groups"])
    allowed = {"stripe": 0, "mirror": 1}.get(
        pool["level"], int(pool["level"][-1]) if pool["level"][-1].isdigit() else 0
    )
    whole = "ONLINE" if lost == 0 else "DEGRADED" if lost <= allowed else "UNAVAIL"
    lines.append(f" state: {whole}")
    if heading and pool.get("other_host"):
        lines += ["status: The pool was last accessed by another system.", " action: import it with -f",
                  "   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY"]  # fmt: skip
    elif whole == "DEGRADED":
        lines += ["status: One or more devices could not be used because the label is missing or",
                  "\tinvalid.", "action: Replace the device using 'zpool replace'.",
                  "   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-4J"]  # fmt: skip
    counts = "" if heading else "     0     0     0"
    lines += ["config:", ""] if heading else ["config:", "", "\tNAME  STATE     READ WRITE CKSUM"]
    lines.append(f"\t{name}  {whole}{counts}")
    for number, group in enumerate(pool["groups"]):
        indent = "  "
        if pool["level"] != "stripe":
            # with -g zpool numbers the groups too
            lines.append(f"\t  {number + 7000000 if numbers else pool['level'] + '-' + str(number)}  {whole}{counts}")
            indent = "    "
        for leaf in group["leaves"]:
            where = f"/dev/disk/by-id/{leaf['id']}-part1"
            one = find(state, where)
            if numbers:
                lines.append(f"\t{indent}{leaf['guid']}  {'ONLINE' if one else 'UNAVAIL'}{counts}")
            elif one is None:
                lines.append(f"\t{indent}{leaf['guid']}  UNAVAIL{counts}  was {where}")
            else:
                lines.append(f"\t{indent}{'/dev/' + one['name'] + 'p1' if real else where}  ONLINE{counts}")
    lines += ["", "" if heading else "errors: No known data errors", ""]
    return "\n".join(lines)


def pairs(arguments, option):
    return dict(arguments[i + 1].split("=", 1) for i, a in enumerate(arguments) if a == option)


def take(state, name, path):
    """Partition a drive and give it the pool's label; refuses what ZFS would refuse without -f."""
    one = find(state, path)
    if one is None:
        raise SystemExit(f"cannot open '{path}': no such device")
    if one["signatures"]:
        raise SystemExit(f"{path} is in use and contains a {one['signatures'][0]['type']} filesystem.")
    one.update(parts=2, signatures=[{"at": "1", "type": "zfs_member", "label": name}])
    state["guid"] += 1
    return {"id": by_id(one), "guid": state["guid"]}


def zpool(state, arguments):
    verb, rest = arguments[0], arguments[1:]
    pools = state["pools"]
    if verb == "status":
        shown = [
            show(state, n, p, "-L" in rest, False, "-g" in rest) for n, p in sorted(pools.items()) if p["imported"]
        ]
        print("\n".join(shown) or "no pools available")
        return 0
    if verb == "list":
        print("\n".join(f"{name}\t7" for name, pool in pools.items() if pool["imported"]))
        return 0
    if verb == "import":
        away = {n: p for n, p in pools.items() if not p["imported"]}
        wanted = [a for a in rest if a.isdigit() or a in away]
        if not wanted and state.get("broken"):
            print("Input/output error", file=sys.stderr)
            return 1
        if not wanted:
            print("\n".join(show(state, n, p, False, True) for n, p in away.items()), end="")
            if not away:
                print("no pools available to import", file=sys.stderr)
            return 0
        pool = next(p for n, p in away.items() if wanted[0] in (n, str(p["guid"])))
        if pool.get("other_host") and "-f" not in rest:
            print("cannot import: pool was previously in use from another system.", file=sys.stderr)
            return 1
        pool.update(imported=True, other_host=False)
    elif verb == "create":
        return zpool_create(state, rest)
    elif verb == "get":
        for key, value in pools[rest[-1]]["properties"].items():
            print(rest[-1], key, value, sep="\t")
        return 0
    elif verb == "set":
        pools[rest[1]]["properties"].update([rest[0].split("=", 1)])
    elif verb == "replace":
        name, old, new = rest
        leaves = [leaf for group in pools[name]["groups"] for leaf in group["leaves"]]
        leaf = next(one for one in leaves if old == str(one["guid"]))
        leaf.update(take(state, name, new))
    else:
        print(f"the stand-in does not know zpool {verb}", file=sys.stderr)
        return 2
    save(state)
    return 0


def zpool_create(state, rest):
    options = 0
    while rest[options] in ("-o", "-O", "-f"):
        options += 1 if rest[options] == "-f" else 2
    name, *vdevs = rest[options:]
    level, groups = "stripe", []
    for word in vdevs:
        if word.startswith("/"):
            if level == "stripe":
                groups.append({"leaves": []})
            groups[-1]["leaves"].append(take(state, name, word))
        else:
            level = word
            groups.append({"leaves": []})
    state["guid"] += 1
    root = {**ROOT_DEFAULTS, "mountpoint": f"/{name}", **pairs(rest[:options], "-O")}
    state["pools"][name] = {
        "imported": True,
        "guid": state["guid"],
        "level": level,
        "groups": groups,
        "properties": {"autotrim": "off", **pairs(rest[:options], "-o")},
        "datasets": {name: root},
    }
    save(state)
    return 0


def zfs(state, arguments):
    verb, rest = arguments[0], arguments[1:]
    pool = state["pools"][rest[-1].split("/")[0]]
    if verb == "get":
        if "value" in rest:  # -o value PROPERTY POOL
            print(pool["datasets"][rest[-1]].get(rest[-2], "-"))
            return 0
        for name, values in pool["datasets"].items():
            for key, value in values.items():
                print(name, key, value, sep="\t")
        return 0
    if verb == "set":
        pool["datasets"][rest[-1]].update(word.split("=", 1) for word in rest[:-1])
    elif verb == "create":
        parts = rest[-1].split("/")
        for depth in range(2, len(parts) + 1):
            name = "/".join(parts[:depth])
            above = pool["datasets"]["/".join(parts[: depth - 1])]
            values = {k: above[k] for k in INHERITED if k in above}
            values["mountpoint"] = f"{above['mountpoint']}/{parts[depth - 1]}"
            pool["datasets"].setdefault(name, {**ROOT_DEFAULTS, **values})
        pool["datasets"][rest[-1]].update(pairs(rest, "-o"))
    for values in pool["datasets"].values():  # as -p prints them
        for key in ("recordsize", "quota"):
            number = re.fullmatch(r"([0-9]+)([KMGT])", values.get(key, ""))
            if number:
                values[key] = str(int(number.group(1)) * 1024 ** " KMGT".index(number.group(2)))
    save(state)
    return 0


def control(state, arguments):
    verb, rest = arguments[0], arguments[1:]
    if verb == "reset":
        state = fresh()
    elif verb == "pull":
        next(d for d in state["drives"] if d["serial"] == rest[0])["here"] = False
    elif verb == "add":
        used = {d["name"] for d in state["drives"]}
        name = next(f"nvme{n}n1" for n in range(99) if f"nvme{n}n1" not in used)
        state["drives"].append(drive(rest[0], name, *rest[1:3]))
    elif verb == "put":
        one = next(d for d in state["drives"] if d["serial"] == rest[0])
        one["signatures"] = [{"at": "", "type": rest[1], "label": "".join(rest[2:3])}]
    elif verb == "shuffle":  # as another boot may number them
        names = [d["name"] for d in state["drives"]]
        for one, name in zip(state["drives"], names[1:] + names[:1], strict=True):
            one["name"] = name
    elif verb in ("export", "other-host"):
        for pool in state["pools"].values():
            pool.update(imported=False, other_host=verb == "other-host")
    elif verb == "forget":
        state["pools"] = {}
    elif verb in ("break", "repair"):
        state["broken"] = verb == "break"
    else:
        print(__doc__)
        return 2
    save(state)
    return 0


def answer(name, arguments, state):
    programs = {"zpool": zpool, "zfs": zfs, "lsblk": lsblk, "wipefs": wipefs, "udevadm": lambda *_: 0}
    return programs.get(name, control)(state, arguments)


def main():
    state = json.loads(STATE.read_text()) if STATE.exists() else fresh()
    return answer(Path(sys.argv[0]).name, sys.argv[1:], state)


if __name__ == "__main__":
    sys.exit(main())

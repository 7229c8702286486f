"""A machine's power, as its BMC switches it: python -m simulators.vm on|off|press NAME. The lab's BMC calls this."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from simulators import lab_files
from simulators.vm import qemu


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 not done (one line on standard error says why)."""
    parser = argparse.ArgumentParser(prog="python -m simulators.vm", description=__doc__)
    parser.add_argument("--lab-dir", type=Path, default=os.environ.get("FIRSTLIGHT_LAB_DIR", ".lab"))
    parser.add_argument("action", choices=("on", "off", "press", "watch"))
    parser.add_argument("name", help="the machine's name in lab.json")
    parser.add_argument("firmware", nargs="?", choices=("uefi", "bios"), default="uefi")
    parser.add_argument("sources", nargs="*", help="pxe, disk: what its firmware tries, in this order")
    options = parser.parse_args(arguments)
    lab_dir = Path(options.lab_dir).resolve()
    try:
        lab = lab_files.load(lab_dir)
        if options.action == "watch":
            qemu.watch(lab_dir, lab, options.name, options.firmware, options.sources)
        elif options.action == "on":
            print(qemu.switch_on(lab_dir, lab, options.name, options.firmware, options.sources))
        else:
            switch = {"off": qemu.switch_off, "press": qemu.press}[options.action]
            print(f"{options.name}: {switch(lab_dir, lab, options.name)}")
    except (lab_files.LabError, OSError) as error:
        print(f"simulated server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

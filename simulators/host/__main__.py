"""Switch a simulated server's container on or off, as power does: python -m simulators.host on|off NAME."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from simulators import lab_files
from simulators.host import containers


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 not done (one line on standard error says why)."""
    parser = argparse.ArgumentParser(prog="python -m simulators.host", description=__doc__)
    parser.add_argument("action", choices=("on", "off"))
    parser.add_argument("name", help="the machine's name in lab.json")
    parser.add_argument("--lab-dir", type=Path, default=os.environ.get("FIRSTLIGHT_LAB_DIR", ".lab"))
    options = parser.parse_args(arguments)
    switch = containers.switch_on if options.action == "on" else containers.switch_off
    try:
        lab_dir = Path(options.lab_dir).resolve()
        print(f"{options.name}: {switch(lab_dir, lab_files.load(lab_dir), options.name)}")
    except lab_files.LabError as error:
        print(f"simulated host: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

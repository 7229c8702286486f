"""python -m simulators.maas --lab-dir DIR"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from simulators import lab_files
from simulators.maas.server import Server
from simulators.maas.settings import Settings


def main() -> int:
    """Serve the lab's MAAS region; 1 with one line on stderr when that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m simulators.maas", description="A simulated MAAS region.")
    parser.add_argument("--lab-dir", required=True, help="the folder that holds lab.json")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s simulated MAAS: %(message)s")
    try:
        server = Server(Settings.load(arguments.lab_dir))
        asyncio.run(server.serve())
    except (lab_files.LabError, ValueError, OSError) as error:
        print(f"simulated MAAS: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

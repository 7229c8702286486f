"""python -m simulators.bmc --lab-dir DIR: run the simulated BMCs of a lab until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from pathlib import Path

from aiohttp import web

from simulators import lab_files
from simulators.bmc.admin import application
from simulators.bmc.service import Service


async def serve(lab_dir: Path) -> None:
    """Serve until SIGTERM or SIGINT. LabError when the lab cannot be served; OSError when an address is taken."""
    lab = lab_files.load(lab_dir)
    for key in ("username", "password", "admin"):
        if not lab.get("bmc", {}).get(key):
            raise lab_files.LabError(f"{lab_dir / 'lab.json'}: bmc: lacks {key}")
    lab_files.make_certificates(lab_dir, lab)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = Service(lab_dir, lab)
    runner = web.AppRunner(application(service), access_log=None)
    pid_file = lab_dir / "pid" / "bmc.pid"
    try:
        await runner.setup()
        await web.TCPSite(runner, *lab_files.split_address(lab["bmc"]["admin"])).start()
        await service.start()
        lab_files.write_atomic(pid_file, f"{os.getpid()}\n")
        print(f"simulated BMCs ready: {len(service.bmcs)}", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()
        await service.stop()
        pid_file.unlink(missing_ok=True)


def main() -> int:
    """Read the command line; 1 and one line on stderr when the lab cannot be served."""
    parser = argparse.ArgumentParser(prog="python -m simulators.bmc", description="Simulated BMCs of a lab.")
    parser.add_argument("--lab-dir", type=Path, required=True, help="folder that holds lab.json")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # A listener and its connections are open files, and a large lab has many.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        asyncio.run(serve(options.lab_dir.resolve()))
    except (lab_files.LabError, OSError) as error:
        print(f"simulators.bmc: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

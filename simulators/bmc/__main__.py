"""python -m simulators.bmc: run the simulated BMCs of a lab, or one that serves a captured tree, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

from aiohttp import web

from simulators import lab_files
from simulators.bmc import captured, personality
from simulators.bmc.admin import application
from simulators.bmc.service import Service

PASSWORD = "FIRSTLIGHT_BMC_PASSWORD"  # noqa: S105 - the name of the variable, not a password


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


async def serve_tree(options: argparse.Namespace, folder: Path) -> None:
    """Serve one captured tree until SIGTERM or SIGINT; folder: for the CA and the certificate."""
    found = captured.Captured(options.tree)
    password = os.environ.get(PASSWORD)
    if not password:
        raise lab_files.LabError(f"${PASSWORD} is not set: the password that clients must use")
    machine = {"name": "tree", "index": 1, "service_tag": "CAPTURED", "bmc_address": options.address}
    lab = {
        "bmc": {"port": options.port, "username": options.username, "password": password, "latency": options.latency},
        "machines": [machine | {"vendor": "captured"}],
    }
    lab_files.make_certificates(folder, lab)
    if options.ca:
        lab_files.write_atomic(options.ca, (folder / "ca.pem").read_bytes())
    kind = personality.Personality(found.answer, found.act, sessions=found.sessions, dell=False)
    personality.PERSONALITIES["captured"] = kind
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory(prefix="simulated-bmc-") as state:
        (Path(state) / "tls").symlink_to(folder / "tls")
        service = Service(Path(state), lab)
        try:
            await service.start()
            print(f"simulated BMC ready: {len(found)} resources at {options.address}:{options.port}", flush=True)
            await stop.wait()
        finally:
            await service.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulators.bmc", description="Simulated BMCs of a lab.")
    parser.add_argument("--lab-dir", type=Path, help="folder that holds lab.json; with --tree: for the CA")
    one = parser.add_argument_group("one BMC that serves a captured tree as it is")
    one.add_argument(
        "--tree", type=Path, metavar="DIR", help="folder of the tree: .../index.json or _redfish_v1_*.json"
    )
    one.add_argument("--address", default="127.0.0.1", help="default 127.0.0.1")
    one.add_argument("--port", type=int, default=8443, help="default 8443")
    one.add_argument("--username", default="root", help=f"default root; the password is read from ${PASSWORD}")
    one.add_argument("--latency", type=float, default=0, metavar="SECONDS", help="seconds that each request takes")
    one.add_argument("--ca", type=Path, metavar="FILE", help="where to write the certificate of the CA")
    options = parser.parse_args()
    if not options.tree and not options.lab_dir:
        parser.error("--lab-dir or --tree is needed")
    if options.tree and not (options.lab_dir or options.ca):
        parser.error("--tree needs --ca FILE (or --lab-dir DIR): clients must know whom to trust")
    return options


def main() -> int:
    """Read the command line; 1 and one line on stderr when the lab cannot be served."""
    options = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    # A listener and its connections are open files, and a large lab has many.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        if options.tree and options.lab_dir:
            asyncio.run(serve_tree(options, options.lab_dir.resolve()))
        elif options.tree:
            with tempfile.TemporaryDirectory(prefix="simulated-bmc-ca-") as folder:
                asyncio.run(serve_tree(options, Path(folder)))
        else:
            asyncio.run(serve(options.lab_dir.resolve()))
    except (lab_files.LabError, captured.TreeError, OSError) as error:
        print(f"simulators.bmc: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

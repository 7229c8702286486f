"""Chromium without a screen, driven over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/).

The protocol is JSON over a WebSocket, which aiohttp speaks; of its hundreds of commands these tests need ten.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60  # seconds for anything that takes one on an idle machine
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Chromium:
    """One tab. ``events`` holds what the browser told since ``open``: (method, parameters)."""

    def __init__(self, folder: Path) -> None:
        program = next((path for name in NAMES if (path := shutil.which(name))), None)
        assert program, f"none of {', '.join(NAMES)} is there; scripts/system-packages --browser installs Debian's"
        self.events: list[tuple[str, dict[str, Any]]] = []
        folder.mkdir(exist_ok=True)
        self._port_file = folder / "DevToolsActivePort"
        # tests run as root, for whom its sandbox does not start; it sees pages of this project alone
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"]
        self._log = (folder / "chromium.log").open("w")
        self._process = subprocess.Popen(
            [program, *options, f"--user-data-dir={folder}", "about:blank"],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._loop = asyncio.new_event_loop()
        self._number, self._session = 0, ""
        try:
            self._loop.run_until_complete(self._connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End it and all that it started, so that nothing writes into its folder any more."""
        until = time.monotonic() + 5  # where nobody takes note of the dead they stay
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.poll()  # takes note that it is gone
                time.sleep(0.02)
        if client := getattr(self, "_client", None):
            self._loop.run_until_complete(client.close())
        self._loop.close()
        self._log.close()

    async def _connect(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._port_file.exists() or "\n" not in self._port_file.read_text():
            assert self._process.poll() is None, f"Chromium ended: {Path(self._log.name).read_text()[-2000:]}"
            assert time.monotonic() < until, "Chromium opens no port"
            await asyncio.sleep(0.05)
        port, path = self._port_file.read_text().split("\n")[:2]
        self._client = aiohttp.ClientSession()
        self._socket = await self._client.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0)
        target = await self._ask("Target.createTarget", {"url": "about:blank"})
        attach = {"targetId": target["targetId"], "flatten": True}
        self._session = (await self._ask("Target.attachToTarget", attach))["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._ask(f"{domain}.enable", {})

    async def _ask(self, method: str, parameters: dict[str, Any]) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = await self._socket.receive_json(timeout=PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))

    # -- what tests use -------------------------------------------------------------------------------------------

    def tell(self, method: str, **parameters: Any) -> Any:
        return self._loop.run_until_complete(self._ask(method, parameters))

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.events = []
        self.tell("Page.navigate", url=page.as_uri())
        until = time.monotonic() + PATIENCE
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            assert time.monotonic() < until, "the page is not loaded"
            self.ask("1")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, name: str) -> None:
        what = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS[name]}
        for kind in ("rawKeyDown", "keyUp"):
            self.tell("Input.dispatchKeyEvent", type=kind, **what)

    def type(self, text: str) -> None:
        self.tell("Input.insertText", text=text)

    def middle(self, selector: str) -> dict[str, float]:
        """Where an element is, after scrolling to it."""
        self.ask(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.ask(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        return {"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}

    def tap(self, selector: str) -> None:
        point = self.middle(selector)
        self.tell("Input.dispatchTouchEvent", type="touchStart", touchPoints=[point])
        self.tell("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.ask("new Promise(requestAnimationFrame)")

    def point(self, selector: str) -> None:
        self.tell("Input.dispatchMouseEvent", type="mouseMoved", **self.middle(selector))

    def click(self, selector: str) -> None:
        where = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **where)

    def screen(self, width: int, height: int, phone: bool = False) -> None:
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.tell("Emulation.setTouchEmulationEnabled", enabled=phone)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``, as the user's settings say."""
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path: Path) -> bytes:
        """A PNG of what is on the screen."""
        data = base64.b64decode(self.tell("Page.captureScreenshot", format="png")["data"])
        path.write_bytes(data)
        return data

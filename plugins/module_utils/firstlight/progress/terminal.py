"""The screen at the bottom of a terminal, with everything that is printed scrolling by above it.

The terminal's settings are never touched and the cursor is never hidden: a run that is killed leaves nothing to
restore. All that Rich does happens under one lock, the one that Ansible holds while it forks: a worker cannot
inherit a lock of Rich that a thread held.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TextIO, cast

from rich.ansi import AnsiDecoder
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

FRAMES_A_SECOND = 2


class _Above(io.TextIOBase):
    """In place of sys.stdout or sys.stderr: whole lines, printed above the screen as they are, colours included."""

    def __init__(self, terminal: Terminal, file: TextIO) -> None:
        self.terminal, self.file, self.rest = terminal, file, ""
        self.decoder = AnsiDecoder()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.file.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.file.errors

    @property
    def rich_proxied_file(self) -> TextIO:
        return self.file

    def write(self, text: str) -> int:
        with self.terminal.lock:
            *lines, self.rest = (self.rest + text).split("\n")
            if lines:
                self.terminal.print(Text("\n").join(self.decoder.decode_line(line) for line in lines))
        return len(text)

    def flush(self) -> None:  # part of a line waits for the rest of it
        self.file.flush()

    def finish(self) -> None:
        if self.rest:
            self.file.write(self.rest)
            self.rest = ""

    def fileno(self) -> int:
        return self.file.fileno()

    def isatty(self) -> bool:
        return self.file.isatty()


class _Console(Console):
    def show_cursor(self, show: bool = True) -> bool:
        return False


class Terminal:
    """lock: Ansible's own of its display. draw: what is to be seen now, for a width and a height."""

    def __init__(self, lock: Any, draw: Callable[[int, int], RenderableType]) -> None:
        self.lock, self.draw = lock, draw
        self.live: Live | None = None
        self.over = threading.Event()
        self.held = 0
        self.pid = os.getpid()
        self.proxies: list[tuple[str, _Above]] = []

    def start(self) -> None:
        with self.lock:
            if self.live is not None or self.over.is_set() or self.held:
                return
            self.console = _Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
            self.live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
                get_renderable=self._draw,
            )
            for name in ("stdout", "stderr"):
                file = getattr(sys, name)
                if file is not None and file.isatty():
                    proxy = _Above(self, file)
                    self.proxies.append((name, proxy))
                    setattr(sys, name, proxy)
            self.live.start(refresh=True)
            self._flush()

    def stop(self) -> None:
        """Takes the screen away and gives the streams back; what is printed from now on is printed as ever."""
        with self.lock:
            live, self.live = self.live, None
            if live is None:
                return
            live.stop()
            for name, proxy in self.proxies:
                if getattr(sys, name) is proxy:
                    setattr(sys, name, proxy.file)
                proxy.finish()
            self.proxies = []
            self._flush()

    def close(self) -> None:
        """For good; a process that was forked off owns no screen."""
        self.over.set()
        if os.getpid() == self.pid:
            self.stop()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """No screen inside the block: somebody is asked something there."""
        self.held += 1
        self.stop()
        try:
            yield
        finally:
            self.held -= 1
            self.start()

    def print(self, text: Text) -> None:
        if self.live is None:
            cast(TextIO, sys.__stdout__).write(text.plain + "\n")
        else:
            self.console.print(text, soft_wrap=True)

    def refresh(self) -> None:
        with self.lock:
            if self.live is not None:
                self.live.refresh()
                self._flush()

    def _draw(self) -> RenderableType:
        size = self.console.size
        return self.draw(size.width, size.height)

    def _flush(self) -> None:
        self.console.file.flush()


def every(seconds: float, over: threading.Event, what: Callable[[], None]) -> None:
    """Call it at intervals from a thread that ends with the process, or with the event."""

    def ticks() -> None:
        while not over.wait(seconds):
            what()

    threading.Thread(target=ticks, name="progress", daemon=True).start()


def ask_without_screen(display: Any, terminal: Terminal) -> None:
    """Ansible's display asks its questions while the screen is away."""
    before = display.prompt_until

    def ask(*args: Any, **kwargs: Any) -> Any:
        if display._final_q:  # a worker asks through the main process
            return before(*args, **kwargs)
        with terminal.away():
            return before(*args, **kwargs)

    display.prompt_until = ask


def before_sigterm(close: Callable[[], None]) -> None:
    """SIGTERM ends Ansible without a word to anybody; this is done first."""
    before = signal.getsignal(signal.SIGTERM)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        return

    def terminated(number: int, frame: FrameType | None) -> None:
        close()
        before(number, frame)

    signal.signal(signal.SIGTERM, terminated)

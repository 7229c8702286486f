"""Makes docs/report.png: the page of a made-up fleet (tests/made_fleet.py) in Chromium.

.venv/bin/python -m tests.page_picture
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from firstlight.page import html
from tests.integration.chromium import Chromium
from tests.made_fleet import made_data

PICTURE = Path(__file__).parents[1] / "docs" / "report.png"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="firstlight-picture-") as name:
        folder = Path(name)
        data = made_data(folder)
        html.write(data, folder, "latest")
        browser = Chromium(folder / "chromium")
        try:
            browser.screen(1200, 1010)
            browser.scheme("light")
            browser.open(folder / "latest.html")
            browser.tell("Emulation.setScrollbarsHidden", hidden=True)
            failed = [n for n, host in enumerate(data["hosts"]) if host["standing"] == "failed"]
            browser.ask(f"document.getElementById('h{failed[1]}').focus({{preventScroll: true}})")
            browser.picture(PICTURE)
        finally:
            browser.close()
    print(f"{PICTURE}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()

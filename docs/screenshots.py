"""Makes the screenshots of the dashboard: ``python docs/screenshots.py`` runs the demonstration and looks at its page.

It needs the development tools and a Chromium; ``EVENTIDE_CHROMIUM`` names one that is not on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from eventide.cli.dashboard import open_for_run, record_run
from eventide.demo import live

FIGURES = Path(__file__).parent / "figures"
WIDE, PHONE = (1280, 1400), (390, 844)


def main() -> None:
    """Run the demonstration, store its page in light and dark, and check that it fits a phone."""
    watched: list[str] = []

    def watch(checkpoint, sink):  # type: ignore[no-untyped-def]
        watched.append(open_for_run(checkpoint).url)
        return record_run(checkpoint, sink)

    def hold() -> None:
        name = os.environ.get("EVENTIDE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=name, args=["--no-sandbox"])
            take(browser, watched[0], "dashboard.png", WIDE, "light")
            take(browser, watched[0], "dashboard-dark.png", WIDE, "dark")
            take(browser, watched[0], None, PHONE, "light")
            browser.close()

    live.main(Console(), Path("build") / "demo.html", seconds=2 * live.SECONDS, watch=watch, hold=hold)


def take(browser: Browser, url: str, name: str | None, size: tuple[int, int], scheme: str) -> None:
    """Store a picture of the page, which must fit its width."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector("svg, canvas")
    page.wait_for_timeout(1500)  # drawing has no event to wait for
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if overflow > 0:
        sys.exit(f"The page is {overflow} pixels wider than {width}.")
    if name is not None:
        page.screenshot(path=FIGURES / name)
    page.close()


if __name__ == "__main__":
    main()

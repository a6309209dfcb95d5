"""Makes the screenshots of the dashboard: ``python docs/screenshots.py`` runs the demonstration and looks at its page.

The screenshots show the live query while a till has lost its connection. They need the development tools and a
Chromium; ``EVENTIDE_CHROMIUM`` names one that is not on the path.
"""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from eventide.cli.dashboard import open_for_run, record_run
from eventide.demo import live

FIGURES = Path(__file__).parent / "figures"
WIDE, PHONE = (1280, 1400), (390, 844)
SHOTS = (("dashboard.png", WIDE, "light"), ("dashboard-dark.png", WIDE, "dark"), (None, PHONE, "light"))


def main() -> None:
    """Run the demonstration, store its live page in light and dark, and check that it fits a phone."""
    looks: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:

        def watch(checkpoint, sink):  # type: ignore[no-untyped-def]
            looks.append(pool.submit(look, open_for_run(checkpoint).url))
            return record_run(checkpoint, sink)

        live.main(Console(), Path("build") / "demo.html", seconds=2 * live.SECONDS, watch=watch)
    for done in looks:
        done.result()


def look(url: str) -> None:
    """Wait until the page names the till, then take the screenshots."""
    name = os.environ.get("EVENTIDE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=name, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("#sentence:has-text('west is')", timeout=180_000)
        for figure, size, scheme in SHOTS:
            take(browser, url, figure, size, scheme)
        browser.close()


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

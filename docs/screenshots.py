"""Makes the screenshots of the dashboard: ``python docs/screenshots.py`` runs the demonstration and looks at its page.

The screenshots show the live query while a till has lost its connection. They need the development tools and a
Chromium; ``EVENTIDE_CHROMIUM`` names one that is not on the path.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console

from eventide.cli.dashboard import open_for_run
from eventide.demo import live

FIGURES = Path(__file__).parent / "figures"
WIDE, PHONE = (1200, 1130), (390, 844)
SHOTS = (("dashboard.png", WIDE, "light"), ("dashboard-dark.png", WIDE, "dark"), (None, PHONE, "light"))
SENTENCE = re.compile(r"till west is ([5-9]\.\d s|\d\d\.\d s|\d+m.*) behind; everything waits for it\.")
ATTEMPTS = 600  # the sentence changes with each batch


def main() -> None:
    """Run the demonstration, store its live page in light and dark, and check that it fits a phone."""
    looks: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:

        def watch(checkpoint: str) -> None:
            looks.append(pool.submit(look, open_for_run(checkpoint).url))

        live.main(Console(), Path("build") / "demo.html", seconds=4 * live.SECONDS, watch=watch)
    for done in looks:
        done.result()


def look(url: str) -> None:
    """Open all pages, and take the screenshots while the page says that everything waits for the till."""
    name = os.environ.get("EVENTIDE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=name, args=["--no-sandbox"])
        pages = [(opened(browser, url, size, scheme), figure, size[0]) for figure, size, scheme in SHOTS]
        corrected = "#emitted-text:not(:has-text(', 0 late'))"  # a first silence has ended, and panes are corrected
        pages[0][0].wait_for_selector(corrected, timeout=180_000)
        for page, figure, width in pages:
            take(page, figure, width)
        browser.close()


def opened(browser: Browser, url: str, size: tuple[int, int], scheme: str) -> Page:
    """Return a page that follows the query."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    return page


def take(page: Page, name: str | None, width: int) -> None:
    """Store a picture of the page, which must fit its width and say that everything waits for the till."""
    for _ in range(ATTEMPTS):
        page.wait_for_selector("#sentence:has-text('till west is')", timeout=180_000)
        before = sentence(page)
        picture = page.screenshot()
        if SENTENCE.fullmatch(before) and sentence(page) == before:  # it says the same in the picture
            break
        page.wait_for_timeout(200)
    else:
        sys.exit(f"The page does not say that everything waits for west, but: {sentence(page)}")
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if overflow > 0:
        sys.exit(f"The page is {overflow} pixels wider than {width}.")
    if name is not None:
        (FIGURES / name).write_bytes(picture)


def sentence(page: Page) -> str:
    """Return what the page says about the watermark."""
    return str(page.text_content("#sentence"))


if __name__ == "__main__":
    main()

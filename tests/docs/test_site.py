"""The built site in a real browser: no page is wider than the screen, and no code is clipped on a common one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.dashboards.test_browser import browser
from tests.docs.pages import DOCS

__all__ = ["browser"]

pytestmark = pytest.mark.long  # the site is built

# With tables, wide frames, long lines of code, signatures and figures.
PAGES = ["", "quick-start/", "howto/retention/", "cookbook/interval-join/", "howto/command-line/", "api/spark/"]
PAGES += ["reference/", "design/architecture/", "howto/early-results/"]
CLIPPED = """() => [...document.querySelectorAll(".md-content pre, .md-content pre code")]
    .filter((block) => block.scrollWidth > block.clientWidth + 1)
    .map((block) => block.textContent.slice(0, 80))"""
BEYOND_THE_SCREEN = "() => document.documentElement.scrollWidth - window.innerWidth"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[str]:
    """Build the site once and serve it; gives its address."""
    pytest.importorskip("zensical", reason="zensical is not installed: it is in the group docs")
    place, root = tmp_path_factory.mktemp("site"), DOCS.parent
    shutil.copy(root / "mkdocs.yml", place)
    shutil.copytree(DOCS, place / "docs")
    (place / "src").symlink_to(root / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    built = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place / "site"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen(site: str, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    beyond = {}
    for name in PAGES:
        page.goto(f"{site}/{name}", wait_until="load")
        assert page.locator(".md-content").count() == 1, f"{name} is no page of the site"
        beyond[name] = page.evaluate(BEYOND_THE_SCREEN)
    page.close()
    assert {name: pixels for name, pixels in beyond.items() if pixels > 0} == {}


@pytest.mark.parametrize("width", [1280, 1536])
def test_no_code_is_clipped_on_a_common_screen(site: str, browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    clipped, blocks = {}, 0
    for name in PAGES:
        page.goto(f"{site}/{name}", wait_until="load")
        blocks += page.locator(".md-content pre").count()
        clipped[name] = page.evaluate(CLIPPED)
    page.close()
    assert blocks > 20
    assert {name: codes for name, codes in clipped.items() if codes} == {}

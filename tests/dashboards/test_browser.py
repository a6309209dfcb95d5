"""The page in a real browser: what it shows, how it follows a query, and that names are never markup."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from tests.dashboards.histories import TOKEN, at, batch, pane, write
from tests.services import unavailable

pytestmark = pytest.mark.long
SPITEFUL = "<img src=x onerror=\"document.title='owned'\">"
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
MANY, SECONDS_TO_OPEN = 10_000, 20  # the bound is generous, because tests share their machine
DRAWN = """(id) => {
    const canvas = document.getElementById(id);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length;
}"""
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1200, "height": 900}


def chromium() -> str | None:
    """The browser that ``EVENTIDE_CHROMIUM`` names, or one on the path."""
    named = os.environ.get("EVENTIDE_CHROMIUM")
    if named is not None:
        program = shutil.which(named)
        assert program, f"EVENTIDE_CHROMIUM is {named!r}, which is no program."
        return program
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = chromium()
    if program is None:
        reason = "no Chromium is installed: apt-get install chromium, or set EVENTIDE_CHROMIUM to its path"
        unavailable(reason, needs="chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    origins = {"least_origin": SPITEFUL, "slowest": ((SPITEFUL, at(-12)), ("west", at(-9))), "origins": 2}
    batches = [batch(number, **origins) for number in range(30)]
    batches[20] = batch(20, rows=14, late=3, dead={"null_time": 1}, panes={"ON_TIME": 2}, **origins)
    return write(tmp_path / "revenue", batches, [pane(number) for number in range(0, 30, 5)])


class Visit:
    """A page that was opened, with everything that went wrong in it."""

    def __init__(self, browser: Any, server: Any, **options: Any) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_context(**{"viewport": DESK} | options).new_page()
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(server.url)
        self.until(lambda: self.text("sentence") != "" and self.page.locator("#batch-rows tr").count() > 0)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the page. Conditions are not evaluated in it, because its policy forbids that."""
        for _ in range(400):
            if condition():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"20 seconds have passed; problems: {self.problems}")

    def text(self, id: str) -> str:
        return str(self.page.text_content(f"#{id}"))


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light")])
def test_the_page_shows_a_query_and_fits_its_screen(browser: Any, checkpoint: Path, size: Any, scheme: str) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server, viewport=size, color_scheme=scheme)
        page = visit.page
        assert visit.text("sentence") == f"{SPITEFUL} is 41.0 s behind; everything waits for it."
        assert visit.text("equation") == "304 rows in = 300 in windows + 3 late + 1 dead (1 null_time) ✓"
        assert page.locator("#origins tr").count() == 2 and page.locator("#origins img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        for chart in ("plane", "fate-chart", "lag-chart", "batch-chart", "emitted-chart", "state-chart"):
            assert page.evaluate(DRAWN, chart) > 500, chart
        assert page.url == f"{server.address}/#/revenue"  # the token is gone
        assert all(url.startswith(server.address) for url in visit.requests)
        assert page.title().startswith("revenue") and visit.problems == []
        assert page.locator("#drain").is_hidden() and page.locator("#origins button").count() == 0
    finally:
        server.stop()


def test_the_page_follows_a_query(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        write(checkpoint, [batch(30, rows=1000, kept=1000)])
        visit.until(lambda: visit.text("equation").startswith("1,304 rows"))
        visit.until(lambda: visit.text("batch-rows").startswith("302026-03-01 12:00:30"))
        assert visit.problems == []
    finally:
        server.stop()


def test_the_plane_zooms_and_pans_with_the_keyboard_and_hover_explains(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        page = visit.page
        page.focus("#plane")
        page.keyboard.press("+")
        page.keyboard.press("ArrowDown")
        assert page.get_attribute("#follow", "aria-pressed") == "false"
        visit.until(lambda: not visit.text("batch-rows").startswith("29"))
        page.keyboard.press("0")
        assert page.get_attribute("#follow", "aria-pressed") == "true"
        box = page.locator("#plane").bounding_box()
        page.mouse.move(box["x"] + 400, box["y"] + 200)
        assert "batch" in visit.text("tip") and visit.problems == []
    finally:
        server.stop()


def test_a_command_needs_a_confirmation_and_is_one_file(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN, allow_control=True)
    control = checkpoint / "eventide" / "control"
    try:
        page = Visit(browser, server).page
        page.click("text=Retire >> nth=0")
        assert page.text_content("#confirm-title") == f"Retire {SPITEFUL}?"
        page.click("#confirm-no")
        assert not control.is_dir()
        page.click("text=Retire >> nth=0")
        page.click("#confirm-yes")
        page.wait_for_selector("#commands li")
        (written,) = [json.loads(file.read_text()) for file in control.glob("*.json")]
        assert (written["do"], written["origin"]) == ("retire", SPITEFUL)
        assert page.title() != "owned" and page.locator("main img").count() == 0
    finally:
        server.stop()


def test_several_queries_are_a_list(browser: Any, checkpoint: Path) -> None:
    write(checkpoint.parent / "orders" / "daily", [batch(0)])
    server = ev.dashboard(checkpoint.parent, token=TOKEN)
    try:
        page = browser.new_context().new_page()
        page.goto(server.url)
        page.wait_for_selector("#queries tr")
        assert page.locator("#queries a").all_text_contents() == ["orders/daily", "revenue"]
        page.click("text=orders/daily")
        page.wait_for_selector("h1:has-text('orders/daily')")
        page.click("#home")
        page.wait_for_selector("#queries tr:visible")
    finally:
        server.stop()


def test_a_history_of_ten_thousand_batches_opens_and_scrolls(browser: Any, tmp_path: Path) -> None:
    panes = [pane(number) for number in range(0, MANY, 5)]
    server = ev.dashboard(write(tmp_path / "revenue", [batch(number) for number in range(MANY)], panes), token=TOKEN)
    try:
        started = time.monotonic()
        visit = Visit(browser, server)
        assert time.monotonic() - started < SECONDS_TO_OPEN
        page = visit.page
        assert visit.text("equation").startswith("100,000 rows in = 100,000 in windows")
        assert page.evaluate(DRAWN, "plane") > 5000
        page.mouse.move(600, 20)
        page.mouse.wheel(0, 700)
        visit.until(lambda: page.evaluate("scrollY") >= 500)
        page.focus("#plane")
        for _ in range(12):
            page.keyboard.press("+")
        visit.until(lambda: "–" not in visit.text("batch-rows"))  # a row for each batch, not for several
        newest = number_of_newest_batch(visit)
        for _ in range(8):
            page.keyboard.press("ArrowDown")
        visit.until(lambda: number_of_newest_batch(visit) < newest)
        assert visit.problems == []
    finally:
        server.stop()


def number_of_newest_batch(visit: Visit) -> int:
    return int(str(visit.page.text_content("#batch-rows tr:first-child td")).split("–")[-1])


def test_the_page_reconnects_after_the_server_starts_again_with_the_same_token(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        port = int(server.address.rpartition(":")[2])
        server.stop()
        visit.until(lambda: visit.text("live") == "connection lost, retrying")
        server = ev.dashboard(checkpoint, token=TOKEN, port=port)
        write(checkpoint, [batch(30, rows=1000, kept=1000)])
        visit.until(lambda: visit.text("equation").startswith("1,304 rows"))
        assert visit.text("live") != "connection lost, retrying"
    finally:
        server.stop()


def test_markup_in_names_and_messages_is_text(browser: Any, tmp_path: Path) -> None:
    checkpoint = tmp_path / SPITEFUL
    origin = {"least_origin": SPITEFUL, "slowest": ((SPITEFUL, at(-12)),), "origins": 1}
    write(checkpoint, [batch(0, rows=11, dead={SPITEFUL: 1}, **origin)], [pane(0)])
    store = checkpoint / "eventide"
    plan = {"operators": [{"plan": {"keys": [SPITEFUL], SPITEFUL: "origin"}}]}
    (store / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with (store / "history.jsonl").open("a", encoding="utf-8") as history:
        history.write(json.dumps({"failed": f"A dead letter has the message {SPITEFUL}"}) + "\n")
    write(tmp_path / "orders", [batch(0)])
    server = ev.dashboard(tmp_path, token=TOKEN, allow_control=True)
    try:
        page = browser.new_context().new_page()
        page.goto(server.url)
        page.wait_for_selector("#queries tr")
        assert str(page.text_content("#queries")).count(SPITEFUL) == 2  # the name and the message
        page.click("#queries a >> nth=0")
        page.wait_for_selector("#origins tr")
        page.wait_for_selector("#batch-rows tr", state="attached")
        page.click("text=Retire >> nth=0")
        page.click("#confirm-yes")
        page.wait_for_selector("#commands li")
        for id in ("title", "message", "sentence", "origins", "plan", "commands"):
            assert SPITEFUL in str(page.text_content(f"#{id}")), id
        assert "owned" not in page.title().replace(SPITEFUL, "")
        assert page.locator("img").count() == 0
    finally:
        server.stop()

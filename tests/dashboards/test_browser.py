"""The page in a real browser: what it shows, how it follows a query, and that names are never markup."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.dashboards.health import lag_words
from eventide.metrics import Gap
from eventide.spark.metrics import EventTimes
from eventide.spark.pane_counts import WindowPanes
from eventide.time import as_datetime
from tests.dashboards.histories import NOON, SECOND, TOKEN, at, batch, pane, with_state, write
from tests.dashboards.test_live_query import query_at
from tests.services import unavailable

pytestmark = pytest.mark.long
SPITEFUL = "<img src=x onerror=\"document.title='owned'\">"
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
ROOT = Path(__file__).parents[2]
MANY = 10_000
SECONDS_TO_OPEN = 20  # tests share their machine: `python -m bench page` measures it, about a second without other load
DRAWN = """(id) => {
    const canvas = document.getElementById(id);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length;
}"""
# Pixels of the watermark: in the light scheme, no text and no other mark has its colour.
WATERMARK = """() => {
    const canvas = document.getElementById("plane");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let pixels = 0;
    for (let i = 0; i < data.length; i += 4) {
        pixels += data[i] === 24 && data[i + 1] === 34 && data[i + 2] === 45 && data[i + 3] === 255;
    }
    return pixels;
}"""
# Keeps the texts of each canvas since it was cleared.
RECORDED_TEXTS = """
    window.texts = {};
    window.centred = {};
    const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        window.texts[this.canvas.id] = [];
        window.centred[this.canvas.id] = [];
        return clearRect.apply(this, box);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        window.texts[this.canvas.id]?.push(text);
        if (this.textAlign === "center") window.centred[this.canvas.id]?.push(text);
        return fillText.call(this, text, ...place);
    };
"""
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
        context = browser.new_context(**{"viewport": DESK} | options)
        context.add_init_script(RECORDED_TEXTS)
        self.page = context.new_page()
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

    def drawn_texts(self, id: str) -> list[str]:
        return list(self.page.evaluate(f"window.texts['{id}']"))


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light")])
def test_the_page_shows_a_query_and_fits_its_screen(browser: Any, checkpoint: Path, size: Any, scheme: str) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server, viewport=size, color_scheme=scheme)
        page = visit.page
        assert visit.text("sentence") == (
            f"The query has stopped. At its last batch: {SPITEFUL} was 41.0 s behind; everything waited for it."
        )
        assert visit.text("equation") == "304 rows in = 300 in windows + 3 late + 1 dead (1 null_time) ✓"
        assert page.locator("#origins tr").count() == 2 and page.locator("#origins img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        for chart in (
            "plane",
            "fate-chart",
            "lag-chart",
            "latency-chart",
            "batch-chart",
            "emitted-chart",
            "state-chart",
        ):
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


def test_the_details_of_panes_late_rows_and_dead_letters_are_read_with_the_keyboard(
    browser: Any, tmp_path: Path
) -> None:
    batches = [batch(number) for number in range(30)]
    batches[20] = batch(20, late=3, late_times=((at(4), 2),), dead={"null_time": 1})
    panes = [pane(10), WindowPanes(25, NOON, NOON + 5 * SECOND, "LATE", -1, 2, NOON + 25 * SECOND)]
    server = ev.dashboard(write(tmp_path / "revenue", batches, panes), token=TOKEN)
    try:
        visit = Visit(browser, server)
        page = visit.page
        page.focus("#plane")
        texts = []
        for _ in range(6):
            page.keyboard.press("p")
            texts.append(visit.text("plane-item"))
        day = "2026-03-01 12:00"
        assert texts == [
            f"retraction, 2 keys; window {day}:00; to {day}:05; retracted {day}:25 in batch 25",
            f"1 dead letter; 1 null_time; arrived {day}:20",
            f"2 late rows; event time about {day}:04; arrived {day}:20",
            f"1 late row; event time unknown; arrived {day}:20",
            f"on time pane, 2 keys; window {day}:10; to {day}:15; emitted {day}:10 in batch 10",
            "This is the oldest in sight",
        ]
        page.keyboard.press("Enter")
        assert page.input_value("#window") == f"{NOON + 10 * SECOND} {NOON + 15 * SECOND}"
        page.keyboard.press("n")
        assert visit.text("plane-item") == texts[3]
        page.keyboard.press("Escape")
        assert visit.text("plane-item") == "" and visit.problems == []
    finally:
        server.stop()


def test_the_plane_shows_the_newest_batches_until_one_asks_for_the_whole_history(browser: Any, tmp_path: Path) -> None:
    checkpoint = write(tmp_path / "revenue", [batch(number) for number in range(1000)])
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        page = visit.page
        assert "The newest 201 of 1,000 batches: Fit shows the whole history." in visit.text("plane-text")
        assert visit.text("batches-text").startswith("201 batches")
        write(checkpoint, [batch(1000)])
        visit.until(lambda: visit.text("batch-rows").startswith("1000"))
        assert visit.text("batches-text").startswith("201 batches")
        page.click("#fit")
        visit.until(lambda: visit.text("batches-text").startswith("1,001 batches"))
        assert "The newest" not in visit.text("plane-text")
        page.click("#follow")
        visit.until(lambda: visit.text("batches-text").startswith("201 batches"))
        assert page.get_attribute("#follow", "aria-pressed") == "true"
        page.focus("#plane")
        page.keyboard.press("+")
        page.keyboard.press("f")  # a closer view follows in its size
        visit.until(lambda: not visit.text("batches-text").startswith("201 batches"))
        assert page.get_attribute("#follow", "aria-pressed") == "true" and visit.problems == []
    finally:
        server.stop()


@pytest.mark.parametrize("button", [True, False], ids=["button", "key"])
def test_the_watermark_stays_in_sight_however_often_one_zooms(browser: Any, tmp_path: Path, button: bool) -> None:
    far_behind = [batch(number, watermark=at(number - 100)) for number in range(60)]  # away from the ideal line
    server = ev.dashboard(write(tmp_path / "revenue", far_behind), token=TOKEN)
    try:
        visit = Visit(browser, server)
        page = visit.page
        page.focus("#plane")
        for _ in range(25):
            page.click("#zoom-in") if button else page.keyboard.press("+")
            assert page.evaluate(WATERMARK) > 50
        visit.until(lambda: page.locator("#batch-rows tr").count() < 10)  # the closest view shows few batches
        assert page.evaluate(WATERMARK) > 50
        for _ in range(60):
            page.keyboard.press("-")
        visit.until(lambda: page.evaluate(WATERMARK) > 20)  # the farthest view still shows more than a dot
        assert visit.problems == []
    finally:
        server.stop()


def test_zooming_brings_the_data_back_after_one_has_panned_away(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        page = Visit(browser, server).page
        page.focus("#plane")
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
        assert page.evaluate(WATERMARK) == 0
        page.keyboard.press("+")
        assert page.evaluate(WATERMARK) > 50
    finally:
        server.stop()


def test_two_fingers_zoom_the_plane(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server, viewport=PHONE, has_touch=True, is_mobile=True)
        page = visit.page
        box = page.locator("#plane").bounding_box()
        x, y = box["x"] + 220, box["y"] + 150
        touch = page.context.new_cdp_session(page)

        def fingers(kind: str, *distances: int) -> None:
            points = [{"x": x + distance, "y": y, "id": number} for number, distance in enumerate(distances)]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        before = visit.drawn_texts("plane")
        fingers("touchStart", -15, 15)
        for distance in range(20, 90, 10):
            fingers("touchMove", -distance, distance)
        fingers("touchEnd")
        assert page.get_attribute("#follow", "aria-pressed") == "false"
        assert page.evaluate("visualViewport.scale") == 1  # the page keeps its size
        after = visit.drawn_texts("plane")
        assert after != before and any("." in text or text.count(":") == 2 for text in after)
        assert visit.problems == []
    finally:
        server.stop()


def test_panes_are_boxes_since_the_emission_before_them(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    script = """async () => {
        const { paneStarts } = await import("/static/plane_marks.js");
        const panes = { start: [10, 10, 10, 10, 20], end: [20, 20, 20, 20, 30], diff: [1, 1, -1, 1, 1],
            at: [16, 25, 40, 40, 33] };
        const density = { at: [12, 14, 33], since: [11, 13, 32], low: [0, 0, 0], high: [40, 40, 40],
            rows: [[5, 0, 0, 0], [5, 1, 0, 0], [0, 0, 3, 0]] };
        const none = { at: [], since: [], low: [], high: [], rows: [] };
        return [paneStarts(panes, density, 5), paneStarts(panes, none, 12)];
    }"""
    try:
        with_rows, without_rows = Visit(browser, server).page.evaluate(script)
        assert with_rows == [13, 16, 40, 25, 32]
        assert without_rows == [12, 16, 40, 25, 20]
    finally:
        server.stop()


def test_labels_of_panes_are_drawn_where_they_fit(browser: Any, tmp_path: Path) -> None:
    batches = [batch(number, watermark=at(number - 10)) for number in range(0, 60, 10)]
    panes = [
        WindowPanes(20, NOON, NOON + 20 * SECOND, "ON_TIME", 1, 71, NOON + 20 * SECOND),
        WindowPanes(40, NOON, NOON + 20 * SECOND, "LATE", -1, 72, NOON + 40 * SECOND),
        WindowPanes(40, NOON, NOON + 20 * SECOND, "LATE", 1, 73, NOON + 40 * SECOND),
        *(
            WindowPanes(40, at_, at_ + SECOND // 4, "ON_TIME", 1, 79, NOON + 40 * SECOND)
            for at_ in (NOON, NOON + SECOND)
        ),
    ]
    server = ev.dashboard(write(tmp_path / "revenue", batches, panes), token=TOKEN)
    try:
        visit = Visit(browser, server)
        labels = visit.drawn_texts("plane")
        assert {"71", "−72", "73"} <= set(labels) and "79" not in labels  # narrow windows have no label
        assert "Numbers in panes count their keys." in visit.text("plane-text")
    finally:
        server.stop()


# A context that records rectangles and texts in place of a canvas, and scales of one pixel per unit.
STUB = """
    const drawn = [];
    const ctx = new Proxy({ drawn, measureText: (text) => ({ width: 7 * text.length }),
        fillText: (text, x, y) => drawn.push([text, x, y]), fillRect: (...box) => drawn.push(box) },
        { get: (target, name) => target[name] ?? (() => undefined), set: () => true });
    const scale = { x: (time) => time, y: (time) => 1000 - time };
    const { drawDensity, drawPaneLabels } = await import("/static/plane_marks.js");
"""


def test_a_label_of_the_plane_covers_neither_the_watermark_nor_a_late_row(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    script = f"""async ([watermark, late]) => {{ {STUB}
        const panes = {{ start: [0], end: [80], at: [500], keys: [71], diff: [1], timing: ["EARLY"] }};
        const points = {{ at: [400, 500], watermark }};
        drawPaneLabels(ctx, scale, panes, [440], points, late);
        return drawn.map(([text, x, y]) => [x, 1000 - y]);
    }}"""
    try:
        page = Visit(browser, server).page
        ((free_x, free_y),) = page.evaluate(script, [[90, 95], []])
        ((x, y),) = page.evaluate(script, [[free_x, free_x], []])
        assert x < free_x - 10 and y == free_y
        ((x, y),) = page.evaluate(script, [[90, 95], [{"x": free_x, "y": 1000 - free_y}]])
        assert x < free_x - 10 and y == free_y
        crowd = [{"x": x, "y": 1000 - at} for x in range(0, 81, 8) for at in range(440, 501, 8)]
        assert page.evaluate(script, [[90, 95], crowd]) == []
    finally:
        server.stop()


def test_the_density_of_a_batch_ends_at_its_time_and_begins_at_the_batch_before(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    script = f"""async () => {{ {STUB}
        const at = [100, 102, 103, 130, 400];
        drawDensity(ctx, scale, {{ at, since: [100, 102, 103, 130, 400], low: at.map(() => 0), high: at.map(() => 50),
            rows: at.map(() => [3]) }});
        return drawn.map(([x, y, wide, tall]) => [1000 - y - tall, 1000 - y]);
    }}"""
    try:
        drawn = Visit(browser, server).page.evaluate(script)
        assert drawn == [[98, 100], [100, 102], [102, 103], [103, 130], [360, 400]]
    finally:
        server.stop()


def test_the_life_of_a_window_has_its_rows_panes_and_watermark(browser: Any, tmp_path: Path) -> None:
    times = EventTimes(at(0), at(20), (4, 6))
    batches = [batch(number, watermark=at(number - 10), event_times=times) for number in range(5, 30, 5)]
    panes = [
        WindowPanes(number, NOON, NOON + 10 * SECOND, timing, diff, 2, NOON + number * SECOND)
        for number, timing, diff in ((10, "EARLY", 1), (20, "ON_TIME", -1), (20, "ON_TIME", 1))
    ]
    server = ev.dashboard(write(tmp_path / "revenue", batches, panes), token=TOKEN)
    try:
        visit = Visit(browser, server)
        assert visit.page.locator("#life-list li").all_text_contents() == [
            "2026-03-01 12:00:10: emitted early for 2 keys, 0 s after its end, with about 8 rows (batch 10)",
            "2026-03-01 12:00:20: the watermark passes the end of the window, 10.0 s behind the clock (batch 20)",
            "2026-03-01 12:00:20: retracted for 2 keys, 10.0 s after its end (batch 20)",
            "2026-03-01 12:00:20: emitted on time for 2 keys, 10.0 s after its end, with about 8 rows since the "
            "emission before (batch 20)",
        ]
        assert visit.problems == []
    finally:
        server.stop()


def test_the_list_of_windows_keeps_its_focus_and_its_options_while_batches_end(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    old = "options => options.filter((option) => option.old).map((option) => option.value)"
    try:
        visit = Visit(browser, server)
        page = visit.page
        options = page.locator("#window option")
        options.evaluate_all("options => options.forEach((option) => { option.old = true; })")
        before = options.evaluate_all(old)
        page.focus("#window")
        page.keyboard.press("ArrowDown")
        chosen = page.input_value("#window")
        assert len(before) == 6 and chosen == before[1]
        write(checkpoint, [batch(30)])
        visit.until(lambda: visit.text("batch-rows").startswith("30"))
        assert options.evaluate_all(old) == before and options.count() == 6
        write(checkpoint, [batch(31)], [pane(40)])
        visit.until(lambda: options.count() == 7)
        assert options.evaluate_all(old) == before
        assert options.first.get_attribute("value") not in before  # the newest window is the first
        assert page.input_value("#window") == chosen
        assert page.evaluate("document.activeElement.id") == "window" and visit.problems == []
    finally:
        server.stop()


def test_a_phone_shows_commands_and_several_instants(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN, allow_control=True)
    try:
        visit = Visit(browser, server, viewport=PHONE)
        for button in visit.page.locator("#origins button").all():
            box = button.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] - 10
        instants = [text for text in visit.page.evaluate("window.centred.plane") if ":" in text]
        assert len(instants) >= 2  # of event time: those of processing time are aligned to the right
        assert visit.page.locator("#origin-table").evaluate(
            "table => table.scrollWidth <= table.parentNode.clientWidth"
        )
    finally:
        server.stop()


def test_the_bars_of_origins_have_the_scale_of_active_origins(browser: Any, tmp_path: Path) -> None:
    slowest = (("away", at(-90_000)), ("north", at(-20)), ("west", at(-10)))
    origins = {"slowest": slowest, "idle_origins": ("away",), "least_origin": "north", "origins": 3}
    server = ev.dashboard(write(tmp_path / "revenue", [batch(0, **origins)]), token=TOKEN)
    try:
        bars = Visit(browser, server).page.locator("#origins .fill").all()
        assert [bar.evaluate("bar => bar.style.width") for bar in bars] == ["100%", "100%", "50%"]
    finally:
        server.stop()


def test_the_lag_of_a_running_query_grows_while_no_batch_ends(browser: Any, tmp_path: Path) -> None:
    query = query_at(tmp_path)
    now = time.time_ns() // 1000
    query.history[:] = [replace(batch(0), at=as_datetime(now), watermark=as_datetime(now - 600 * SECOND))]
    server = ev.dashboard(query, token=TOKEN)
    try:
        visit = Visit(browser, server)
        lag = visit.page.locator("#facts div:has-text('behind the clock') dd")
        before = lag.text_content()
        assert before.startswith("10m")
        visit.until(lambda: lag.text_content() != before)
        assert lag.text_content().startswith("10m") and visit.problems == []
    finally:
        server.stop()


def test_a_failed_command_is_shown_until_it_is_dismissed(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN, allow_control=True)
    try:
        visit = Visit(browser, server)
        page = visit.page
        page.route("**/commands", lambda route: route.fulfill(status=500, json={"message": "The disk is full."}))
        page.click("text=Retire >> nth=0")
        page.click("#confirm-yes")
        visit.until(lambda: visit.text("problem-text") == "The command was not sent: The disk is full.")
        write(checkpoint, [batch(30, rows=1000, kept=1000)])
        visit.until(lambda: visit.text("equation").startswith("1,304 rows"))
        assert page.locator("#problem").is_visible()
        page.click("#dismiss")
        assert page.locator("#problem").is_hidden()
    finally:
        server.stop()


def test_only_origins_whose_missing_numbers_are_known_offer_to_skip_them(browser: Any, tmp_path: Path) -> None:
    slowest = tuple((name, at(-9)) for name in ("north", "south", "west"))
    gap = Gap("west", 4, 6, at(-20))
    origins = {"least_origin": "west", "slowest": slowest, "origins": 3, "idle_origins": ("north",)}
    history = write(tmp_path / "revenue", [batch(0, gaps=14, gap_ranges=(gap,), **origins)])
    server = ev.dashboard(history, token=TOKEN, allow_control=True)
    try:
        visit = Visit(browser, server)
        labels = visit.page.locator("#origins button").all_text_contents()
        assert sorted(labels) == ["Retire", "Retire", "Retire", "Skip 4 to 6"]
        assert visit.page.locator("#skip-gap").is_hidden()
        opacity = "button => ['button', 'td', 'tr'].map((name) => getComputedStyle(button.closest(name)).opacity)"
        for button in visit.page.locator("#origins button").all():  # that of an idle origin does not look disabled
            assert button.evaluate(opacity) == ["1", "1", "1"]
    finally:
        server.stop()


def test_a_gap_of_an_origin_that_is_not_listed_can_be_skipped(browser: Any, tmp_path: Path) -> None:
    origins = {"least_origin": "west", "slowest": (("west", at(-9)),), "origins": 30}
    history = write(tmp_path / "revenue", [batch(0, gaps=1, gap_ranges=(Gap("far", 7, 7, at(-20)),), **origins)])
    server = ev.dashboard(history, token=TOKEN, allow_control=True)
    try:
        page = Visit(browser, server).page
        page.click("#skip-gap")
        assert page.text_content("#confirm-title") == "Skip number 7?"
        page.click("#confirm-yes")
        page.wait_for_selector("#commands li")
        (written,) = [json.loads(file.read_text()) for file in (history / "eventide" / "control").glob("*.json")]
        assert (written["do"], written["origin"], written["up_to"]) == ("skip_gap", "far", 7)
    finally:
        server.stop()


def test_the_page_writes_durations_as_the_server_does(browser: Any, checkpoint: Path) -> None:
    server = ev.dashboard(checkpoint, token=TOKEN)
    lags = [0, 400, 1500, 999_000, 1_000_000, 3_140_000, 59_900_000, 60_000_000, 80_500_000, 3_600_000_000]
    lags += [3_605_000_000, 93_784_000_000, 86_400_000_000, -2_000_000, -120_000_000]
    try:
        page = Visit(browser, server).page
        script = (
            "async (lags) => { const { duration } = await import('/static/format.js'); return lags.map(duration); }"
        )
        assert page.evaluate(script, lags) == [lag_words(lag) for lag in lags]
    finally:
        server.stop()


def test_the_latency_names_its_parts(browser: Any, tmp_path: Path) -> None:
    slowest = tuple((name, at(-seconds)) for name, seconds in (("west", 10), ("north", 4), ("east", 4)))
    batches = [batch(number, slowest=slowest, watermark=at(-10), seconds=0.3) for number in range(0, 10, 2)]
    server = ev.dashboard(write(tmp_path / "revenue", batches), token=TOKEN)
    try:
        visit = Visit(browser, server)
        assert visit.text("latency-text") == (
            "About 19.3 s at the last batch: 12.0 s disorder and delay of the watermark + 6.0 s slowest origin + 1.0 s "
            "waiting for a batch + 300 ms processing."
        )
        assert "(estimate)" in visit.text("latency-title")
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


def test_a_button_reads_the_largest_keys_and_the_windows_that_are_closed_next(browser: Any, tmp_path: Path) -> None:
    rows = pl.DataFrame({"t": [NOON, NOON + 1, NOON + 60 * SECOND], "shop": [SPITEFUL, "kiel", SPITEFUL]})
    windows = ev.stream(time="t", key="shop", watermark="1 hour").window(ev.tumbling("1 minute"))
    checkpoint = with_state(tmp_path / "revenue", windows.limit_state(rows=9).agg(n=ev.count()), rows)
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        page = visit.page
        assert visit.text("keys") == "" and not any(url.endswith("/state") for url in visit.requests)
        page.click("#read-state")
        page.wait_for_selector("#keys tbody tr")
        assert "2 keys in state at 2026-03-01 12:00:00." in visit.text("keys")
        first, second = page.locator("#keys tbody tr").all()
        assert first.locator("td").all_text_contents()[:3] == [f"shop={SPITEFUL}", "2", "2"]
        assert second.locator("td").all_text_contents()[:3] == ["shop=kiel", "1", "1"]
        (closing,) = page.locator("#keys li").all_text_contents()
        window = "2026-03-01T12:00:00Z to 2026-03-01T12:01:00Z"
        assert closing == f"shop={SPITEFUL}: {window}, after more than 7 rows of the key."
        assert page.title() != "owned" and page.locator("#keys img").count() == 0 and visit.problems == []
        assert page.evaluate("document.documentElement.scrollWidth") <= DESK["width"]
    finally:
        server.stop()


def test_the_panel_of_state_on_the_executors_names_the_command_that_reads_it(browser: Any, checkpoint: Path) -> None:
    record = {"state": "executors", "operators": []}
    (checkpoint / "eventide" / "plan.json").write_text(json.dumps(record), encoding="utf-8")
    server = ev.dashboard(checkpoint, token=TOKEN)
    try:
        visit = Visit(browser, server)
        assert "is read with Spark: eventide inspect" in visit.text("unreadable")
        assert visit.page.locator("#read-state").is_hidden()
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
        visit = Visit(browser, server)
        page = visit.page
        shown = page.evaluate("performance.getEntriesByName('shown')[0].startTime") / 1000
        assert shown < SECONDS_TO_OPEN
        assert visit.text("equation").startswith("100,000 rows in = 100,000 in windows")
        assert page.evaluate(DRAWN, "plane") > 5000
        page.mouse.move(600, 20)
        page.mouse.wheel(0, 700)
        visit.until(lambda: page.evaluate("scrollY") >= 500)
        page.focus("#plane")
        for _ in range(12):
            page.keyboard.press("+")
            assert page.evaluate(WATERMARK) > 50
        visit.until(lambda: "–" not in visit.text("batch-rows"))  # a row for each batch, not for several
        assert page.evaluate(WATERMARK) > 50
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


def test_screenshots_are_taken_only_while_the_page_says_what_their_captions_say(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
    assert spec is not None and spec.loader is not None
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    monkeypatch.setattr(screenshots, "FIGURES", tmp_path)
    monkeypatch.setattr(screenshots, "ATTEMPTS", 2)
    page = browser.new_page()
    for sentence, allowed in (
        ("till west is 9.5 s behind; everything waits for it.", True),
        ("till west is 2.5 s behind; everything waits for it.", False),
        ("The query has stopped. At its last batch: till west is 9.5 s behind; everything waits for it.", False),
    ):
        page.set_content(f'<p id="sentence">{sentence}</p>')
        picture = tmp_path / "dashboard.png"
        picture.unlink(missing_ok=True)
        if allowed:
            screenshots.take(page, picture.name, 1200)
        else:
            with pytest.raises(SystemExit, match="does not say"):
                screenshots.take(page, picture.name, 1200)
        assert picture.exists() == allowed


def test_markup_in_names_and_messages_is_text(browser: Any, tmp_path: Path) -> None:
    checkpoint = tmp_path / SPITEFUL
    origin = {"least_origin": SPITEFUL, "slowest": ((SPITEFUL, at(-12)),), "origins": 1}
    letters = {"rows": 12, "dead": {SPITEFUL: 2}}
    write(checkpoint, [batch(0, **letters, **origin), batch(0, depth=1, **letters)], [pane(0)])
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
        for id in ("title", "message", "sentence", "origins", "plan", "commands", "equation", "later-equations"):
            assert SPITEFUL in str(page.text_content(f"#{id}")), id
        fate = f"12 rows in = 10 in windows + 0 late + 2 dead (2 {SPITEFUL}) ✓"
        assert page.text_content("#equation") == fate
        assert page.text_content("#later-equations") == f"Operator 1: {fate}"
        assert "owned" not in page.title().replace(SPITEFUL, "")
        assert page.locator("img").count() == 0
    finally:
        server.stop()

"""``python -m bench page [BATCHES]``: seconds until the page of a recorded query is drawn, in an installed Chromium.

The page marks the moment at which its charts are drawn; the browser counts from the start of the navigation. The first
visit also includes reading the history in the server.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import eventide as ev
from eventide.spark.batch_history import History
from eventide.spark.metrics import BatchMetrics, EventTimes
from eventide.spark.pane_counts import WindowPanes
from eventide.time import as_datetime

SECOND = 1_000_000
NOON = 1_772_366_400 * SECOND
VISITS, ORIGINS = 5, 12
_SHOWN = "() => performance.getEntriesByName('shown').at(0)?.startTime ?? null"


def main(arguments: Sequence[str]) -> int:
    """Print a line of JSON: seconds of the first visit, and the median of later ones."""
    count = int(arguments[0]) if arguments else 10_000
    name = os.environ.get("EVENTIDE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if name is None:
        print("There is no Chromium: apt-get install chromium, or set EVENTIDE_CHROMIUM.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as place:
        record(Path(place) / "revenue", count)
        server = ev.dashboard(Path(place) / "revenue")
        try:
            seconds = list(visits(name, server.url))
        finally:
            server.stop()
    later = sorted(seconds[1:])
    print(json.dumps({"name": "page", "batches": count, "first": seconds[0], "later": later[len(later) // 2]}))
    return 0


def record(checkpoint: Path, count: int) -> None:
    """Write a history in which every batch has origins, event times, phases and panes."""
    history = History(checkpoint / "eventide" / "history.jsonl", most=1 << 40)
    for number in range(count):
        at, window = NOON + number * SECOND, NOON + (number // 5 - 2) * 5 * SECOND
        slowest = tuple((f"partition {n}", as_datetime(at - (20 - n) * SECOND)) for n in range(ORIGINS))
        metrics = BatchMetrics(
            batch=number,
            depth=0,
            at=as_datetime(at),
            watermark=as_datetime(at - 20 * SECOND),
            rows=100,
            kept=98,
            late=2,
            seconds=0.5,
            phases={"read": 0.1, "compute": 0.2, "deliver": 0.1},
            late_times=((as_datetime(at - 60 * SECOND), 2),),
            event_times=EventTimes(as_datetime(window), as_datetime(window + 40 * SECOND), (2, 8, 10, 20, 20, 20, 20)),
            least_origin="partition 0",
            origins=ORIGINS,
            slowest=slowest,
        )
        history.write([metrics], [WindowPanes(number, window, window + 5 * SECOND, "ON_TIME", 1, 9, at)])


def visits(name: str, url: str) -> Iterator[float]:
    """Yield the seconds of each visit, in a browser without caches."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=name, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(VISITS):
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            page: Any = context.new_page()
            page.goto(url)
            until = time.monotonic() + 120
            while (shown := page.evaluate(_SHOWN)) is None and time.monotonic() < until:
                page.wait_for_timeout(20)
            yield round(float(shown) / 1000, 2)
            context.close()
        browser.close()

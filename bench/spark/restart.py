"""A query that starts again on five million open windows, until its first batch is committed, against an empty state.

``restart`` has cells only. ``restart_panes`` also emits early, so its state has a pane of each window.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Line
from bench.spark import data, settings
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY, scaled

PANES = 5_000_000
BATCH = 10_000
ROUNDS = min(settings.ROUNDS, 3)


def restart(name: str = "restart") -> Line:
    """Seconds from a session that is up to the first committed batch, each time in a process of its own."""
    early = name == "restart_panes"
    from bench.spark.queries import scratch

    files = sorted(data.open_keys(scaled(PANES), ROUNDS, BATCH).glob("*.parquet"))
    opening, small = files[:-ROUNDS], files[-ROUNDS:]
    empty: list[Answer] = []
    full: list[Answer] = []
    with Watch() as watch, scratch(name) as place:
        print(f"opened: {_start(place / 'full', opening, early=early)}", file=sys.stderr, flush=True)
        for number, file in enumerate(small):
            full.append(_start(place / "full", [file], early=early))
            empty.append(_start(place / f"empty-{number}", [file], early=early))
            print(f"round {number + 1}: {full[-1]}, empty {empty[-1]}", file=sys.stderr, flush=True)
        size = sum(file.stat().st_size for file in (place / "full/checkpoint/eventide").rglob("*") if file.is_file())
    ours, theirs = (min(run["first_commit"] for run in runs) for runs in (full, empty))
    return Line(
        name,
        round(ours, 2),
        round(theirs, 2),
        "an empty state",
        round(ours / theirs, 3),
        "s",
        watch.total_mb,
        all(run["open"] >= scaled(PANES) for run in full),
        {
            "more_seconds": round(ours - theirs, 2),
            "checkpoint_mb": size // 2**20,
            "rounds": ROUNDS,
            "load_before": watch.load_before,
        },
    )


def _start(place: Path, files: Sequence[Path], *, early: bool) -> Answer:
    """Add files to the source of a query and start it in a new process."""
    source = place / "source"
    source.mkdir(parents=True, exist_ok=True)
    for file in files:
        os.link(file, source / file.name)
    with ContestantProcess("bench.spark.restart") as process:
        return process.ask(place=str(place), early=early)


def _run(place: str, early: bool) -> Answer:
    import eventide as ev
    from bench.spark.queries import start_session, stream
    from bench.spark.sinks import run_in_driver

    spark = start_session()
    windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(ev.tumbling("1 hour"))
    if early:
        windows = windows.emit(early=ev.on_update())
    up = time.perf_counter()
    commit = _NextCommit(Path(place) / "checkpoint/commits")
    query = run_in_driver(windows.agg(n=ev.count()), stream(spark, Path(place) / "source"), Path(place))
    at = commit.wait()
    assert query.metrics is not None
    return {"first_commit": round(at - up, 3), "open": query.metrics.open_windows, "batches": query.batches}


class _NextCommit(threading.Thread):
    """Looks for a batch that Spark commits after all that it has committed before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._before = self._newest()
        self._at = 0.0
        self.start()

    def run(self) -> None:
        while self._newest() == self._before:
            time.sleep(0.005)
        self._at = time.perf_counter()

    def wait(self) -> float:
        self.join(timeout=60)
        return self._at

    def _newest(self) -> int:
        return max((int(file.name) for file in self._folder.glob("[0-9]*")), default=-1)


if __name__ == "__main__":
    answer_requests(_run)

"""Time from a session that is up to the first pane in a file. Each run is a process of its own: all start from cold."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from bench.measure import Line
from bench.spark import data, settings
from bench.spark.agreement import compare, final_table
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY

ROUNDS = min(settings.ROUNDS, 3)
ROWS, KEYS = 10_000, 20
PLAIN = "first_result_plain_session"


def first_result(names: Sequence[str]) -> list[Line]:
    """One-minute windows over one small file."""
    return [_line(name) for name in names]


def _line(name: str) -> Line:
    minutes = pl.scan_parquet(data.few(ROWS, KEYS) / "*.parquet").select(pl.col("ts").dt.truncate("1m"), KEY)
    windows = minutes.unique().select(pl.len()).collect().item()
    runs: dict[str, list[Answer]] = {"eventide": [], "spark": []}
    with Watch() as watch:
        for number in range(ROUNDS):
            for who, answers in runs.items():
                with ContestantProcess("bench.spark.first_result", who) as process:
                    answers.append(process.ask(plain=name == PLAIN))
                seconds = {key: value for key, value in answers[-1].items() if key != "rows"}
                print(f"{name}, {who}, round {number + 1}: {seconds}", file=sys.stderr, flush=True)
    ours, theirs = (min(run["first_pane"] for run in runs[who]) for who in ("eventide", "spark"))
    panes = [pl.DataFrame(answers[0]["rows"], schema=_COLUMNS, orient="row") for answers in runs.values()]
    agreement = compare(*panes, windows=windows, again=True)
    return Line(
        name,
        round(ours, 2),
        round(theirs, 2),
        "Spark's own",
        round(ours / theirs, 3),
        "s",
        watch.total_mb,
        agreement.equal,
        {
            "session": round(min(run["session"] for run in runs["eventide"]), 2),
            "peer_session": round(min(run["session"] for run in runs["spark"]), 2),
            "windows_compared": agreement.compared,
            "windows": agreement.windows,
            "rounds": ROUNDS,
            "load_before": watch.load_before,
        },
    )


_COLUMNS = ["start", "end", KEY, "n", "total"]


def _cold(who: str, plain: bool) -> Answer:
    begin = time.perf_counter()
    from pyspark.sql import functions as F  # noqa: N812

    import eventide as ev
    from bench.spark.queries import plain_session, scratch, start_session, stream
    from bench.spark.sinks import run_in_driver, run_in_spark
    from bench.spark.windows import own

    spark = plain_session() if plain else start_session()
    up = time.perf_counter()
    files = data.few(ROWS, KEYS)
    with scratch("first-result") as place:
        first = _FirstFile(place / "out")
        if who == "eventide":
            windows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(
                ev.tumbling("1 minute")
            )
            run_in_driver(windows.agg(n=ev.count(), total=ev.sum("value")), stream(spark, files), place)
        else:
            run_in_spark(own(lambda: F.window("ts", "1 minute"))(stream(spark, files)), place)
        at = first.wait()
        panes = final_table(place / "out")
    return {"session": up - begin, "first_pane": at - up, "rows": [list(row) for row in panes.rows()]}


class _FirstFile(threading.Thread):
    """Looks for the first file with rows; Spark writes files without rows as well."""

    def __init__(self, place: Path) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._at = 0.0
        self.start()

    def run(self) -> None:
        while not any(_rows_in(file) for file in self._place.glob("batch=*/*.parquet")):
            time.sleep(0.01)
        self._at = time.perf_counter()

    def wait(self) -> float:
        self.join(timeout=60)
        return self._at


def _rows_in(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, ValueError):  # moved away, or not complete yet
        return 0


def _answer(**request: Any) -> Answer:
    return _cold(sys.argv[1], **request)


if __name__ == "__main__":
    answer_requests(_answer)

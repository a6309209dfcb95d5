"""Memory of the driver for a backlog that arrives as one batch, against a tenth of the rows."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from bench.measure import Line
from bench.spark import data
from bench.spark.contestant import Answer, ContestantProcess, answer_requests
from bench.spark.machine import Watch

FILES = 50  # of a million rows
KEYS = 1_000


def backlog_50m() -> Line:
    """Peak of the resident memory of the driver's Python process, in MB."""
    answers: dict[int, Answer] = {}
    with Watch() as watch:
        for files in (FILES // 10, FILES):  # each in a process of its own: a peak never decreases
            with ContestantProcess("bench.spark.backlog") as process:
                answers[files] = process.ask(files=files)
                print(f"{files} million rows: {answers[files]}", file=sys.stderr, flush=True)
    less, whole = answers.values()
    return Line(
        "backlog_50m",
        whole["mb"],
        less["mb"],
        "itself on 5 million rows",
        round(whole["mb"] / less["mb"], 3),
        "MB",
        watch.total_mb,
        all(answer["rows"] == files * 1_000_000 for files, answer in answers.items()),
        {"seconds": whole["seconds"], "batches": whole["batches"], "load_before": watch.load_before},
    )


def _run(files: int) -> Answer:
    import polars as pl

    import eventide as ev
    from bench.spark.queries import scratch, start_session

    spark = start_session()
    folder = data.backlog(files, KEYS)
    rows = spark.readStream.schema(spark.read.parquet(str(folder)).schema).parquet(str(folder))
    windows = ev.stream(time="ts", key="key", watermark="30 seconds").window(ev.tumbling("1 minute"))
    with scratch("backlog") as place:
        start = time.perf_counter()
        query = windows.agg(n=ev.count(), total=ev.sum("value")).run(
            rows, sink=ev.sinks.files(place / "out"), checkpoint=place / "checkpoint", drain=True
        )
        seconds = time.perf_counter() - start
        counted = pl.scan_parquet(str(place / "out/**/*.parquet"), hive_partitioning=False).select(pl.col("n").sum())
        batches = len({metrics.batch for metrics in query.history if metrics.rows})
        return {"mb": _peak_mb(), "seconds": round(seconds, 1), "batches": batches, "rows": counted.collect().item()}


def _peak_mb() -> int:
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert match is not None
    return int(match[1]) // 1024


if __name__ == "__main__":
    answer_requests(_run)

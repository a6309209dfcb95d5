"""A batch of changed windows into PostgreSQL: staged by the executors, against collected by the driver."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from bench.measure import Line, rss_mb
from bench.spark.machine import Watch
from bench.spark.settings import scaled

WINDOWS = 2_000_000
HEAP = {"staged": "512m", "collected": "4g"}  # of the JVM: collected rows pass through it
PANE = "concat('shop ', id % 1000) AS shop, timestamp_seconds(60 * (id div 1000)) AS window_start, "
OTHER = (
    "timestamp_seconds(60 * (id div 1000) + 60) AS window_end, 'LATE' AS pane_timing, false AS pane_is_last, "
    "timestamp_seconds(0) AS emitted_at"
)


def sink_postgres() -> Line:
    """Rows of the second batch, which retracts and replaces every window of the first, per second."""
    from tests.postgres import cluster

    windows = scaled(WINDOWS)
    with Watch() as watch, cluster() as url:
        collected, staged = (_start(url, windows, mode) for mode in ("collected", "staged"))
    ours, theirs = (2 * windows / run["seconds"] for run in (staged, collected))
    return Line(
        "sink_postgres",
        round(ours),
        round(theirs),
        "collected",
        round(ours / theirs, 3),
        "rows/s",
        watch.total_mb,
        staged["table"] == collected["table"] and staged["table"][0] == windows,
        {
            "driver_python_mb": staged["rss_mb"],
            "driver_python_mb_collected": collected["rss_mb"],
            "windows": windows,
            "load_before": watch.load_before,
        },
    )


def _start(url: str, windows: int, mode: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.spark.sink_postgres", url, str(windows), mode]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _write(url: str, windows: int, mode: str) -> dict[str, Any]:
    """Write two batches in this process. The peak of its memory is that of the driver without the JVM."""
    import psycopg

    import eventide as ev
    from eventide.sinks.batch import SinkBatch

    spark = ev.spark_session("sink_postgres", master="local[2]", partitions=2, memory=HEAP[mode])
    sink = ev.sinks.table(url, name=mode, staged=mode == "staged")
    info = ev.sinks.OutputInfo(output="panes", key=("shop",), mode="retracting", query=mode)

    def panes(n: str, index: int, diff: int) -> Any:
        values = f"{n} AS n, {index}L AS pane_index, {diff}Y AS diff"
        return spark.sql(f"SELECT {PANE}{OTHER}, {values} FROM range(0, {windows}, 1, 4)")

    first = panes("id", 0, 1)
    sink.open(first.schema, info)
    sink.write(SinkBatch(first, spark), 0, info)
    changed = panes("id", 0, -1).union(panes("id + 1", 1, 1))
    begin = time.perf_counter()
    size = 0 if mode == "collected" else None  # the driver would write a large batch in parts
    sink.write(SinkBatch(changed, spark, size=size), 1, info)
    seconds = time.perf_counter() - begin
    sink.close()
    spark.stop()
    with psycopg.connect(url) as connection:
        table = connection.execute(f"SELECT count(*), sum(n)::bigint, sum(pane_index)::bigint FROM {mode}").fetchone()
    return {"seconds": seconds, "rss_mb": rss_mb(), "table": table}


if __name__ == "__main__":
    print(json.dumps(_write(sys.argv[1], int(sys.argv[2]), sys.argv[3])))

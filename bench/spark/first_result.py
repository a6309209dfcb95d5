"""Time from a session that is up to the first pane, each time in a process of its own: all start from cold."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import polars as pl

from bench.measure import Line
from bench.spark import data
from bench.spark.agreement import compare
from bench.spark.machine import Watch
from bench.spark.settings import KEY

ROUNDS = 3
ROWS, KEYS = 10_000, 20


def first_result() -> Line:
    """One-minute windows over one small file."""
    minutes = pl.scan_parquet(data.few(ROWS, KEYS) / "*.parquet").select(pl.col("ts").dt.truncate("1m"), KEY)
    windows = minutes.unique().select(pl.len()).collect().item()
    told: dict[str, list[dict[str, Any]]] = {"eventide": [], "spark": []}
    with Watch() as watch:
        for i in range(ROUNDS):
            for who, results in told.items():
                results.append(_in_a_process(who))
                seconds = {name: value for name, value in results[-1].items() if name != "rows"}
                print(f"{who}, round {i + 1}: {seconds}", file=sys.stderr, flush=True)
    ours, theirs = (min(one["first_pane"] for one in told[who]) for who in told)
    panes = [_table(results[0]["rows"]) for results in told.values()]
    agreement = compare(*panes, windows=windows, again=True)
    return Line(
        "first_result",
        round(ours, 2),
        round(theirs, 2),
        "Spark's own",
        round(ours / theirs, 3),
        "s",
        watch.total_mb,
        agreement.equal,
        {
            "session": round(min(one["session"] for one in told["eventide"]), 2),
            "peer_session": round(min(one["session"] for one in told["spark"]), 2),
            "windows_compared": agreement.compared,
            "windows": agreement.windows,
            "rounds": ROUNDS,
            "load_before": watch.load_before,
        },
    )


def _in_a_process(who: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.spark.first_result", who]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _table(rows: list[list[Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["start", "end", KEY, "n", "total"], orient="row")


def _cold(who: str) -> dict[str, Any]:
    begin = time.perf_counter()
    from pyspark.sql import functions as F  # noqa: N812

    import eventide as ev
    from bench.spark.queries import scratch, start_session, stream
    from bench.spark.windows import own

    spark = start_session()
    up = time.perf_counter()
    files = data.few(ROWS, KEYS)
    if who == "eventide":
        rows = ev.stream(time="ts", key=KEY, watermark=ev.lag("30 seconds")).window(ev.tumbling("1 minute"))
        result = stream(spark, files).transform(rows.agg(n=ev.count(), total=ev.sum("value")))
    else:
        result = own(lambda: F.window("ts", "1 minute"))(stream(spark, files))
    bounds = (F.unix_micros(f"window.{name}").alias(name) for name in ("start", "end"))
    result = result.select(*bounds, KEY, "n", "total")
    with scratch("checkpoint") as checkpoint:
        writer = result.writeStream.outputMode("append").trigger(availableNow=True).format("memory").queryName("panes")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        while query.isActive and not any(p["sink"]["numOutputRows"] > 0 for p in query.recentProgress):
            time.sleep(0.01)
        first = time.perf_counter()
        query.awaitTermination()
    panes = [list(row) for row in spark.table("panes").collect()]
    return {"session": up - begin, "first_pane": first - up, "rows": panes}


if __name__ == "__main__":
    print(json.dumps(_cold(sys.argv[1])))

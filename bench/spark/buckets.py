"""State on the executors: what many buckets cost against Spark's own windows, and many origins against one.

Each run has a process of its own. Both sides write Parquet files, and the median batch counts.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from bench.measure import Line
from bench.spark import data, settings
from bench.spark.batch_cost import digest
from bench.spark.contestant import ContestantProcess, answer_requests
from bench.spark.machine import Watch
from bench.spark.settings import KEY

ROUNDS = min(settings.ROUNDS, 2)


@dataclass(frozen=True)
class _Size:
    """A benchmark: rows per batch, buckets, which are Spark's state partitions, and how many batches there are."""

    rows: int
    buckets: int
    batches: int
    warm_up: int

    @property
    def minutes(self) -> int:
        """Minutes of event time whose windows both sides close; a batch has 20 seconds."""
        return self.batches // 4


SIZES = {
    "transform_1k": _Size(1_000, 2, 40, 15),
    "buckets_20": _Size(50_000, 20, 16, 6),
    "buckets_200": _Size(50_000, 200, 8, 2),
}
STORES = ("spark_rocksdb", "spark_memory")
ORIGINS = {"one": 1, "many": settings.scaled(100_000)}
TASKS = BUCKETS = 64
_ORIGIN_ROWS, _ORIGIN_BATCHES, _ORIGIN_WARM_UP = settings.scaled(200_000), 8, 3


def bucket_cost(names: Sequence[str]) -> list[Line]:
    """Milliseconds of the median batch of ``df.transform(pipeline)``, against Spark's own windows.

    Spark runs with each of its state stores, and the faster one counts.
    """
    peer = "Spark's own, as many partitions, the faster state store"
    return [_compare(name, ("eventide", *STORES), peer) for name in names]


def progress_origins() -> Line:
    """Milliseconds of the median batch with 64 tasks and buckets: a hundred thousand origins against one origin."""
    line = _compare("progress_origins", ("many", "one"), "itself with one origin")
    return replace(line, details={**line.details, **_shuffled_bytes()})


def _bytes_shuffled(spark: Any) -> int:
    """Return the bytes that all stages have written for shuffles, as Spark's status store counts them: compressed."""
    context = spark.sparkContext
    java = context._jvm.java
    quantiles = java.lang.reflect.Array.newInstance(java.lang.Double.TYPE, 0)
    store, none = context._jsc.sc().statusStore(), java.util.ArrayList()
    stages = store.stageList(none, False, False, quantiles, none).iterator()
    total = 0
    while stages.hasNext():
        total += stages.next().shuffleWriteBytes()
    return total


def _shuffled_bytes() -> dict[str, int]:
    """Return the bytes of progress in the exchanges of a batch, counted with the real pages in this process."""
    from bench.simulation import count

    rows = _ORIGIN_ROWS // TASKS
    return {
        f"progress_bytes_{side}": count(TASKS, BUCKETS, origins, "coalesced", rows=rows).progress_bytes
        for side, origins in ORIGINS.items()
    }


def _compare(name: str, sides: tuple[str, ...], peer: str) -> Line:
    """Compare the first side with the fastest of the others."""
    runs: dict[str, list[dict[str, Any]]] = {who: [] for who in sides}
    with Watch() as watch:
        for _ in range(ROUNDS):
            for who, done in runs.items():
                with ContestantProcess("bench.spark.buckets", who) as process:
                    done.append(process.ask(name=name))
                print(f"{name}, {who}: {done[-1]['median']:.0f} ms, first {done[-1]['first']:.0f} ms", file=sys.stderr)
    medians = {who: min(run["median"] for run in done) for who, done in runs.items()}
    firsts = {who: min(run["first"] for run in done) for who, done in runs.items()}
    us, *others = sides
    ours, theirs = medians[us], min(medians[who] for who in others)
    first, peer_first = firsts[us], min(firsts[who] for who in others)
    details = {
        "first_batch": first,
        "peer_first_batch": peer_first,
        **{f"{who}_ms": round(medians[who], 1) for who in others if len(others) > 1},
        **{f"shuffled_bytes_{who}": done[-1]["shuffled"] for who, done in runs.items()},
        "rounds": ROUNDS,
        "load_before": watch.load_before,
    }
    equal = len({run["digest"] for done in runs.values() for run in done}) == 1
    ratio = round(ours / theirs, 3)
    first_ratio = round(first / peer_first, 3)
    times = (round(ours, 1), round(theirs, 1))
    return Line(name, *times, peer, ratio, "ms/batch", watch.total_mb, equal, details, first_ratio)


def _measure(who: str, name: str) -> dict[str, Any]:
    return _measure_origins(ORIGINS[who]) if who in ORIGINS else _measure_buckets(who, SIZES[name])


def _measure_buckets(who: str, size: _Size) -> dict[str, Any]:
    from pyspark.sql import functions as F  # noqa: N812

    import eventide as ev
    from bench.spark.queries import in_memory_state, start_session, stream

    spark = start_session()
    rows = stream(spark, data.batches(size.rows, 1_000, size.batches))
    _set_buckets(spark, size.buckets)
    if who == "eventide":
        stream_ = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("10 seconds"))
        result = rows.transform(stream_.window(ev.tumbling("1 minute")).agg(n=ev.count(), total=ev.sum("value")))
    else:
        windows = rows.withWatermark("ts", "10 seconds").groupBy(F.window("ts", "1 minute").alias("window"), KEY)
        result = windows.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    with in_memory_state(spark) if who == "spark_memory" else nullcontext():
        return _run(result, size.minutes, size.warm_up)


def _measure_origins(origins: int) -> dict[str, Any]:
    from pyspark.sql import functions as F  # noqa: N812

    import eventide as ev
    from bench.spark.queries import start_session, stream

    spark = start_session()
    rows = stream(spark, data.batches(_ORIGIN_ROWS, 1_000, _ORIGIN_BATCHES))
    origin = F.col("_metadata.row_index") % origins  # all origins are in each file, and so in each batch
    rows = rows.withColumn("origin", origin).repartition(TASKS)
    _set_buckets(spark, BUCKETS)
    watermark = ev.bounded_delay("10 seconds", origin="origin")
    windows = ev.stream(time="ts", key=KEY, watermark=watermark).window(ev.tumbling("1 minute"))
    result = rows.transform(windows.agg(n=ev.count(), total=ev.sum("value")))
    return _run(result, _ORIGIN_BATCHES // 4, _ORIGIN_WARM_UP)


def _set_buckets(spark: Any, count: int) -> None:
    from eventide.spark.buckets import BUCKETS as SETTING

    spark.conf.set("spark.sql.shuffle.partitions", str(count))
    spark.conf.set(SETTING, str(count))


def _run(result: Any, minutes: int, warm_up: int) -> dict[str, Any]:
    from bench.spark.queries import scratch
    from bench.spark.sinks import batch_seconds, run_in_spark

    with scratch("buckets") as place:
        times = [1000 * seconds for seconds in batch_seconds(run_in_spark(result, place))]
        return {
            "median": statistics.median(times[warm_up:]),
            "first": times[0],
            "digest": digest(place / "out", minutes),
            "shuffled": _bytes_shuffled(result.sparkSession) // max(1, len(times)),
        }


if __name__ == "__main__":
    answer_requests(lambda name: _measure(sys.argv[1], name))

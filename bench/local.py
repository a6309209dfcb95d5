"""The in-process host against bare Polars: what the semantics of event time cost."""

from __future__ import annotations

import statistics

import numpy as np
import polars as pl

import eventide as ev
from bench.measure import Line, race, rss_mb, timed

ROWS = 10_000_000
BUNDLE = 1_000_000
MINUTE = 60_000_000
SPAN = 10 * MINUTE


def generate(keys: int, rows: int = ROWS, span: int = SPAN, disorder: int = 5_000_000) -> list[pl.DataFrame]:
    """Bundles of rows whose times advance, with some disorder; integer values, so that sums can be compared exactly."""
    rng = np.random.default_rng(7)
    ts = np.linspace(0, span, rows, dtype=np.int64) + rng.integers(0, disorder, rows)
    frame = pl.DataFrame(
        {
            "ts": pl.Series(ts).cast(pl.Datetime("us", "UTC")),
            "key": rng.integers(0, keys, rows),
            "value": rng.integers(0, 1000, rows).astype(np.float64),
        }
    )
    return [frame.slice(start, BUNDLE) for start in range(0, rows, BUNDLE)]


def run(pipeline: ev.Pipeline, bundles: list[pl.DataFrame]) -> pl.DataFrame:
    clock = range(len(bundles))
    result = pipeline.local(bundles, clock=clock)
    assert result.metrics.balanced and result.metrics.late == 0
    return result.panes


def bare(bundles: list[pl.DataFrame]) -> pl.DataFrame:
    """The physical limit: one group_by over all rows at once, on Polars' fastest engine."""
    start = pl.col("ts").dt.truncate("1m")
    rows = pl.concat(bundles, rechunk=False).lazy()
    return rows.group_by(start.alias("start"), "key").agg(n=pl.len(), total=pl.col("value").sum()).collect()


def final(panes: pl.DataFrame) -> pl.DataFrame:
    """The table that the diffs sum to."""
    start = pl.col("window_start").alias("start")
    rows = panes.select(start, "key", "n", "total", "diff")
    if (rows["diff"] < 0).any():
        rows = rows.group_by("start", "key", "n", "total").agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
    return rows.select("start", "key", pl.col("n").cast(pl.Int64), "total").sort("start", "key")


def same(panes: pl.DataFrame, table: pl.DataFrame) -> bool:
    other = table.select("start", "key", pl.col("n").cast(pl.Int64), "total").sort("start", "key")
    return final(panes).equals(other)


def _stream() -> ev.Stream:
    return ev.stream(time="ts", key="key", watermark=ev.bounded_delay("10 seconds"))


def _tumbling(name: str, keys: int) -> Line:
    bundles = generate(keys)
    pipeline = _stream().window(ev.tumbling("1 minute")).agg(n=ev.count(), total=ev.sum("value"))
    return race(
        name, lambda: run(pipeline, bundles), lambda: bare(bundles), peer_name="polars group_by", rows=ROWS, same=same
    )


def local_tumbling_few() -> Line:
    """One-minute windows, 100 keys."""
    return _tumbling("local_tumbling_few", 100)


def local_tumbling_many() -> Line:
    """One-minute windows, 100 thousand keys."""
    return _tumbling("local_tumbling_many", 100_000)


def local_sliding() -> Line:
    """One minute every five seconds, against exploding each row into its 12 windows."""
    bundles = generate(100)
    pipeline = _stream().window(ev.sliding("1 minute", every="5 seconds")).agg(n=ev.count(), total=ev.sum("value"))

    def exploding() -> pl.DataFrame:
        first = pl.col("ts").dt.truncate("5s") - pl.duration(seconds=55)
        starts = pl.datetime_ranges(first, first + pl.duration(seconds=55), "5s")
        parts = [
            b.lazy()
            .with_columns(starts.alias("start"))
            .explode("start")
            .group_by("start", "key")
            .agg(n=pl.len(), total=pl.col("value").sum())
            .collect()
            for b in bundles
        ]
        return pl.concat(parts).group_by("start", "key").agg(pl.col("n").sum(), pl.col("total").sum())

    return race(
        "local_sliding",
        lambda: run(pipeline, bundles),
        exploding,
        peer_name="polars explode and group_by",
        rows=ROWS,
        same=same,
        rounds=2,
    )


def local_triggers() -> Line:
    """A retracting early pane on every bundle, 10 thousand keys, against one group_by at the end."""
    bundles = generate(10_000)
    trigger = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    pipeline = _stream().window(ev.tumbling("1 minute")).trigger(trigger, mode="retracting")
    complete = pipeline.agg(n=ev.count(), total=ev.sum("value"))
    return race(
        "local_triggers",
        lambda: run(complete, bundles),
        lambda: bare(bundles),
        peer_name="polars group_by",
        rows=ROWS,
        same=same,
    )


def local_small_bundles() -> Line:
    """Milliseconds per bundle of 10 thousand rows on 5 million open keys, against 50 thousand; lower is better."""
    trigger = ev.after_watermark(early=ev.on_update(), late=ev.on_update())
    pipeline = _stream().window(ev.tumbling("1 hour")).trigger(trigger, mode="retracting").agg(n=ev.count())
    small, large = _Open(pipeline, 50_000), _Open(pipeline, 5_000_000)
    few, many = [], []
    for _ in range(40):
        few.append(small.bundle())
        many.append(large.bundle())
    ours, theirs = statistics.mean(many) * 1000, statistics.mean(few) * 1000
    equal = small.right() and large.right()
    return Line(
        "local_small_bundles",
        round(ours, 2),
        round(theirs, 2),
        "itself on 50 thousand open keys",
        round(ours / theirs, 3),
        "ms/bundle",
        rss_mb(),
        equal,
    )


def local_retention() -> Line:
    """Bytes of state after 400 bundles of a stream that never ends, against those after 100: they must not grow.

    Windows without an end keep all values (a median), and a few keys have most of the rows; retention bounds them by
    rows. Every row is counted: in a window, or as a dead letter.
    """
    rows = ev.stream(time="ts", key="key", watermark=ev.bounded_delay("10 seconds")).window(ev.global_window())
    early = rows.trigger(ev.every("1 hour"), mode="accumulating").limit_state(rows=1_000)
    query = early.agg(middle=ev.median("value")).start_local(keep=False)
    rng = np.random.default_rng(3)
    sizes: list[int] = []
    balanced, times = True, []
    for i in range(400):
        keys = np.append(np.minimum(rng.zipf(1.5, 10_000), 100), rng.integers(0, 100, 10_000))
        ts = pl.Series(i * 1_000_000 + np.arange(20_000)).cast(pl.Datetime("us", "UTC"))
        frame = pl.DataFrame({"ts": ts, "key": keys, "value": rng.random(20_000)})
        seconds, step = timed(lambda frame=frame, i=i: query.push(frame, now=i * 1_000_000))  # type: ignore[misc]
        times.append(seconds)
        balanced = balanced and step.counts.balanced
        if i in (99, 399):
            sizes.append(sum(int(table.estimated_size()) for table in query.scan()))
    return Line(
        "local_retention",
        sizes[1],
        sizes[0],
        "itself after 100 bundles",
        round(sizes[1] / sizes[0], 3),
        "bytes",
        rss_mb(),
        balanced,
        {
            "ms_per_bundle": round(statistics.mean(times[-50:]) * 1000, 1),
            "ms_per_bundle_after_100": round(statistics.mean(times[100:150]) * 1000, 1),
        },
    )


class _Open:
    """A query with many open keys that takes small bundles."""

    def __init__(self, pipeline: ev.Pipeline, keys: int) -> None:
        self._keys = keys
        self._rng = np.random.default_rng(1)
        self._query = pipeline.start_local()
        self._clock = 0
        self._pushed = keys
        for start in range(0, keys, BUNDLE):
            ids = np.arange(start, min(keys, start + BUNDLE))
            self._push(ids)
        self._query.result.steps.clear()

    def _push(self, keys: np.ndarray) -> None:
        self._clock += 1
        ts = pl.Series(np.arange(len(keys))).cast(pl.Datetime("us", "UTC"))
        self._query.push(pl.DataFrame({"ts": ts, "key": keys}), now=self._clock)

    def bundle(self) -> float:
        keys = self._rng.integers(0, self._keys, 10_000)
        self._pushed += 10_000
        seconds, _ = timed(lambda: self._push(keys))
        self._query.result.steps.clear()
        return seconds

    def right(self) -> bool:
        return sum(int(f["count(*)"].sum()) for f in self._query.scan()) == self._pushed


TARGETS = {
    "local_tumbling_few": "at least 0.4",
    "local_tumbling_many": "at least 0.4",
    "local_sliding": "at least 5",
    "local_triggers": "at least 0.1",
    "local_small_bundles": "at most 2",
    "local_retention": "about 1",
}
ALL = (local_tumbling_few, local_tumbling_many, local_sliding, local_triggers, local_small_bundles, local_retention)

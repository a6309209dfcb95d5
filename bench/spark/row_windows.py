"""Windows of so many rows of a key, against the same written by hand as a processor of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import eventide as ev
from bench.measure import Line
from bench.spark import data
from bench.spark.contest import Peer, contest
from bench.spark.queries import stream
from bench.spark.settings import KEY
from bench.spark.triggers import PEER_FILES
from bench.spark.windows import in_spark, queries_of

SIZE = 5
COLUMNS = ("key", "start", "end", "n", "total")


def row_windows(names: Sequence[str], keys: int) -> list[Line]:
    """Five rows each. What is summed is the same in all rows of a key: the rows of a batch have no order."""
    rows = ev.stream(time="ts", key=KEY, watermark=ev.bounded_delay("30 seconds")).window(ev.rows(SIZE))
    pipeline = rows.agg(n=ev.count(), total=ev.sum("key"))
    # A batch costs the peer so much for each key: with many keys one is enough to wait for.
    files = PEER_FILES if keys <= 10_000 else 1
    peer = Peer("per-key transformWithStateInPandas", {"by_frames": in_spark(by_frames)}, files=files)
    return contest(data.events(keys), queries_of(names, pipeline), peer, table=_full)


def by_frames(spark: SparkSession, files: Path) -> DataFrame:
    groups = stream(spark, files).select(F.col(KEY).alias("by"), F.col("key").alias("value")).groupBy("by")
    kind = "bigint" if KEY == "key" else "string"
    schema = f"key {kind}, start bigint, end bigint, n bigint, total bigint"
    observed = groups.transformWithStateInPandas(RowsOfKey(), schema, "Append", "None")
    return observed.select(F.struct("start", "end").alias("window"), F.col("key").alias(KEY), "n", "total")


class RowsOfKey(StatefulProcessor):
    """Counts the rows of a key and tells each full window; one read and one write for each key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "rows bigint, total bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        values = np.concatenate([frame["value"].to_numpy() for frame in rows])
        before, total = self._seen.get() or (0, 0)
        number = before + np.arange(len(values))
        window = number // SIZE
        first = before // SIZE
        sums = np.bincount(window - first, weights=values).astype(np.int64)
        sums[0] += total
        after = before + len(values)
        full = after // SIZE - first
        self._seen.update((int(after), int(sums[full]) if full < len(sums) else 0))
        starts = (first + np.arange(full)) * SIZE + 1
        yield pd.DataFrame(
            {"key": key[0], "start": starts, "end": starts + SIZE, "n": SIZE, "total": sums[:full]}, columns=COLUMNS
        )

    def close(self) -> None:
        pass


def _full(rows: DataFrame) -> DataFrame:
    """All windows that are full."""
    counts = rows.groupBy(KEY).agg(F.floor(F.count("*") / SIZE).alias("full")).where("full > 0")
    return counts.select(KEY, F.explode(F.sequence(F.lit(1), "full")))

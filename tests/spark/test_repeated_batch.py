"""A batch whose second sink fails is repeated: the first sink holds each pane once, as the first attempt wrote it.

Rows of the repeated batch are divided among other tasks. A later batch retracts what the repeated one emitted: if state
differs from the sink by one bit, a row stays behind.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from tests.sinks.places import Place
from tests.spark.running import Stream

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("placement")]

SECOND = 1_000_000
FLOATS = ["total", "mean", "spread"]
PIPELINE = (
    ev.stream(time="at", key="shop", watermark=ev.bounded_delay("5 seconds"))
    .window(ev.tumbling("1 minute"))
    .trigger(ev.after_watermark(early=ev.on_update(), late=ev.on_update()), mode="retracting")
    .agg(n=ev.count(), total=ev.sum("price"), mean=ev.mean("price"), spread=ev.std("price"))
)
Contents = Counter[tuple[Any, ...]]


def rows_of(seed: int, first: int) -> pl.DataFrame:
    """Floats of all sizes, whose sum depends on the order in which they are added one by one."""
    rng = Random(seed)
    rows = [
        ((first + rng.randrange(100)) * SECOND, rng.randrange(20), rng.random() * 10.0 ** rng.randrange(-6, 6))
        for _ in range(3_000)
    ]
    late = (0, 1, 0.5)
    return pl.DataFrame([*rows, late], schema={"at": pl.Int64, "shop": pl.Int64, "price": pl.Float64}, orient="row")


BUNDLES = [rows_of(1, 0), rows_of(2, 70), rows_of(3, 100)]


def exact(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows to the last bit of each float."""
    columns = rows.select("shop", "n", *FLOATS).rows()
    return [(shop, n, *(struct.pack(">d", number) for number in floats)) for shop, n, *floats in columns]


def table_of(panes: pl.DataFrame) -> Contents:
    """What the diffs add up to."""
    counts: Contents = Counter()
    for row, diff in zip(exact(panes), panes["diff"].to_list(), strict=True):
        counts[row] += diff
    return Counter({row: count for row, count in counts.items() if count})


@dataclass
class Written:
    """A sink, and what a reader finds in it."""

    sink: Any
    contents: Callable[[], Contents]


def database(place: Place) -> Written:
    def contents() -> Contents:
        asked = place.ask(f"SELECT shop, n, {', '.join(FLOATS)} FROM panes")
        return Counter(exact(pl.DataFrame(asked, schema=["shop", "n", *FLOATS], orient="row")))

    return Written(ev.sinks.table(place.url), contents)


def files(spark: SparkSession, path: Path) -> Written:
    def contents() -> Contents:
        return table_of(pl.DataFrame(pl.from_arrow(spark.read.parquet(str(path)).toArrow())))

    return Written(ev.sinks.files(path), contents)


def function() -> Written:
    """A function that ignores a batch which it has written."""
    batches: dict[int, pl.DataFrame] = {}

    def write(batch: DataFrame, batch_id: int) -> None:
        panes = pl.DataFrame(pl.from_arrow(batch.toArrow()))
        if batch_id in batches:
            assert sorted(exact(panes)) == sorted(exact(batches[batch_id]))
        batches.setdefault(batch_id, panes)

    return Written(write, lambda: table_of(pl.concat(batches.values())))


@pytest.fixture(params=["sqlite", "postgres", "files", "function"])
def written(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Written:
    if request.param in ("sqlite", "postgres"):
        return database(request.getfixturevalue(request.param))
    return files(spark, tmp_path / "panes") if request.param == "files" else function()


def test_a_batch_whose_second_sink_failed_is_in_the_first_sink_once(
    spark: SparkSession, tmp_path: Path, written: Written
) -> None:
    failures: list[int] = []

    def fails_once(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1 and not failures:
            failures.append(batch_id)
            raise OSError("no space left")

    stream = Stream(spark, tmp_path).put(*BUNDLES[:2])
    stream.options = {"sink": written.sink, "late": fails_once, "dead": None}
    with pytest.raises(Exception, match="no space left"):
        stream.run(PIPELINE).await_termination()
    assert failures == [1]
    first = written.contents()
    assert first == expected(2)
    stream.run(PIPELINE, stream.rows.repartition(5)).await_termination()
    assert written.contents() == first
    stream.put(BUNDLES[2]).run(PIPELINE).await_termination()
    assert written.contents() == expected(3)


def expected(bundles: int) -> Contents:
    """What the same bundles give in process."""
    return table_of(PIPELINE.local(BUNDLES[:bundles], clock=range(bundles), drain=False).panes)

"""Runs pipelines over bundles on a real Spark, one file a bundle, and collects all that comes out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession

import eventide as ev
from eventide.spark.metrics import BatchMetrics
from eventide.spark.types import spark_schema

_FIRST = 1_760_000_000

STATE = "driver"  # the fixture ``placement`` runs a test with either


@contextmanager
def settings(spark: SparkSession, changes: dict[str, str | None]) -> Iterator[None]:
    """Change settings of the session that all tests share, and restore them. None: the session does not have it."""
    before = {name: spark.conf.get(name, None) for name in changes}
    try:
        _apply(spark, changes)
        yield
    finally:
        _apply(spark, before)


def _apply(spark: SparkSession, changes: dict[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


class Stream:
    """A directory that is a stream: each file is a bundle. The outputs of all runs are collected."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.checkpoint = str(place / "checkpoint")
        self.panes: dict[int, list[pl.DataFrame]] = {}
        self.late: dict[int, list[pl.DataFrame]] = {}
        self.dead: dict[int, list[pl.DataFrame]] = {}
        self.metrics: list[BatchMetrics] = []
        self.options: dict[str, Any] = {}  # of every run
        self._bundles = 0
        (place / "in").mkdir(parents=True, exist_ok=True)

    def put(self, *bundles: pl.DataFrame) -> Stream:
        """More bundles."""
        for bundle in bundles:
            self._schema = spark_schema(bundle.schema)
            unseen = self.place / f"{self._bundles:05}.part"
            bundle.write_parquet(unseen)
            os.utime(unseen, (_FIRST + self._bundles, _FIRST + self._bundles))  # Spark reads the oldest file first
            unseen.rename(self.place / "in" / f"{self._bundles:05}.parquet")
            self._bundles += 1
        return self

    @property
    def rows(self) -> DataFrame:
        reader = self.spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.place / "in"))

    def run(self, pipeline: ev.Pipeline, rows: Any = None, **options: Any) -> Any:
        """Process the bundles that are available."""
        defaults = {
            "state": STATE,
            "available_now": "interval" not in options,
            "checkpoint": self.checkpoint,
            "on_batch": self.metrics.append,
        }
        outputs = {name: _collector(getattr(self, name)) for name in ("late", "dead")}
        outputs["sink"] = _collector(self.panes)
        return pipeline.run(self.rows if rows is None else rows, **defaults | outputs | self.options | options)  # type: ignore[arg-type]

    def all(self, output: str) -> pl.DataFrame:
        """All rows of an output; of a batch that was repeated the last."""
        batches: dict[int, list[pl.DataFrame]] = getattr(self, output)
        frames = [frame for batch in sorted(batches) for frame in batches[batch]]
        return pl.concat(frames) if frames else pl.DataFrame()


def _collector(kept: dict[int, list[pl.DataFrame]]) -> Any:
    def collect(batch: DataFrame, batch_id: int) -> None:
        kept[batch_id] = [pl.DataFrame(pl.from_arrow(batch.toArrow()))]

    return collect


def comparable(panes: pl.DataFrame) -> list[dict[str, Any]]:
    """Panes without what a clock decides, in an order of their own: for comparing hosts."""
    if panes.is_empty():
        return []
    plain = panes.drop("emitted_at").with_columns(pl.col("pane_timing").cast(pl.String))
    return sorted(plain.to_dicts(), key=repr)

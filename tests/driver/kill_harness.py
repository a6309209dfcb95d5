"""A driver that is killed: it plans batches as Spark does, commits records and writes a table."""

from __future__ import annotations

import sqlite3
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

import eventide as ev
from eventide.operators.operator import drained
from eventide.sinks import OutputInfo
from eventide.sinks.batch import SinkBatch
from eventide.spark.types import spark_schema
from eventide.time import instant
from tests.driver.harness import Checkpoint, Driver

PIPELINE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("20 seconds", max_future_skew=None))
    .window(ev.tumbling("10 seconds"))
    .trigger(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="30 seconds", mode="retracting"
    )
    .agg(n=ev.count(), total=ev.sum("price"))
)
_START = instant("2026-03-01T12:00:00Z")
_SECOND = 1_000_000


def rows(batch: int, attempt: int) -> pl.DataFrame:
    """The rows of a batch. Each attempt has them in another order, as Spark does with another number of cores."""
    chosen = np.random.default_rng(batch)
    seconds = batch * 4 + chosen.integers(-40, 10, size=50)
    frame = pl.DataFrame(
        {"ts": _START + seconds * _SECOND, "shop": chosen.integers(0, 9, 50), "price": chosen.integers(0, 100, 50)}
    ).with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))
    return frame.sample(fraction=1.0, shuffle=True, seed=attempt)


def run(place: Path, attempt: int, last: int | None) -> None:
    """Run batches, or stop after the batch ``last``, which drains the stream."""
    checkpoint = Checkpoint(place / "checkpoint")
    commits = place / "checkpoint" / "commits"
    commits.mkdir(exist_ok=True)
    driver = Driver(checkpoint, PIPELINE, [rows(0, 0).schema], retain=5)
    operator = driver.chain.operators[0]
    sink = ev.sinks.table(f"sqlite:///{place}/panes.db")
    about = OutputInfo("panes", PIPELINE.plan.key, PIPELINE.plan.mode, PIPELINE.plan.row_grain, query="killed")
    sink.open(spark_schema(operator.output_schemas()["panes"]), about)
    for batch in count(sum(1 for _ in commits.iterdir())):
        logged = checkpoint.directory / "offsets" / str(batch)
        if not logged.exists():  # Spark renames a file into its place, so it is never torn
            draft = Checkpoint(place / "draft")
            draft.log_offsets(batch, _START + batch * _SECOND)
            (draft.directory / "offsets" / str(batch)).rename(logged)
        delivery = driver.batch(
            batch, [rows(batch, attempt)], drained(PIPELINE.plan) if batch == last else (), finish=False
        )
        if ("panes", 0) in delivery.tables:
            nobody = cast(Any, None)  # Arrow tables need no session
            sink.write(SinkBatch(delivery.tables["panes", 0], nobody), batch, about)
        driver.state.finish(batch)
        (commits / str(batch)).touch()
        if batch == last:
            break
    sink.close()


def planned(place: Path) -> int:
    """How many batches were planned."""
    return sum(1 for _ in (place / "checkpoint" / "offsets").glob("[0-9]*"))


def table(place: Path) -> list[tuple[Any, ...]]:
    """The table in the sink."""
    with sqlite3.connect(place / "panes.db") as connection:
        return sorted(connection.execute("SELECT * FROM panes"), key=repr)

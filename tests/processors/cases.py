"""Processors that tests run, and how."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import polars as pl

import eventide as ev

INSTANT = pl.Datetime("us", "UTC")
MINUTE = 60_000_000


class RunningTotal(ev.Processor):
    """The sum of the values of each key so far."""

    state_schema: ClassVar = {"total": pl.Int64}

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        sums = rows.group_by("k", maintain_order=True).agg(pl.col("v").sum())
        totals = sums.select("k", total=pl.col("v") + self.state.get(sums)["total"].fill_null(0))
        self.state.put(totals)
        self.emit(totals)


class Silence(ev.Processor):
    """Alarms for keys without an event for ten minutes."""

    state_schema: ClassVar = {"last": INSTANT}

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        newest = rows.group_by("k", maintain_order=True).agg(pl.col(self.TIME).max())
        last = newest.select("k", last=pl.max_horizontal(self.state.get(newest)["last"], self.TIME))
        self.state.put(last)
        self.timers.set(last.with_columns(at=pl.col("last") + timedelta(minutes=10)))

    def on_timer(self, rows: pl.DataFrame) -> None:
        self.emit(rows.select("k", since=self.state.get(rows)["last"]))
        self.state.remove(rows)


class Enrich(ev.Processor):
    """Orders with the city of their customer; orders that come before it wait."""

    state_schema: ClassVar = {"city": pl.String, "waiting": pl.List(pl.Int64)}

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        known = rows.select("id").unique(maintain_order=True)
        known = known.with_columns(self.state.get(known).select("city", pl.col("waiting").fill_null([])))
        if edge == "customers":
            newest = rows.group_by("id").agg(new=pl.col("city").last())
            known = (
                known.join(newest, on="id", how="left", nulls_equal=True).with_columns(city=pl.col("new")).drop("new")
            )
        else:
            more = rows.group_by("id").agg(more=pl.col("price"))
            known = known.join(more, on="id", how="left", nulls_equal=True)
            known = known.with_columns(waiting=pl.concat_list("waiting", "more")).drop("more")
        ready = pl.col("city").is_not_null()
        self.emit(known.filter(ready).explode("waiting").drop_nulls("waiting").rename({"waiting": "price"}))
        empty = pl.lit([], pl.List(pl.Int64))
        self.state.put(known.with_columns(waiting=pl.when(ready).then(empty).otherwise("waiting")))


TOTALS = {"k": pl.String, "total": pl.Int64}
ALARMS = {"k": pl.String, "since": INSTANT}
ENRICHED = {"id": pl.String, "city": pl.String, "price": pl.Int64}


def totals(**options: Any) -> ev.Pipeline:
    return ev.stream(time="t", key="k", watermark=ev.ascending()).process(RunningTotal(), output=TOTALS, **options)


def alarms(**options: Any) -> ev.Pipeline:
    return ev.stream(time="t", key="k", watermark=ev.ascending()).process(Silence(), output=ALARMS, **options)


def enriched() -> ev.Pipeline:
    customers = ev.stream(time="t", key="id", watermark=ev.ascending())
    orders = ev.stream(time="t", key="customer", watermark=ev.ascending())
    return ev.process({"customers": customers, "orders": orders}, Enrich(), output=ENRICHED)


def rows(*of: tuple[int, str | None, int]) -> pl.DataFrame:
    """Minute, key, value."""
    schema = {"t": pl.Int64, "k": pl.String, "v": pl.Int64}
    return pl.DataFrame([(m * MINUTE, k, v) for m, k, v in of], schema=schema, orient="row")


def minutes(times: Sequence[Any]) -> list[int]:
    return [int(at.timestamp()) // 60 for at in times]

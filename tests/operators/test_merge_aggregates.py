"""Aggregates over the rows of several inputs: merged as rows come, in columns or row by row."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
import pytest

import eventide as ev
from tests.spark.harness import PagesHost

MINUTE = 60_000_000
PAID = ev.stream(time="t", key="user", watermark=ev.ascending())
BOUGHT = ev.stream(time="t", key="user", watermark=ev.ascending())
EARLY = ev.after_watermark(early=ev.on_update(), late=ev.on_update())


class Balance(ev.MergeAggregate):
    dtype = pl.Int64()

    def create(self) -> int:
        return 0

    def accumulate(self, state: int, input: str, row: dict[str, Any]) -> int:
        return int(state + row["amount"] if input == "paid" else state - row["price"])

    def merge(self, first: int, other: int) -> int:
        return first + other


class Story(ev.MergeAggregate):
    """Without ``merge``: rows are kept, and added in the order of their times."""

    dtype = pl.String()

    def create(self) -> str:
        return ""

    def accumulate(self, state: str, input: str, row: dict[str, Any]) -> str:
        return f"{state}{input[0]}{row['t']} "


AGGREGATES = {
    "balance": Balance(),
    "paid_total": ev.sum("paid.amount"),
    "dearest": ev.max("bought.price"),
    "payments": ev.count("paid.amount"),
    "rows": ev.count(),
}


def merged(**options: Any) -> ev.Pipeline:
    streams = {"paid": PAID, "bought": BOUGHT}
    return ev.cogroup(streams, window=ev.tumbling("1 minute"), agg=AGGREGATES, **options)


def paid(*rows: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"t": pl.Int64, "user": pl.String, "amount": pl.Int64}, orient="row")


def bought(*rows: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, {"t": pl.Int64, "user": pl.String, "price": pl.Int64}, orient="row")


BUNDLES = [
    {"paid": paid((1, "eva", 30), (2, "bo", 5)), "bought": bought((3, "eva", 10))},
    {"paid": paid((4, "eva", 1)), "bought": bought((5, "eva", 7), (MINUTE + 1, "bo", 2))},
    {"paid": paid((MINUTE + 2, "bo", 9)), "bought": bought((6, "cy", 4))},
]
EXPECTED = [
    ("bo", 5, 5, None, 1, 1),
    ("cy", -4, None, 4, 0, 1),
    ("eva", 14, 31, 10, 2, 4),
    ("bo", 7, 9, 2, 1, 2),
]


def results(panes: pl.DataFrame) -> list[tuple[Any, ...]]:
    return panes.select("user", *AGGREGATES).rows()


def test_results_are_merged_over_all_inputs_for_any_bundles() -> None:
    whole = {name: pl.concat([bundle[name] for bundle in BUNDLES]) for name in ("paid", "bought")}
    for bundles in ([whole], BUNDLES):
        observed = merged().local(
            {name: [bundle[name] for bundle in bundles] for name in whole}, clock=[0] * len(bundles)
        )
        assert sorted(results(observed.panes), key=repr) == sorted(EXPECTED, key=repr)
        assert observed.late.is_empty() and observed.metrics.balanced


def test_early_panes_add_up_when_they_are_retracted() -> None:
    query = merged(trigger=EARLY, allowed_lateness="1 hour", mode="retracting").start_local()
    panes = pl.concat([query.push(bundle, now=0).panes for bundle in BUNDLES] + [query.drain().panes])
    sums = panes.group_by("user", *AGGREGATES, maintain_order=True).agg(pl.col("diff").sum())
    assert sorted(results(sums.filter(pl.col("diff") == 1)), key=repr) == sorted(EXPECTED, key=repr)


def test_a_restart_between_bundles_changes_nothing() -> None:
    pipeline = merged(trigger=EARLY, allowed_lateness="1 hour", mode="accumulating")
    query, other = pipeline.start_local(), pipeline.start_local()
    for bundle in BUNDLES:
        expected = query.push(bundle, now=0)
        assert other.push(bundle, now=0).panes.equals(expected.panes)
        other = pipeline.start_local(saved=other.save())


@pytest.mark.parametrize("knows", [True, False])
def test_buckets_and_tasks_change_nothing(knows: bool) -> None:
    pipeline = merged(trigger=EARLY, allowed_lateness="1 hour", mode="retracting")
    query = pipeline.start_local()
    schemas = [BUNDLES[0][name].schema for name in ("paid", "bought")]
    host = partial(PagesHost, buckets=3, tasks=2, knows=knows)(pipeline, schemas)
    for bundle in BUNDLES:
        expected = query.push(bundle, now=0).panes
        came = host.bundle([bundle["paid"], bundle["bought"]], now=0, watermark=None, polled=True).panes
        assert sorted(results(came), key=repr) == sorted(results(expected), key=repr)


def test_without_merge_rows_are_added_in_the_order_of_their_times() -> None:
    streams = {"paid": PAID, "bought": BOUGHT}
    pipeline = ev.cogroup(streams, window=ev.tumbling("1 minute"), agg={"story": Story()})
    observed = pipeline.local(
        {"paid": [paid((3, "eva", 1))], "bought": [bought((5, "eva", 1), (1, "eva", 1))]}, clock=[0]
    )
    assert observed.panes["story"].to_list() == ["b1 p3 b5 "]


def test_a_column_that_an_input_does_not_have_is_rejected() -> None:
    streams = {"paid": PAID, "bought": BOUGHT}
    pipeline = ev.cogroup(streams, window=ev.tumbling("1 minute"), agg={"x": ev.sum("paid.amuont")})
    with pytest.raises(ev.PlanError, match=r"Did you mean 'paid\.amount'"):
        pipeline.start_local({"paid": BUNDLES[0]["paid"].schema, "bought": BUNDLES[0]["bought"].schema})


def test_a_merge_aggregate_needs_several_inputs() -> None:
    with pytest.raises(ev.PlanError, match=r"Use it in ev\.cogroup"):
        PAID.window(ev.tumbling("1 minute")).agg(x=Balance()).start_local(BUNDLES[0]["paid"].schema)


def test_a_row_on_which_it_raises_is_a_dead_letter() -> None:
    observed = merged().local({"paid": [paid((1, "eva", 30), (2, "eva", None))], "bought": [bought()]}, clock=[0])  # type: ignore[arg-type]
    assert observed.dead["ev_reason"].to_list() == ["failed"] and observed.metrics.balanced


def test_explain_shows_the_aggregates() -> None:
    observed = merged().explain()
    assert "merged: aggregates over the rows of all inputs" in observed
    assert "paid_total = sum(paid.amount) (merges" in observed and "balance = Balance()" in observed

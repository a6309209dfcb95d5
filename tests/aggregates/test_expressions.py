"""Aggregates of expressions, and with conditions: what is accepted, and what is rejected when the plan is built."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.aggregates import try_out
from eventide.plan.fingerprint import fingerprint

ROWS = {"price": [5, None, 7, 2], "paid": [True, True, None, False], "shop": ["kiel", "oslo", "kiel", None]}
MINUTES = ev.stream("ts", watermark="30 seconds").window(ev.tumbling("1 minute"))


def test_a_plain_column_of_polars_is_its_name() -> None:
    assert ev.sum(pl.col("price")) == ev.sum("price")
    assert ev.sum(pl.col("price").alias("p")) == ev.sum("price")


def test_null_is_not_true() -> None:
    observed = try_out(ROWS, paid=ev.count(where="paid"), unpaid=ev.count(where=~pl.col("paid")), all=ev.count())
    assert observed == {"paid": 2, "unpaid": 1, "all": 4}


def test_a_condition_that_no_row_fulfils_leaves_what_no_rows_leave() -> None:
    none = pl.col("price") > 100
    observed = try_out(
        ROWS, n=ev.count(where=none), s=ev.sum("price", where=none), c=ev.collect_list("shop", where=none)
    )
    assert observed == {"n": 0, "s": None, "c": []}


def test_equal_expressions_share_their_state() -> None:
    plan = MINUTES.agg(a=ev.sum(pl.col("x") * 2), b=ev.mean(pl.col("x") * 2)).plan
    assert plan == MINUTES.agg(a=ev.sum(pl.col("x") * 2), b=ev.mean(pl.col("x") * 2)).plan
    assert plan != MINUTES.agg(a=ev.sum(pl.col("x") * 3), b=ev.mean(pl.col("x") * 2)).plan


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pl.col("x") * 0.12345678901, pl.col("x") * 0.12345678902),
        (pl.col("x").is_in(list(range(100))).cast(pl.Int8), pl.col("x").is_in(list(range(1, 101))).cast(pl.Int8)),
        (pl.col("x").replace({1: 2}), pl.col("x").replace({1: 3})),
    ],
)
def test_expressions_that_look_alike_are_distinguished(first: pl.Expr, other: pl.Expr) -> None:
    assert ev.sum(first) != ev.sum(other)
    assert ev.sum(first) == ev.sum(first)
    plans = [MINUTES.agg(total=ev.sum(each)).plan for each in (first, other)]
    assert fingerprint(plans[0]) != fingerprint(plans[1])


def test_a_pipeline_with_expressions_is_shipped_and_saved() -> None:
    pipeline = MINUTES.agg(total=ev.sum(pl.col("price") * 2, where=pl.col("price") > 2), n=ev.count(where="paid"))
    again = pickle.loads(pickle.dumps(pipeline))
    assert again == pipeline
    rows = pl.DataFrame(ROWS).with_columns(ts=pl.Series([1, 2, 3, 4]))
    query = again.start_local(rows.schema)
    query.push(rows, now=0)
    later = again.start_local(saved=query.save())
    assert later.drain().panes.select("total", "n").rows() == [(24, 2)]


def test_only_the_columns_behind_expressions_are_read() -> None:
    from eventide.operators.factory import operator_of

    schema = {"ts": pl.Int64(), "a": pl.Int64(), "b": pl.Boolean(), "c": pl.String()}
    operator = operator_of(MINUTES.agg(total=ev.sum(pl.col("a") * 2, where="b")).plan, schema)
    assert operator.reads(0) == {"ts", "a", "b"}


def test_retractions_of_a_pipeline_before_are_counted_with_the_condition() -> None:
    rows = [pl.DataFrame({"ts": [1, 2], "v": [1, 5]}), pl.DataFrame({"ts": [3], "v": [10]})]
    early = ev.stream("ts", key="v").window(ev.tumbling("1 minute")).emit(early=ev.on_update()).agg(n=ev.count())
    over = ev.stream("window_time").window(ev.inherit()).agg(few=ev.sum("n", where=pl.col("v") < 10), all=ev.sum("n"))
    panes = early.then(over).local([*rows, rows[0]]).panes.filter(pl.col("diff") > 0)
    assert panes.select("few", "all").rows()[-1] == (4, 5)


def test_conditions_hold_for_the_rows_of_an_input_in_a_cogroup() -> None:
    orders, visits = (ev.stream("t", key="user") for _ in range(2))
    agg = {"dear": ev.count("orders.price", where=pl.col("orders.price") > 5)}
    both = ev.cogroup({"orders": orders, "visits": visits}, window=ev.tumbling("1 minute"), agg=agg)
    rows = {
        "orders": pl.DataFrame({"t": [1, 2], "user": ["eva", "eva"], "price": [4, 9]}),
        "visits": pl.DataFrame({"t": [1], "user": ["eva"]}),
    }
    assert both.local(rows).panes["dear"].to_list() == [1]


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "an expression over all rows": (lambda: ev.sum(pl.col("x") / pl.col("x").sum()), "reads several rows at once"),
    "a window function": (lambda: ev.sum(pl.col("x").diff()), "reads several rows at once"),
    "a list that becomes rows": (lambda: ev.sum(pl.col("x").explode()), "reads several rows at once"),
    "several columns": (lambda: ev.sum(pl.col("x", "y")), "selects several columns"),
    "all columns": (lambda: ev.sum(pl.all()), "selects several columns"),
    "a condition over all rows": (
        lambda: ev.count(where=pl.col("x") == pl.col("x").max()),
        r"count\(where=…\).*several",
    ),
    "a number as a condition": (lambda: ev.count(where=5), "is not a condition"),  # type: ignore[arg-type]
    "a flag as a condition": (lambda: ev.first("x", where=True), "is not a condition"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_rejected_when_the_aggregate_is_made(mistake: str) -> None:
    make, answer = MISTAKES[mistake]
    with pytest.raises(ev.PlanError, match=answer):
        make()


@pytest.mark.parametrize(
    ("aggregate", "answer"),
    [
        (ev.sum(pl.col("pirce") * 2), "reads 'pirce', which rows do not have. Did you mean 'price'"),
        (ev.count(where="piad"), "Did you mean 'paid'"),
        (ev.count(where="price"), "where= gives Int64"),
        (ev.first("shop", where="price"), "where= gives Int64"),
        (ev.sum(pl.col("shop").dt.year()), "cannot be computed for these columns"),
        (ev.sum("shop", where="paid"), "needs numbers"),
    ],
)
def test_a_mistake_about_columns_is_rejected_before_any_row(aggregate: ev.Aggregate, answer: str) -> None:
    with pytest.raises(ev.PlanError, match=answer):
        try_out(ROWS, x=aggregate)

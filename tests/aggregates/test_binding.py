"""Binding: what is shared, what is rejected, what ``explain()`` can say."""

from __future__ import annotations

import builtins
import datetime
import pickle
from typing import Any

import polars as pl
import pytest

import eventide.aggregates as ev
from eventide.errors import PlanError
from tests.aggregates.cases import CASES, SCHEMA


def bind(diff: str | None = None, **aggregates: Any) -> ev.Bound:
    return ev.bind(aggregates, SCHEMA, time="at", diff=diff)


def test_sum_mean_and_count_share_their_accumulators() -> None:
    assert bind(a=ev.mean("q"), b=ev.sum("q"), c=ev.count("q")).columns == (
        *("sum(q).place", "sum(q).0", "sum(q).1", "sum(q).2"),
        "count(q)",
    )


def test_quantiles_of_a_column_share_its_values() -> None:
    bound = bind(a=ev.median("n"), b=ev.quantile("n", 0.9), c=ev.collect_sorted("n"))
    assert bound.columns == ("sorted(n)",)


def test_approximate_quantiles_of_a_column_share_a_sketch() -> None:
    assert len(bind(a=ev.approx_quantile("n", 0.5), b=ev.approx_quantile("n", 0.9)).columns) == 1


def test_where_rows_can_be_retracted_all_that_keep_values_share_them() -> None:
    bound = bind("diff", a=ev.min("n"), b=ev.max("n"), c=ev.top_n("n", 3), d=ev.median("n"), e=ev.mode("n"))
    assert bound.columns == ("values(n)",)


def test_a_composite_shares_with_its_neighbours() -> None:
    assert bind(a=ev.composite(low=ev.min("n"), n=ev.count()), b=ev.min("n")).columns == ("min(n)", "count(*)")


def test_equal_names_that_mean_different_things_are_rejected() -> None:
    class Mine(ev.Aggregate):
        def bind(self, source: ev.Source) -> ev.Parts:
            lowest = pl.col("n").max()
            return ev.Parts([ev.Accumulator("min(n)", pl.Int64(), lowest, lowest)], pl.col("min(n)"))

    with pytest.raises(PlanError, match=r"min\(n\) and Mine\(\) both call an accumulator 'min\(n\)'"):
        bind(a=ev.min("n"), b=Mine())


def test_ones_own_expressions_must_read_retractions() -> None:
    class Total(ev.Aggregate):
        def __init__(self, reads_diff: bool) -> None:
            self.reads_diff = reads_diff

        def bind(self, source: ev.Source) -> ev.Parts:
            weight = pl.col(source.diff) if source.diff and self.reads_diff else 1
            start, merge = (pl.col("n") * weight).sum(), pl.col("Total").sum()
            return ev.Parts([ev.Accumulator("Total", pl.Int64(), start, merge, empty=0)], pl.col("Total"))

    with pytest.raises(PlanError, match="the accumulator 'Total' does not read them"):
        bind("diff", a=Total(False))
    rows = {"n": [5, 2, 5], "diff": [1, 1, -1]}
    assert ev.try_out(rows, diff="diff", a=Total(True)) == {"a": 2}


def test_a_key_column_with_the_name_of_an_accumulator_is_rejected() -> None:
    rows = pl.DataFrame({"sum(n)": [1], "n": [1], "at": [0]})
    bound = ev.bind({"total": ev.sum("n")}, rows.schema, time="at")
    with pytest.raises(PlanError, match=r"key column 'sum\(n\)'"):
        bound.start(rows, ["sum(n)"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("price", r"x='price' is not an aggregate\. .*x=ev\.sum\('price'\)"),
        (builtins.sum, r"Python's own sum\. Write x=ev\.sum\(\"price\"\)"),
        (ev.count, r"Call it: x=ev\.count\(\)"),
        (None, "x=None is not an aggregate"),
    ],
)
def test_what_is_not_an_aggregate_is_rejected_with_an_example(value: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        bind(x=value)
    with pytest.raises(PlanError, match=message):
        ev.composite(x=value)


def test_nothing_to_compute_is_rejected() -> None:
    with pytest.raises(PlanError, match="There is no aggregate"):
        bind()
    with pytest.raises(PlanError, match="There is no aggregate"):
        ev.composite()


COLUMN = "wld"
ON_A_COLUMN = [
    ev.count(COLUMN), ev.sum(COLUMN), ev.mean(COLUMN), ev.min(COLUMN), ev.max(COLUMN), ev.var(COLUMN), ev.std(COLUMN),
    ev.first(COLUMN), ev.last(COLUMN), ev.min_by("s", COLUMN), ev.max_by(COLUMN, "s"), ev.top_n(COLUMN, 1),
    ev.top_n_by_key(COLUMN, "s", 1), ev.collect_list(COLUMN), ev.collect_set(COLUMN), ev.collect_sorted(COLUMN),
    ev.median(COLUMN), ev.quantile(COLUMN, 0.5), ev.mode(COLUMN), ev.approx_distinct(COLUMN),
    ev.approx_quantile(COLUMN, 0.5),
    ev.reduce(max, COLUMN), ev.fold(0, max, column=COLUMN), ev.composite(x=ev.sum(COLUMN)),
]  # fmt: skip


@pytest.mark.parametrize("aggregate", ON_A_COLUMN, ids=str)
def test_a_misspelt_column_is_rejected_with_the_right_one(aggregate: ev.Aggregate) -> None:
    with pytest.raises(PlanError, match=r"there is no column 'wld'\. Did you mean 'wild'\?"):
        bind(x=aggregate)


def test_a_column_is_given_by_name() -> None:
    with pytest.raises(PlanError, match=r"sum takes the name of a column, not 5\. Write for example ev\.sum"):
        bind(x=ev.sum(5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ev.quantile("n", 1.1), r"q=1\.1 is not between 0 and 1\. For percent, divide by 100: 0\.011"),
        (lambda: ev.quantile("n", 95), r"divide by 100: 0\.95"),
        (lambda: ev.quantile("n", float("nan")), "q=nan is not between"),
        (lambda: ev.approx_quantile("n", -0.1), r"approx_quantile: q=-0\.1"),
        (lambda: ev.approx_quantile("n", 0.1, accuracy=2), "accuracy=2 is not between"),
        (lambda: ev.approx_distinct("n", precision=3), "precision=3 is not a whole number from 4 to 21"),
        (lambda: ev.top_n("n", 0), "top_n: n=0 is not a whole number of at least 1"),
        (lambda: ev.top_n_by_key("n", "s", True), "top_n_by_key: n=True is not"),
    ],
)
def test_options_out_of_range_are_rejected_at_once(make: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


@pytest.mark.parametrize(
    "aggregate", [ev.min, ev.max, ev.collect_sorted, ev.collect_set, ev.mode, lambda c: ev.top_n(c, 1)]
)
def test_what_has_no_order_is_rejected(aggregate: Any) -> None:
    with pytest.raises(PlanError, match="needs sortable values"):
        ev.bind({"x": aggregate("l")}, {"l": pl.List(pl.Int64)}, time="at")


DAY = datetime.date(2024, 1, 31)
NOON = datetime.datetime(2024, 1, 31, 12)
HOUR = datetime.timedelta(hours=1)
ORDERED = {
    "text": (["b", "a", "b"], pl.String()),
    "flag": ([True, False, True], pl.Boolean()),
    "day": ([DAY, DAY.replace(day=1), DAY], pl.Date()),
    "bytes": ([b"b", b"", b"b"], pl.Binary()),
    "moment": ([NOON, NOON - HOUR, NOON], pl.Datetime("us")),
    "span": ([2 * HOUR, HOUR, 2 * HOUR], pl.Duration("us")),
}


@pytest.mark.parametrize("diff", [None, "diff"])
@pytest.mark.parametrize("name", ORDERED)
def test_every_ordered_type_works_in_every_ordered_aggregate(name: str, diff: str | None) -> None:
    values, dtype = ORDERED[name]
    high, low, _ = values
    rows = pl.DataFrame({"key": 1, "v": pl.Series([*values, None], dtype=dtype), "at": range(4), "diff": 1})
    expected: dict[str, tuple[ev.Aggregate, Any]] = {
        "min": (ev.min("v"), low),
        "max": (ev.max("v"), high),
        "first": (ev.first("v"), high),
        "last": (ev.last("v"), None),
        "last_known": (ev.last("v", ignore_nulls=True), high),
        "min_by": (ev.min_by("at", "v"), 1),
        "max_by": (ev.max_by("at", "v"), 0),
        "at_most": (ev.max_by("v", "at"), None),
        "top": (ev.top_n("v", 1), [high]),
        "top_by_key": (ev.top_n_by_key("v", "v", 1), [{"key": high, "value": high}]),
        "collect": (ev.collect_list("v"), values),
        "set": (ev.collect_set("v"), [low, high]),
        "sort": (ev.collect_sorted("v"), [low, high, high]),
        "mode": (ev.mode("v"), high),
    }
    if diff is None:
        expected["distinct"] = (ev.approx_distinct("v"), 2)
    bound = ev.bind({n: aggregate for n, (aggregate, _) in expected.items()}, rows.schema, time="at", diff=diff)
    cells = [bound.start(part, ["key"]).cells for part in (rows[:1], rows[1:2], rows[2:])]
    for table in (bound.start(rows, ["key"]).cells, bound.merge(pl.concat(cells), ["key"])):
        assert bound.results(table).drop("key").to_dicts() == [{n: value for n, (_, value) in expected.items()}]


@pytest.mark.parametrize("diff", [None, "diff"])
def test_nested_values_can_be_collected_and_picked(diff: str | None) -> None:
    rows = pl.DataFrame({"v": [{"a": [1, None]}, {"a": [2]}, {"a": [2]}], "diff": [1, 1, 1]})
    table = ev.try_out(
        rows, diff=diff, all=ev.collect_list("v"), first=ev.first("v"), last=ev.last("v"), n=ev.count("v")
    )
    assert table == {"all": rows["v"].to_list(), "first": {"a": [1, None]}, "last": {"a": [2]}, "n": 3}


def test_describe_says_what_the_state_costs() -> None:
    described = {d.name: d for d in bind(**{case.name: case.aggregate for case in CASES}).describe()}
    assert all(d.needs_rows == described[d.name.removesuffix("_where")].needs_rows for d in described.values())
    described = {name: d for name, d in described.items() if not name.endswith("_where")}
    keeps_rows = {name for name, d in described.items() if d.needs_rows}
    assert keeps_rows == {
        "collect", "collect_set", "count_distinct", "sort", "sort_down", "median", "quantile", "mode", "top_n_by_key",
        "fold_in_order", "own_without_merge", "composite",
    }  # fmt: skip
    assert {name for name, d in described.items() if d.python} == {
        "reduce", "fold", "fold_of_rows", "fold_in_order", "own_rowwise", "own_without_merge",
    }  # fmt: skip
    assert {name for name, d in described.items() if not d.mergeable} == {"fold_in_order", "own_without_merge"}
    assert described["sum"].invertible
    assert not described["min"].invertible
    assert described["last_known"].aggregate == "last(n, ignore_nulls=True)"


def test_describe_says_that_min_keeps_values_where_rows_can_be_retracted() -> None:
    assert not bind(low=ev.min("n")).describe()[0].needs_rows
    assert bind("diff", low=ev.min("n")).describe()[0].needs_rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_flags_of_an_aggregate_agree_with_what_binding_finds(case: Any) -> None:
    bound = bind(x=case.aggregate)
    assert bound.python == case.aggregate.python
    assert bound.describe()[0].needs_rows == case.aggregate.needs_rows


@pytest.mark.parametrize("aggregate", ON_A_COLUMN, ids=str)
def test_aggregates_travel_to_workers(aggregate: ev.Aggregate) -> None:
    assert pickle.loads(pickle.dumps(aggregate)) == aggregate


def test_aggregates_are_values() -> None:
    assert ev.sum("n") == ev.sum("n")
    assert hash(ev.quantile("n", 0.5)) == hash(ev.quantile("n", 0.5))
    with pytest.raises(AttributeError):
        ev.sum("n").column = "q"  # type: ignore[misc]

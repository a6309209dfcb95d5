"""Retracted rows: the result is the same as without them."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide.aggregates as ev
from eventide.errors import PlanError
from tests.aggregates.cases import CASES, SCHEMA, Case, Rows
from tests.aggregates.test_contract import INF, NAN, bound, cuts, frame, parts_of, rows_of_keys
from tests.effort import examples

RETRACTING = [case for case in CASES if case.retracts]


@settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)
@given(rows=rows_of_keys, doomed=rows_of_keys, at=cuts, seed=st.integers(0, 99))
def test_what_remains_is_as_if_the_others_never_arrived(rows: Rows, doomed: Rows, at: list[int], seed: int) -> None:
    history = [row | {"diff": 1} for row in rows + doomed] + [row | {"diff": -1} for row in doomed]
    random.Random(seed).shuffle(history)  # a -1 may come before its +1
    aggregate = bound(*RETRACTING, diff="diff")
    cells = [aggregate.start(frame(part, diff=pl.Int8()), ["key"]).cells for part in parts_of(history, at)]
    results = aggregate.results(aggregate.merge(pl.concat(cells), ["key"]))
    for result in results.to_dicts():
        mine = [row for row in rows if row["key"] == result["key"]]
        for case in RETRACTING:
            expected = case.model(mine)
            assert case.agrees(result[case.name], expected), (case.name, result[case.name], expected)


@pytest.mark.parametrize("case", RETRACTING, ids=lambda case: case.name)
def test_types_are_the_same_with_and_without_retractions(case: Case) -> None:
    aggregate = bound(case, diff="diff")
    assert aggregate.result_schema == {case.name: case.dtype}
    cells = aggregate.start(frame([], diff=pl.Int32()), ["key"]).cells
    assert dict(cells.schema) == {"key": pl.String} | aggregate.schema
    assert case.agrees(aggregate.results(aggregate.empty(1))[case.name].to_list()[0], case.model([]))


@pytest.mark.parametrize("diff", [pl.Int8(), pl.Int32(), pl.Int64()])
def test_diff_may_be_of_any_width(diff: pl.DataType) -> None:
    rows = pl.DataFrame({"n": [100, 100, 7], "d": pl.Series([1, 1, -1], dtype=diff)})
    assert ev.try_out(rows, diff="d", n=ev.count(), total=ev.sum("n")) == {"n": 1, "total": 193}


def test_a_nan_that_is_retracted_leaves_the_sum() -> None:
    rows = {"f": [1.0, NAN, INF, NAN, INF], "d": [1, 1, 1, -1, -1]}
    assert ev.try_out(rows, diff="d", s=ev.sum("f"), m=ev.mean("f")) == {"s": 1.0, "m": 1.0}


def test_decimals_are_retracted_exactly() -> None:
    cents = pl.Series(["0.10", "0.20", "0.20"]).str.to_decimal(scale=2)
    rows = pl.DataFrame({"p": cents, "d": [1, 1, -1]})
    assert str(ev.try_out(rows, diff="d", s=ev.sum("p"))["s"]) == "0.10"


@pytest.mark.parametrize(
    ("aggregate", "instead"),
    [
        (ev.approx_distinct("s"), "ev.count_distinct('s')"),
        (ev.approx_quantile("n", 0.5), "ev.quantile('n', 0.5)"),
        (ev.reduce(max, "n"), "remove method"),
        (ev.fold(0, max, merge=max, column="n"), "leave out merge"),
    ],
)
def test_what_cannot_take_rows_back_says_what_to_use_instead(aggregate: ev.Aggregate, instead: str) -> None:
    with pytest.raises(PlanError, match="carries retractions") as rejected:
        ev.bind({"x": aggregate}, SCHEMA, time="at", diff="diff")
    assert instead in str(rejected.value)


def test_a_fold_without_merge_takes_rows_back_because_it_keeps_them() -> None:
    rows = {"s": ["a", "b", "a"], "at": [1, 2, 1], "d": [1, 1, -1]}
    text = ev.fold("", lambda seen, row: seen + row["s"])
    assert ev.try_out(rows, time="at", diff="d", text=text) == {"text": "b"}


def test_a_row_that_arrived_and_was_retracted_leaves_no_trace_in_the_state() -> None:
    row = {"key": "a", "at": 1, "n": 3, "q": 0.5, "wild": NAN, "s": "x"}
    rows = frame([row | {"diff": 1}, row | {"diff": -1}], diff=pl.Int8())
    kept = bound(*(case for case in RETRACTING if not case.aggregate.python), diff="diff")
    places = [name for name in kept.columns if name.endswith(".place")]  # of digits that are zero again
    assert kept.start(rows, ["key"]).cells.drop("key", *places).equals(kept.empty(1).drop(places))


def test_a_retraction_that_arrives_early_shows_nothing_until_its_row_arrives() -> None:
    row = {"key": "a", "at": 1, "n": 3, "q": 0.5, "wild": 1.0, "s": "x"}
    other = row | {"at": 2, "n": 5, "wild": 2.0, "s": "y"}
    aggregate = bound(*RETRACTING, diff="diff")
    early = aggregate.start(frame([row | {"diff": -1}, other | {"diff": 1}], diff=pl.Int8()), ["key"]).cells
    shown = aggregate.results(early).row(0, named=True)
    assert shown["min"] == shown["max"] == shown["first"] == shown["last"] == 5
    assert shown["collect"] == shown["collect_set"] == ["y"]
    assert shown["mode"] == shown["median"] == 5
    assert (shown["min_by"], shown["top_n"], shown["top_n_by_key"]) == ("y", [2.0], [{"key": "y", "value": 5}])
    then = aggregate.start(frame([row | {"diff": 1}], diff=pl.Int8()), ["key"]).cells
    merged = aggregate.results(aggregate.merge(pl.concat([early, then]), ["key"])).row(0, named=True)
    for case in RETRACTING:
        assert case.agrees(merged[case.name], case.model([other])), case.name

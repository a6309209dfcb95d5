"""Order among equals, with more rows than a sort can keep in order by accident."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide
import eventide.aggregates as ev

MANY = 5_000


def test_values_of_one_instant_are_collected_in_ascending_order() -> None:
    rows = {"v": list(range(MANY))[::-1], "at": [i % 2 for i in range(MANY)]}
    observed = ev.try_out(rows, time="at", all=ev.collect_list("v"), first=ev.first("v"), last=ev.last("v"))
    assert observed == {"all": [*range(1, MANY, 2), *range(0, MANY, 2)], "first": 1, "last": MANY - 2}


def test_the_order_of_cells_makes_no_difference() -> None:
    rows = pl.DataFrame({"v": range(MANY), "at": 7})
    aggregates = {
        "all": ev.collect_list("v"),
        "first": ev.first("v"),
        "last": ev.last("v"),
        "low": ev.min_by("v", "at"),
    }
    bound = ev.bind(aggregates, rows.schema, time="at")
    parts = [bound.start(part, []).cells for part in rows.iter_slices(MANY // 10)]
    for cells in (parts, parts[::-1]):
        assert bound.results(bound.merge(pl.concat(cells), [])).rows() == [(list(range(MANY)), 0, MANY - 1, 0)]


def test_the_latest_value_of_a_key_is_the_greatest_among_equals() -> None:
    rows = {"k": ["x", "y"] * (MANY // 2), "v": list(range(MANY))[::-1], "at": [0] * MANY}
    top = ev.try_out(rows, time="at", top=ev.top_n_by_key("v", "k", 2))["top"]
    assert top == [{"key": "x", "value": MANY - 1}, {"key": "y", "value": MANY - 2}]


def test_the_least_of_many_equally_frequent_values_is_the_mode() -> None:
    assert ev.try_out({"v": [*range(MANY), *range(MANY)][::-1]}, usual=ev.mode("v")) == {"usual": 0}


def test_sorted_times_give_the_same_ends_as_unsorted_ones() -> None:
    rows = pl.DataFrame({"k": [0, 1, 0, 1], "v": [1, 2, 3, 4], "at": [1, 2, 3, 3]})
    bound = ev.bind({"first": ev.first("v"), "last": ev.last("v")}, rows.schema, time="at")
    for descending in (False, True):
        flagged = rows.sort("at", descending=descending, maintain_order=True)
        assert flagged["at"].flags["SORTED_DESC" if descending else "SORTED_ASC"]
        assert sorted(bound.results(bound.start(flagged, ["k"]).cells).rows()) == [(0, 1, 3), (1, 2, 4)]


@pytest.mark.parametrize("dtype", [pl.String(), pl.Categorical(), pl.Enum(["a", "b"])], ids=str)
@pytest.mark.parametrize("pick", [ev.max_by, ev.min_by])
def test_among_equals_the_least_value_of_any_type_is_picked(pick: Any, dtype: pl.DataType) -> None:
    rows = pl.DataFrame({"t": [0, 0, 0], "name": ["z", "x", "y"], "by": pl.Series(["b", "b", "b"], dtype=dtype)})
    pipeline = eventide.stream(time="t").window(eventide.global_window()).agg(best=pick("name", "by"))
    for bundles in ([rows], [rows[:1], rows[1:]], [rows[:2], rows[2:]]):
        assert pipeline.local(bundles, clock=range(len(bundles))).panes["best"].to_list() == ["x"]


@pytest.mark.parametrize("dtype", [pl.Int8(), pl.UInt32(), pl.Float32(), pl.Boolean(), pl.Date(), pl.Time()], ids=str)
def test_the_last_value_of_a_narrow_type_may_be_null(dtype: pl.DataType) -> None:
    rows = pl.DataFrame({"v": pl.Series([1, None]).cast(pl.Int32).cast(dtype), "at": [0, 1]})
    observed = ev.try_out(rows, time="at", last=ev.last("v"), known=ev.last("v", ignore_nulls=True))
    assert observed == {"last": None, "known": rows["v"][0]}

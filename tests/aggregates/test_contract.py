"""The contract that every aggregate keeps: its model, any split of the rows, any way of merging, no rows at all."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide.aggregates as ev
from tests.aggregates.cases import CASES, SCHEMA, Case, Rows
from tests.effort import examples

NAN, INF = float("nan"), float("inf")

rows_of_keys = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a", "b"]),
            "at": st.integers(-3, 3),
            # Few values and fewer nulls: ties and repeats are where aggregates go wrong.
            "n": st.sampled_from([None, -4, -1, 0, 2, 2, 3]),
            "q": st.sampled_from([None, -1.75, -0.5, 0.0, 0.25, 0.25, 2.0]),
            "wild": st.sampled_from([None, -INF, -1.5, 0.25, 0.25, 3.0, INF, NAN]),
            "s": st.sampled_from([None, "", "x", "x", "y"]),
        }
    ),
    max_size=14,
)
cuts = st.lists(st.integers(0, 14), max_size=3)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
few = settings(max_examples=examples(12), deadline=None, derandomize=True, database=None)


def frame(rows: Rows, **extra: pl.DataType) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA | extra)


def bound(*cases: Case, diff: str | None = None) -> ev.Bound:
    return ev.bind({case.name: case.aggregate for case in cases}, SCHEMA, time="at", diff=diff)


def parts_of(rows: Rows, at: list[int]) -> list[Rows]:
    edges = [0, *sorted(at), len(rows)]
    return [rows[start:end] for start, end in pairwise(edges)]


def by_key(results: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in results.to_dicts()}


def check(cases: list[Case], results: pl.DataFrame, rows: Rows) -> None:
    observed = by_key(results)
    assert observed.keys() == {row["key"] for row in rows}
    for key, result in observed.items():
        mine = [row for row in rows if row["key"] == key]
        for case in cases:
            expected = case.model(mine)
            assert case.agrees(result[case.name], expected), (case.name, key, result[case.name], expected)


@every_case
@few
@given(rows=rows_of_keys, at=cuts)
def test_any_split_of_the_rows_gives_what_the_model_gives(case: Case, rows: Rows, at: list[int]) -> None:
    aggregate = bound(case)
    check([case], aggregate.results(aggregate.start(frame(rows), ["key"]).cells), rows)
    cells = [aggregate.start(frame(part), ["key"]).cells for part in parts_of(rows, at)]
    check([case], aggregate.results(aggregate.merge(pl.concat(cells), ["key"])), rows)


@settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)
@given(rows=rows_of_keys, at=cuts, in_time=st.booleans())
def test_all_together_share_their_accumulators_and_still_agree(rows: Rows, at: list[int], in_time: bool) -> None:
    # Sorted frames carry a flag that Polars uses for shortcuts; it once gave a wrong ``last``.
    rows = sorted(rows, key=lambda row: row["at"]) if in_time else rows
    aggregate = bound(*CASES)
    cells = []
    for part in parts_of(rows, at):
        data = frame(part).sort("at", maintain_order=True) if in_time else frame(part)
        cells.append(aggregate.start(data, ["key"]).cells)
    older, newer = pl.concat(cells[:1]), pl.concat([pl.DataFrame(schema=cells[0].schema), *cells[1:]])
    check(CASES, aggregate.results(aggregate.merge(pl.concat(cells), ["key"])), rows)
    twice = pl.concat([aggregate.merge(older, ["key"]), aggregate.merge(newer, ["key"])])
    check(CASES, aggregate.results(aggregate.merge(twice, ["key"])), rows)


@few
@given(rows=rows_of_keys, at=cuts)
@pytest.mark.parametrize("step", [1, 60])
def test_whole_numbers_as_keys_take_a_shorter_way_to_the_same_results(rows: Rows, at: list[int], step: int) -> None:
    names = {"a": -3 * step, "b": 2 * step}
    sums = [case for case in CASES if case.name.startswith(("count", "sum", "mean"))]
    aggregate = bound(*sums)
    cells = []
    for part in parts_of(rows, at):
        data = frame(part).with_columns(place=pl.col("key").replace_strict(names, return_dtype=pl.Int64))
        cells.append(aggregate.start(data, ["place"], grids={"place": (step, 0)}).cells)
    merged = aggregate.results(aggregate.merge(pl.concat(cells), ["place"], grids={"place": (step, 0)}))
    back = {number: name for name, number in names.items()}
    check(sums, merged.with_columns(key=pl.col("place").replace_strict(back, return_dtype=pl.String)), rows)


SOME = [
    {"key": "a", "at": 2, "n": 3, "q": 0.25, "wild": NAN, "s": "x"},
    {"key": "b", "at": 1, "n": None, "q": None, "wild": None, "s": None},
    {"key": "a", "at": 1, "n": -4, "q": 1.5, "wild": -INF, "s": "y"},
    {"key": "a", "at": 1, "n": 3, "q": None, "wild": 2.0, "s": "x"},
]


@every_case
def test_cells_and_results_have_the_promised_types(case: Case) -> None:
    aggregate = bound(case)
    assert aggregate.result_schema == {case.name: case.dtype}
    for rows in ([], SOME, SOME[1:2]):
        cells = aggregate.start(frame(rows), ["key"]).cells
        assert dict(cells.schema) == {"key": pl.String} | aggregate.schema
        assert dict(aggregate.merge(cells, ["key"]).schema) == dict(cells.schema)
        assert dict(aggregate.results(cells).schema) == {"key": pl.String, case.name: case.dtype}
    assert dict(aggregate.empty(2).schema) == aggregate.schema
    assert tuple(aggregate.schema) == aggregate.columns


@every_case
def test_no_rows_give_what_the_model_gives_for_none(case: Case) -> None:
    aggregate = bound(case)
    empty = aggregate.empty(3)
    assert empty.height == 3
    for result in aggregate.results(empty)[case.name].to_list():
        assert case.agrees(result, case.model([]))


@every_case
@pytest.mark.parametrize("empty_first", [True, False])
def test_merging_with_an_empty_cell_changes_nothing(case: Case, empty_first: bool) -> None:
    aggregate = bound(case)
    cells = aggregate.start(frame(SOME), ["key"]).cells
    nothing = pl.concat([pl.DataFrame({"key": ["a", "b"]}), aggregate.empty(2)], how="horizontal")
    both = [nothing, cells] if empty_first else [cells, nothing]
    check([case], aggregate.results(aggregate.merge(pl.concat(both), ["key"])), SOME)


@every_case
def test_the_same_rows_give_the_same_bytes(case: Case) -> None:
    def once() -> list[Any]:
        aggregate = bound(case)
        rows = frame([row | {"at": row["at"] + i, "n": i} for i in range(50) for row in SOME])
        cells = [aggregate.start(part, ["key"]).cells for part in (rows[:70], rows[70:])]
        return aggregate.merge(pl.concat(cells), ["key"]).sort("key").rows()

    assert repr(once()) == repr(once())


@every_case
def test_without_keys_all_rows_are_one_group(case: Case) -> None:
    aggregate = bound(case)
    cells = aggregate.start(frame(SOME), []).cells
    merged = aggregate.merge(pl.concat([cells, aggregate.empty(1)]), [])
    for each in (cells, merged):
        assert each.columns == list(aggregate.columns)
        assert case.agrees(aggregate.results(each)[case.name].to_list()[0], case.model(SOME))
    assert aggregate.start(frame([]), []).cells.height == 0


@every_case
def test_keys_may_be_null_or_nan_or_nested(case: Case) -> None:
    aggregate = bound(case)
    window = pl.struct(start="at", end=pl.lit(None, dtype=pl.Int64))
    rows = frame(SOME).with_columns(window=window, part=pl.when(pl.col("n") > 0).then(NAN))
    cells = aggregate.start(rows, ["window", "part"]).cells
    assert cells.height == 3
    merged = aggregate.merge(pl.concat([cells, cells.clear()]), ["window", "part"])
    assert merged.height == 3
    assert dict(merged.schema)["window"] == rows.schema["window"]


def test_results_keep_other_columns_and_the_order_of_rows() -> None:
    aggregate = bound(*CASES)
    cells = aggregate.start(frame(SOME), ["key"]).cells.sort("key", descending=True)
    results = aggregate.results(cells.with_columns(extra=pl.Series([7, 8])))
    assert results.columns == ["key", "extra", *(case.name for case in CASES)]
    assert results["key"].to_list() == ["b", "a"]
    assert results["extra"].to_list() == [7, 8]

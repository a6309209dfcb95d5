"""Cells as a data structure, compared with a dict from (key, slice) to a sum."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from eventide.state.cell_table import CellTable

KEY, SLICE, VALUE = "key", "__slice", "value"
Batch = list[tuple[int, int, int]]
batches = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5), st.integers(1, 9)), min_size=1, max_size=8)


def frame(rows: Batch) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={KEY: pl.Int64, SLICE: pl.Int64, VALUE: pl.Int64}, orient="row")


def merge(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by(KEY, SLICE).agg(pl.col(VALUE).sum())


def content(cells: CellTable) -> Counter[tuple[int, int]]:
    observed: Counter[tuple[int, int]] = Counter()
    for run in cells.runs:
        for key, slice_, value in run.cells.select(KEY, SLICE, VALUE).iter_rows():
            observed[key, slice_] += value
    return observed


def model(rows: Batch) -> Counter[tuple[int, int]]:
    observed: Counter[tuple[int, int]] = Counter()
    for key, slice_, value in rows:
        observed[key, slice_] += value
    return observed


@given(st.lists(batches, max_size=40))
def test_appending_and_merging_tiers_keeps_the_content(many: list[Batch]) -> None:
    cells = CellTable(SLICE)
    for batch in many:
        cells = cells.append(merge(frame(batch)), merge)
    assert content(cells) == model([row for batch in many for row in batch])


@given(st.lists(batches, max_size=12), st.sets(st.integers(-5, 5)))
def test_dropping_slices_drops_them_and_nothing_else(many: list[Batch], gone: set[int]) -> None:
    cells = CellTable(SLICE)
    for batch in many:
        cells = cells.append(frame(batch), merge)
    left = cells.drop(np.array(sorted(gone), np.int64))
    assert content(left) == model([row for batch in many for row in batch if row[1] not in gone])
    assert left.height == sum(run.cells.height for run in left.runs)
    assert all(run.cells.height for run in left.runs)


@given(st.lists(batches, max_size=12), st.integers(-7, 7))
def test_the_slices_below_a_bound_are_selected(many: list[Batch], below: int) -> None:
    cells = CellTable(SLICE)
    for batch in many:
        cells = cells.append(frame(batch), merge)
    stored = sorted({row[1] for batch in many for row in batch if row[1] < below})
    assert cells.slices(below).tolist() == stored


@given(st.lists(batches, min_size=1, max_size=20), st.integers(-5, 5), st.integers(0, 4))
def test_reading_slices_gives_all_their_cells_oldest_first(many: list[Batch], first: int, span: int) -> None:
    cells = CellTable(SLICE)
    for batch in many:
        cells = cells.append(frame(batch), lambda many: many)
    wanted = np.arange(first, first + span + 1, dtype=np.int64)
    got = [row for part in cells.read(wanted) for row in part.iter_rows()]
    for key in range(4):
        for slice_ in wanted.tolist():
            mine = [row[2] for row in got if row[:2] == (key, slice_)]
            assert mine == [row[2] for batch in many for row in batch if row[:2] == (key, slice_)]


@given(st.lists(batches, min_size=2, max_size=12))
def test_an_old_version_can_still_be_read(many: list[Batch]) -> None:
    versions = [CellTable(SLICE)]
    for batch in many:
        versions.append(versions[-1].append(frame(batch), merge))
    versions[-1].drop(np.arange(-5, 6, dtype=np.int64))
    for i, version in enumerate(versions):
        assert content(version) == model([row for batch in many[:i] for row in batch])


def test_nothing_appended_is_the_same_store() -> None:
    cells = CellTable(SLICE).append(frame([(1, 1, 1)]), merge)
    assert cells.append(frame([]), merge) is cells


def test_nothing_dropped_copies_no_run() -> None:
    cells = CellTable(SLICE).append(frame([(1, 1, 1)]), merge)
    assert cells.drop(np.array([5], np.int64)).runs[0] is cells.runs[0]


def test_an_empty_store_has_no_slices() -> None:
    assert CellTable(SLICE).slices(5).tolist() == [] and CellTable(SLICE).height == 0


def test_the_number_of_runs_grows_with_the_logarithm_of_the_batches() -> None:
    cells, most = CellTable(SLICE), 0
    for i in range(1000):
        cells = cells.append(frame([(i, i // 100, 1)]), merge)
        most = max(most, len(cells.runs))
    assert cells.height == 1000 and most <= 40


def test_memory_follows_what_is_open() -> None:
    cells = CellTable(SLICE)
    for i in range(300):
        cells = cells.append(frame([(key, i, 1) for key in range(3)]), merge)
        cells = cells.drop(np.arange(max(0, i - 9), dtype=np.int64))
        assert cells.height <= 3 * 10


def test_slices_at_the_ends_of_time_keep_their_order() -> None:
    low, high = -(2**62), 2**62
    cells = CellTable(SLICE).append(frame([(1, high, 1), (1, low, 2)]), merge)
    assert cells.slices(2**63 - 1).tolist() == [low, high]
    assert content(cells.drop(np.array([low], np.int64))) == Counter({(1, high): 1})

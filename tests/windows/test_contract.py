"""What every kind of window promises (``windows/kind.py``), checked against its definition."""

from __future__ import annotations

import pickle
from collections import defaultdict

import polars as pl
import pytest

from eventide.windows import WindowKind
from tests.windows.contract import CASES, Case, assigned, slices

each_kind = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_kind
def test_a_row_is_in_exactly_the_windows_that_hold_its_position(case: Case) -> None:
    assert assigned(case.kind, case.positions) == {at: case.definition(at) for at in case.positions}


@each_kind
def test_all_windows_of_a_row_contain_it(case: Case) -> None:
    for at, windows in assigned(case.kind, case.positions).items():
        assert all(start <= at < end for start, end in windows)


@each_kind
def test_rows_of_one_slice_belong_to_the_same_windows(case: Case) -> None:
    members = defaultdict(set)
    for at, slice_ in zip(case.positions, slices(case.kind, case.positions), strict=True):
        if slice_ is not None:
            members[slice_].add(frozenset(case.definition(at)))
    assert all(len(windows) == 1 for windows in members.values())


@each_kind
def test_a_position_without_a_slice_is_in_no_window(case: Case) -> None:
    for at, slice_ in zip(case.positions, slices(case.kind, case.positions), strict=True):
        assert (slice_ is None) == (case.definition(at) == set())


@each_kind
def test_a_slice_is_named_by_a_position_of_its_windows(case: Case) -> None:
    known = pl.Series(slices(case.kind, case.positions)).drop_nulls().unique()
    windows = case.kind.windows_of(known.alias("slice"))
    assert windows.filter(~pl.col("slice").is_between("start", "end", closed="left")).is_empty()


@each_kind
def test_a_slice_begins_at_or_before_its_rows(case: Case) -> None:
    for at, slice_ in zip(case.positions, slices(case.kind, case.positions), strict=True):
        # The slice of the global window has a name and no beginning.
        assert slice_ is None or slice_ <= at or case.name == "global"


@each_kind
def test_a_row_without_a_position_has_no_slice(case: Case) -> None:
    assert pl.select(case.kind.slice_of(pl.lit(None, pl.Int64))).item() is None


@each_kind
def test_slices_are_int64(case: Case) -> None:
    at = pl.Series([case.positions[0]], dtype=pl.Int64)
    assert pl.select(case.kind.slice_of(pl.lit(at))).to_series().dtype == pl.Int64


@each_kind
def test_only_kinds_that_say_so_share_slices(case: Case) -> None:
    windows = case.kind.windows_of(pl.Series("slice", slices(case.kind, case.positions)).drop_nulls().unique())
    alone = windows["slice"].is_unique().all() and windows.select("start", "end").is_unique().all()
    assert case.kind.shared or alone


@each_kind
def test_no_slices_have_no_windows(case: Case) -> None:
    windows = case.kind.windows_of(pl.Series("slice", [], dtype=pl.Int64))
    assert (windows.height, set(windows.columns)) == (0, {"slice", "start", "end"})


@each_kind
def test_windows_do_not_depend_on_the_order_of_slices(case: Case) -> None:
    known = pl.Series("slice", slices(case.kind, case.positions)).drop_nulls().unique().sort()
    first, other = case.kind.windows_of(known), case.kind.windows_of(known.reverse())
    assert set(first.select("slice", "start", "end").rows()) == set(other.select("slice", "start", "end").rows())


@each_kind
def test_slices_far_apart_have_only_their_own_windows(case: Case) -> None:
    half_a_century = 1_700_000_000_000_000 // 84_000_000_000 * 84_000_000_000  # on every grid used here
    distance = 10**12 if case.kind.axis == "rows" else half_a_century
    pairs = (slices(case.kind, [first, first + distance]) for first in case.positions)
    this, other = next(pair for pair in pairs if None not in pair)  # some positions lie between windows
    together = case.kind.windows_of(pl.Series("slice", sorted({this, other})))
    apart = sum(case.kind.windows_of(pl.Series("slice", [s])).height for s in {this, other})
    assert together.height == apart <= 16


@each_kind
def test_a_kind_is_an_immutable_value_that_travels(case: Case) -> None:
    assert isinstance(case.kind, WindowKind)
    assert pickle.loads(pickle.dumps(case.kind)) == case.kind
    assert hash(case.kind) == hash(pickle.loads(pickle.dumps(case.kind)))
    with pytest.raises(AttributeError):
        case.kind.axis = "rows"  # type: ignore[misc]


@each_kind
def test_a_kind_describes_itself_in_one_line(case: Case) -> None:
    text = case.kind.describe()
    assert text and "\n" not in text

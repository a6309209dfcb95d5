"""A user-defined kind of window that breaks the contract is rejected: its rows would be lost silently."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest

import eventide as ev
from tests.windows.contract import OpeningHours, Shifts


@dataclass(frozen=True)
class Mine:
    """Windows of ten, as wrong as a test wants them."""

    named_by_end: bool = False
    forgetful: bool = False
    wordless: bool = False
    axis = "time"
    shared = False

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        return at // 10 * 10 + (10 if self.named_by_end else 0)

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        start = slices - (10 if self.named_by_end else 0)
        frame = pl.DataFrame({"slice": slices, "start": start, "end": start + 10})
        if self.wordless:
            return frame.select("start", "end")
        return frame.filter(pl.col("start") > 0) if self.forgetful else frame

    def describe(self) -> str:
        return "mine"


def push(kind: ev.WindowKind, *, often: bool = False) -> pl.DataFrame:
    stream = ev.stream(time="t").window(kind)
    if often:
        stream = stream.trigger(ev.after_watermark(early=ev.on_update()), mode="accumulating")
    query = stream.agg(n=ev.count()).start_local()
    panes = query.push(pl.DataFrame({"t": [1, 4]}), now=0, watermark=10).panes
    query.drain()
    return panes


@pytest.mark.parametrize("often", [False, True])
def test_a_kind_that_keeps_its_promise_is_used(often: bool) -> None:
    assert push(Mine(), often=often)["n"].to_list() == [2]


@pytest.mark.parametrize("often", [False, True])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Mine(named_by_end=True), r"'mine': slice 10 is not in its window \[0, 10\)"),
        (Mine(forgetful=True), "'mine': windows_of.. returns no window for slice 0"),
        (Mine(wordless=True), "'mine': windows_of.. must return a Polars frame with the columns slice, start and end"),
    ],
)
def test_a_kind_that_breaks_its_promise_is_rejected(kind: ev.WindowKind, message: str, often: bool) -> None:
    with pytest.raises(ev.PlanError, match=message):
        push(kind, often=often)


def test_rows_between_the_windows_of_a_users_kind_are_dead_letters() -> None:
    pipeline = ev.stream(time="t").window(OpeningHours()).agg(n=ev.count())
    result = pipeline.local(pl.DataFrame({"t": [1, 2, 5, 6, 13]}), clock=[0])
    assert result.dead.select("t", "ev_reason").rows() == [(1, "no_window"), (6, "no_window")]
    assert result.panes["n"].to_list() == [2, 2, 1, 1]


def test_a_class_is_not_a_window() -> None:
    with pytest.raises(ev.PlanError, match="needs a window such as"):
        ev.stream(time="t").window(Shifts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Overlapping:
    """Windows of twenty, a new one each ten, that claim to share nothing."""

    halves: bool = False
    axis = "time"
    shared = False

    def slice_of(self, at: pl.Expr) -> pl.Expr:
        return at / 10 if self.halves else at // 10 * 10

    def windows_of(self, slices: pl.Series) -> pl.DataFrame:
        start = slices // 20 * 20
        return pl.DataFrame({"slice": slices, "start": start, "end": start + 20})

    def describe(self) -> str:
        return "overlapping"


@pytest.mark.parametrize("often", [False, True])
def test_a_kind_whose_slices_share_windows_must_say_so(often: bool) -> None:
    stream = ev.stream(time="t").window(Overlapping())
    if often:
        stream = stream.trigger(ev.after_watermark(early=ev.on_update()), mode="accumulating")
    with pytest.raises(ev.PlanError, match="have shared = False"):
        stream.agg(n=ev.count()).local(pl.DataFrame({"t": [1, 11]}), clock=[0])


def test_a_slice_is_an_integer() -> None:
    with pytest.raises(ev.PlanError, match="returns Float64, not Int64"):
        push(Overlapping(halves=True))

"""What goes into a step and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import polars as pl

from eventide.operators.outcome import Stamped
from eventide.time import MIN
from eventide.watermarks import Note, Watermark

S = TypeVar("S")


@dataclass(frozen=True)
class Bundle:
    """A micro-batch: rows that are judged together, and the batch's own clock."""

    rows: pl.DataFrame | Sequence[pl.DataFrame]  # of several inputs: one frame each
    now: int
    notes: Sequence[Note] = ()  # watermarks that reach the operator in band
    polled: bool = True  # whether the source was asked for rows: idleness counts only then

    @property
    def frames(self) -> Sequence[pl.DataFrame]:
        """The rows of each input."""
        return [self.rows] if isinstance(self.rows, pl.DataFrame) else self.rows


@dataclass(frozen=True)
class Counts:
    """What became of the rows. ``rows = kept + late + dead``, always."""

    rows: int = 0
    kept: int = 0  # in a window, in the join, or with the processor
    late: int = 0
    dead: dict[str, int] = field(default_factory=dict)
    refined: int = 0  # of those kept: behind the watermark, but within the lateness
    unemitted: int = 0  # of those kept: came after their trigger had finished (only with may_lose_data)
    panes: dict[str, int] = field(default_factory=dict)
    retractions: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(
            self.rows + other.rows,
            self.kept + other.kept,
            self.late + other.late,
            _added(self.dead, other.dead),
            self.refined + other.refined,
            self.unemitted + other.unemitted,
            _added(self.panes, other.panes),
            self.retractions + other.retractions,
        )

    @property
    def balanced(self) -> bool:
        """Whether every row is accounted for."""
        return self.rows == self.kept + self.late + sum(self.dead.values())


@dataclass(frozen=True)
class Stamp:
    """What a source makes of some of a bundle's rows, without state; the operator absorbs the stamps of all sources."""

    rows: int
    dead: Sequence[pl.DataFrame]
    summary: pl.DataFrame  # what the rows say of each origin's progress
    behind: int  # rows that were behind the watermark
    stamped: Stamped
    edge: int = 0  # the input that the rows came on


@dataclass(frozen=True)
class Output:
    """What one bundle gave."""

    panes: pl.DataFrame
    late: pl.DataFrame
    dead: pl.DataFrame
    watermark: int  # what stands after the bundle
    promise: int  # what the operator promises of its own output times: its watermark for what comes next
    counts: Counts
    open_panes: int
    promises: Mapping[int, int] = field(default_factory=dict)  # where several watermark keys go on: of each
    in_flight: int = 0  # rows whose calls span bundles: they have arrived, and are not in ``counts`` yet

    def promise_of(self, key: int) -> int:
        """What is promised to one that goes by a watermark key. One that is not sent on stands still."""
        return self.promises.get(key, MIN) if self.promises else self.promise

    def notes_for(self, key: int) -> list[Watermark]:
        """The watermarks for one that follows and goes by a watermark key: of that key, and those it may forward."""
        others = [Watermark(other, time) for other, time in self.promises.items() if other != key]
        return [Watermark(key, self.promise_of(key)), *others]


@dataclass(frozen=True)
class Step(Generic[S]):
    """A bundle's output, and the state for the next one."""

    state: S
    output: Output


def _added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in (one | other)}

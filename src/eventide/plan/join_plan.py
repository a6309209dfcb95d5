"""The plan of a join of two streams by key and time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import polars as pl

from eventide.plan.plan import IngestionTime, Input, JoinType, Mode, Operation, RowGrain, summary_of
from eventide.time import format_duration
from eventide.triggers import Trigger, on_update
from eventide.watermarks import Strategy
from eventide.windows import global_window
from eventide.windows.global_window import GlobalWindow

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class SideRetention:
    """How long a row of one side is stored: until the watermark of input ``by`` is more than ``length`` past its time.

    Without a ``length``, it is stored until that input has ended, or newer rows replace it.
    """

    by: int
    length: int | None


@dataclass(frozen=True)
class JoinPlan:
    """A join of two ``inputs``: rows match if their keys are equal and ``lo <= right.time - left.time <= hi``.

    A bound that is None is open. With ``last``, a left row matches the right rows of its key that arrived last.
    ``retention``: how long rows of each side are stored for partners that may arrive.
    """

    inputs: tuple[Input, ...]
    lo: int | None
    hi: int | None
    retention: tuple[SideRetention, SideRetention]
    how: JoinType = "inner"
    where: pl.Expr | None = field(default=None, compare=False)
    suffix: str = "_right"
    max_matches: int = 10_000_000
    last: int | None = None
    forget_after: int | None = None  # with ``last``: how far the left watermark is past a key that is forgotten

    operation: ClassVar[Operation] = "join"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def summary(self) -> str:
        """What the plan does, and for which key, in one line."""
        return summary_of(f"{self.how} join", self.key)

    row_grain: ClassVar[RowGrain] = "rows"
    mode: ClassVar[Mode] = "discarding"
    applies_diff = False
    offset = None
    counts_all_keys = False

    @property
    def edges(self) -> tuple[Input, ...]:
        """The inputs."""
        return self.inputs

    @property
    def time(self) -> str | IngestionTime:
        """The left side's time."""
        return self.inputs[0].time

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that must be equal, as the left side names them."""
        return self.inputs[0].key

    @property
    def watermark(self) -> Strategy:
        """The left side's watermark."""
        return self.inputs[0].watermark

    def at(self, edge: int) -> JoinPlan:
        """The plan as the rows of one input see it."""
        return replace(self, inputs=(self.inputs[edge],))

    def with_inputs(self, inputs: tuple[Input, ...]) -> JoinPlan:
        """The plan over other inputs."""
        return replace(self, inputs=inputs)

    @property
    def window(self) -> GlobalWindow:
        """A join by time has no windows."""
        return global_window()

    @property
    def trigger(self) -> Trigger:
        """A pair is emitted with the bundle in which its second row arrives."""
        return on_update()

    @property
    def slice(self) -> int | None:
        """The length of the slices of time by which rows are stored: partners are in at most two of them.

        None: a bound is open, so that partners may have any time.
        """
        return None if self.lo is None or self.hi is None else max(1, self.hi - self.lo)

    def is_outer(self, edge: int) -> bool:
        """Whether rows of a side are emitted even if they have no partner."""
        return self.how == "full" or self.how == ("left", "right")[edge]

    def describe(self) -> str:
        """The condition, in one line."""
        if self.last is not None:
            return f"the last {self.last} right rows of the key"
        if self.lo == self.hi:
            return f"right.time - left.time = {format_duration(self.lo or 0)}"
        lo = "" if self.lo is None else f"{format_duration(self.lo)} <= "
        hi = "" if self.hi is None else f" <= {format_duration(self.hi)}"
        return f"{lo}right.time - left.time{hi}" if lo or hi else "at any time"

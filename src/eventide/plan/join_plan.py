"""The plan of an interval join: an immutable description, complete and checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl

from eventide.plan.plan import How, IngestionTime, Input, Mode
from eventide.time import format_duration
from eventide.triggers import Trigger, on_update
from eventide.watermarks import Strategy
from eventide.windows import global_window
from eventide.windows.everything import Everything

LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Kept:
    """How long a row of one side stays: until the watermark of input ``by`` is more than ``length`` past its time.

    Without a ``length``, it stays until that input has ended, or newer rows take its place.
    """

    by: int
    length: int | None


@dataclass(frozen=True)
class JoinPlan:
    """Everything that a host needs to know to run the join.

    Rows of the two ``inputs`` meet where their keys are equal and ``right.time - left.time`` lies in ``[lo, hi]``; None
    is no bound. ``kept`` says how long rows of each side wait for partners. With ``last``, only so many right rows of a
    key are kept, the ones that came last.
    """

    inputs: tuple[Input, ...]
    lo: int | None
    hi: int | None
    kept: tuple[Kept, Kept]
    how: How = "inner"
    where: pl.Expr | None = field(default=None, compare=False)
    suffix: str = "_right"
    max_matches: int = 10_000_000
    last: int | None = None

    operation = "join"
    """What the plan does with rows, as metrics name it."""
    tells = "rows"
    """Each pair is told once, and there are no windows."""
    offset = None
    """There are no windows to be cut on offsets."""
    counts_all_keys = False
    """Rows of one key have nothing to do with those of another."""

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
        """The columns that must be equal, as the left side calls them."""
        return self.inputs[0].key

    @property
    def watermark(self) -> Strategy:
        """The left side's watermark."""
        return self.inputs[0].watermark

    def at(self, edge: int) -> JoinPlan:
        """The plan as the rows of one input see it."""
        return replace(self, inputs=(self.inputs[edge],))

    @property
    def window(self) -> Everything:
        """There are none: rows meet wherever they lie on the axis of time."""
        return global_window()

    @property
    def trigger(self) -> Trigger:
        """Pairs are told with the bundle in which their second row comes."""
        return on_update()

    @property
    def mode(self) -> Mode:
        """What was told is never told again, nor taken back."""
        return "discarding"

    @property
    def slice(self) -> int | None:
        """The stretch of time by which rows are found, beside their key: partners lie in two of them at most.

        None: one of the bounds is open, so that partners may lie anywhere.
        """
        return None if self.lo is None or self.hi is None else max(1, self.hi - self.lo)

    def pads(self, edge: int) -> bool:
        """Whether rows of a side are told even if they have no partner."""
        return self.how == "full" or self.how == ("left", "right")[edge]

    def describe(self) -> str:
        """The condition in words."""
        if self.last is not None:
            return f"the last {self.last} right rows of the key"
        if self.lo == self.hi:
            return f"right.time - left.time = {format_duration(self.lo or 0)}"
        lo = "" if self.lo is None else f"{format_duration(self.lo)} <= "
        hi = "" if self.hi is None else f" <= {format_duration(self.hi)}"
        return f"{lo}right.time - left.time{hi}" if lo or hi else "at any time"

"""What every plan has: its inputs, their time, key and watermark, and what it emits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, Self, TypeAlias

from eventide._column_refs import in_unit
from eventide.plan.async_call import AsyncMap
from eventide.triggers import Trigger
from eventide.watermarks import Strategy
from eventide.windows import Inherit, Sessions, WindowKind

Mode = Literal["accumulating", "discarding", "retracting"]
OutputTime = Literal["end", "earliest", "latest"]
JoinType = Literal["inner", "left", "right", "full"]
RowGrain = Literal["windows", "pairs", "rows"]
Operation = Literal["window", "join", "processor"]
Window: TypeAlias = WindowKind | Sessions | Inherit

_MAX_NAMES = 8  # in one line


@dataclass(frozen=True)
class IngestionTime:
    """The time of a row is the time of its batch."""


@dataclass(frozen=True)
class Sides:
    """Inputs whose rows differ: groups of them, or pairs of a row of each, joined by ``how``."""

    how: JoinType | None = None
    suffix: str = "_right"
    merged: bool = False  # aggregates over the rows of all inputs, instead of lists

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.merged:
            return "merged: aggregates over the rows of all inputs"
        return "groups: the rows of each input" if self.how is None else f"pairs: {self.how} join of a window's rows"


@dataclass(frozen=True)
class Input:
    """One input of a plan: the columns of its time and key, its watermark, and the calls made for each row."""

    name: str
    time: str | IngestionTime
    key: tuple[str, ...]
    watermark: Strategy
    calls: tuple[AsyncMap, ...] = ()

    @property
    def watermark_key(self) -> int:
        """The key of the watermark that this input advances."""
        return self.watermark.options.watermark_key

    def describe(self) -> str:
        """One line for ``explain()``."""
        time = "the batch's own time" if isinstance(self.time, IngestionTime) else repr(self.time) + in_unit(self.time)
        return f"{self.name}: time {time}, key {', '.join(map(repr, self.key)) or 'none'}, {self.watermark.describe()}"


class Plan(Protocol):
    """What hosts and operators read of any plan. ``WindowPlan``, ``JoinPlan`` and ``ProcessPlan`` implement it.

    ``inputs`` is empty for a plan over one unnamed stream; ``edges`` always has every input. With several inputs the
    time, the key and the watermark are those of the first. ``at(edge)`` is the plan of one input, with its own.
    """

    operation: ClassVar[Operation]  # the kind of operator, as metrics name it

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The named inputs; none for a single stream."""
        ...

    @property
    def edges(self) -> tuple[Input, ...]:
        """All inputs, at least one."""
        ...

    @property
    def time(self) -> str | IngestionTime:
        """The event time of the first input."""
        ...

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, as the first input names them."""
        ...

    @property
    def watermark(self) -> Strategy:
        """The watermark strategy of the first input."""
        ...

    @property
    def window(self) -> Window:
        """The windows; the global window where there are none."""
        ...

    @property
    def trigger(self) -> Trigger:
        """When panes are emitted."""
        ...

    @property
    def mode(self) -> Mode:
        """How the panes of a window relate."""
        ...

    @property
    def offset(self) -> str | None:
        """The column of offsets, for windows by offset."""
        ...

    @property
    def applies_diff(self) -> bool | None:
        """Whether rows are panes that may be retracted, with their weight in ``diff``; None: if they look like it."""
        ...

    @property
    def counts_all_keys(self) -> bool:
        """Whether rows of all keys affect each key, so that state cannot be partitioned by key."""
        ...

    @property
    def row_grain(self) -> RowGrain:
        """What one emitted row represents: a window of a key, a pair of rows in it, or a single row."""
        ...

    def at(self, edge: int) -> Self:
        """The plan as the rows of one input see it."""
        ...

    def with_inputs(self, inputs: tuple[Input, ...]) -> Self:
        """The plan over other inputs, one for each of ``edges``."""
        ...

    def summary(self) -> str:
        """What the plan does, and for which key, in one line."""
        ...


def summary_of(what: str, key: Iterable[str], names: Iterable[str] = ()) -> str:
    """What a plan does, for which key, and the names of its results, in one line.

    >>> summary_of("tumbling 1m", ["shop"], ["n", "total"])
    "tumbling 1m by 'shop': n, total"
    """
    by = f" by {', '.join(map(repr, key))}" if key else ""
    results = list(names)
    more = len(results) - _MAX_NAMES
    listed = ", ".join(results[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{what}{by}: {listed}" if results else f"{what}{by}"


@dataclass(frozen=True)
class StreamPlan:
    """What plans over one stream, over a union, or over ``sides`` have in common."""

    time: str | IngestionTime
    key: tuple[str, ...]
    watermark: Strategy
    inputs: tuple[Input, ...] = field(default=(), kw_only=True)
    sides: Sides | None = field(default=None, kw_only=True)
    calls: tuple[AsyncMap, ...] = field(default=(), kw_only=True)

    @property
    def edges(self) -> tuple[Input, ...]:
        """The inputs; a plan of one stream has one."""
        return self.inputs or (Input("rows", self.time, self.key, self.watermark, self.calls),)

    def at(self, edge: int) -> Self:
        """The plan as the rows of one input see it."""
        if not self.inputs:
            return self
        source = self.inputs[edge]
        return replace(self, time=source.time, key=source.key, watermark=source.watermark, inputs=())

    def with_inputs(self, inputs: tuple[Input, ...]) -> Self:
        """The plan over other inputs."""
        if self.inputs:
            return replace(self, inputs=inputs, watermark=inputs[0].watermark)
        return replace(self, watermark=inputs[0].watermark, calls=inputs[0].calls)


def spans_bundles(plan: Plan) -> bool:
    """Whether an input of a plan has calls that span bundles."""
    return any(call.options.across_bundles for edge in plan.edges for call in edge.calls)

"""The plan: an immutable description of one pipeline, complete and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from eventide.aggregates import Aggregate
from eventide.plan.calls import AsyncMap
from eventide.plan.retention import Retention
from eventide.triggers import AfterWatermark, Repeatedly, Trigger
from eventide.watermarks import Strategy
from eventide.windows import Inherit, Sessions, WindowKind
from eventide.windows.lifetime import Lifetime

Mode = Literal["accumulating", "discarding", "retracting"]
OutputTime = Literal["end", "earliest", "latest"]
Layout = Literal["cells", "panes"]
How = Literal["inner", "left", "right", "full"]

Window: TypeAlias = WindowKind | Sessions | Inherit


@dataclass(frozen=True)
class IngestionTime:
    """The time of a row is the time of its batch."""


@dataclass(frozen=True)
class Sides:
    """Inputs whose rows differ: lists of them in groups, or pairs of a row of each (``how`` says what of lone ones)."""

    how: How | None = None
    suffix: str = "_right"
    merged: bool = False  # aggregates over the rows of all inputs, instead of lists

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.merged:
            return "merged: aggregates over the rows of all inputs"
        return "groups: the rows of each input" if self.how is None else f"pairs: {self.how} join of a window's rows"


@dataclass(frozen=True)
class Input:
    """One of several inputs: which of its columns are the time and the key, and how its watermark is found."""

    name: str
    time: str | IngestionTime
    key: tuple[str, ...]
    watermark: Strategy
    calls: tuple[AsyncMap, ...] = ()  # what is asked of the world outside for each row, first of all

    def describe(self) -> str:
        """One line for ``explain()``."""
        time = "the batch's own time" if isinstance(self.time, IngestionTime) else repr(self.time)
        return f"{self.name}: time {time}, key {', '.join(map(repr, self.key)) or 'none'}, {self.watermark.describe()}"


class OneInput(Protocol):
    """Any kind of plan, as the rows of one input see it."""

    @property
    def time(self) -> str | IngestionTime: ...  # noqa: D102
    @property
    def key(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def watermark(self) -> Strategy: ...  # noqa: D102
    @property
    def window(self) -> Window: ...  # noqa: D102
    @property
    def offset(self) -> str | None: ...  # noqa: D102
    @property
    def mode(self) -> Mode: ...  # noqa: D102


@dataclass(frozen=True)
class Plan:
    """Everything that a host needs to know to run the pipeline.

    With several ``inputs`` the time, the key and the watermark are those of the first one. Their rows are alike, unless
    they are ``sides``: then rows of a key and window are brought together, as groups or in pairs.
    """

    time: str | IngestionTime
    key: tuple[str, ...]
    watermark: Strategy
    window: Window
    trigger: Trigger
    lateness: int
    mode: Mode
    aggregates: Mapping[str, Aggregate]
    skip_unchanged: bool = False
    output_time: OutputTime = "end"
    inputs: tuple[Input, ...] = ()
    sides: Sides | None = None
    calls: tuple[AsyncMap, ...] = ()
    retention: Retention | None = None

    @property
    def edges(self) -> tuple[Input, ...]:
        """The inputs; a plan of one stream has one."""
        return self.inputs or (Input("rows", self.time, self.key, self.watermark, self.calls),)

    def at(self, edge: int) -> Plan:
        """The plan as the rows of one input see it."""
        if not self.inputs:
            return self
        own = self.inputs[edge]
        return replace(self, time=own.time, key=own.key, watermark=own.watermark, inputs=())

    @property
    def offset(self) -> str | None:
        """The column that holds an origin's own offsets, where windows are cut on them."""
        return getattr(self.window, "by", None)

    @property
    def lifetime(self) -> Lifetime:
        """When this plan's windows are complete and expired."""
        joins = isinstance(self.window, Sessions) and self.window.touching == "merge"
        return Lifetime(self.lateness, joins)

    @property
    def late_is_out_of_retention(self) -> bool:
        """Whether it is retention that ends the life of windows: what comes for them is a dead letter, not late."""
        time = None if self.retention is None else self.retention.time
        return time is not None and self.window.axis == "time" and self.lateness >= time

    @property
    def bounded(self) -> bool:
        """Whether retention closes windows that would live on."""
        return self.retention is not None and (self.retention.sized or self.window.axis == "rows")

    @property
    def ships_rows(self) -> bool:
        """Whether rows come to their state as they are, because it numbers them or judges them one by one."""
        deduplicates = any(own.watermark.options.deduplicate for own in self.edges)
        return self.window.axis == "rows" or self.bounded or deduplicates

    @property
    def operation(self) -> Literal["window"]:
        """What the plan does with rows, as metrics name it."""
        return "window"

    @property
    def tells(self) -> Literal["windows", "pairs"]:
        """Whether there is one row for each key and window, or one for each pair of rows in it."""
        return "windows" if self.sides is None or self.sides.how is None else "pairs"

    @property
    def counts_all_keys(self) -> bool:
        """Whether the rows of all keys bear on each key, so that they cannot be parted."""
        return isinstance(self.window, Sessions) and self.window.axis == "rows" and self.offset is None

    @property
    def layout(self) -> Layout:
        """What rests in state.

        ``cells``: partial aggregates per key and slice, shared by all windows; enough where each window fires exactly
        once, at its end. ``panes``: a row per key and window with its trigger's state.
        """
        once = fires_once(self.trigger, self.lateness) and self.window.axis == "time" and not self.bounded
        return "cells" if once and isinstance(self.window, WindowKind) else "panes"

    @property
    def remembers(self) -> bool:
        """Whether the values of the last pane are kept."""
        return self.mode == "retracting" or self.skip_unchanged


def fires_once(trigger: Trigger, lateness: int) -> bool:
    """Whether each window emits one pane, when it is complete."""
    if lateness:
        return False
    inner = trigger.inner if isinstance(trigger, Repeatedly) else trigger
    return isinstance(inner, AfterWatermark) and inner.early is None

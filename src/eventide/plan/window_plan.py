"""The plan of a windowed aggregate, and the limits of its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from eventide._arguments import byte_count, is_integer
from eventide.aggregates import Aggregate
from eventide.errors import PlanError, shown
from eventide.plan.emission_text import emission_text
from eventide.plan.plan import Mode, Operation, OutputTime, StreamPlan, Window, summary_of
from eventide.triggers import AfterWatermark, Repeatedly, Trigger
from eventide.windows import Sessions, WindowKind
from eventide.windows.lateness import Lateness

Layout = Literal["cells", "panes"]


@dataclass(frozen=True)
class StateLimits:
    """Limits of what is stored in state; with both, both apply.

    ``rows``: how many rows the open windows of a key may hold. ``bytes``: how large the accumulated values of a state
    (a bucket, where there are several) may be.
    """

    rows: int | None = None
    bytes: int | None = None

    def describe(self) -> str:
        """One line for ``explain()``.

        >>> StateLimits(rows=100, bytes=1_000).describe()
        '100 rows a key, 1000 bytes in all'
        """
        parts = [] if self.rows is None else [f"{self.rows} rows a key"]
        parts += [] if self.bytes is None else [f"{self.bytes} bytes in all"]
        return ", ".join(parts)


@dataclass(frozen=True)
class WindowPlan(StreamPlan):
    """A windowed aggregate over one stream, over a union, or over ``sides`` that are grouped or joined."""

    window: Window
    trigger: Trigger
    allowed_lateness: int
    mode: Mode
    aggregates: Mapping[str, Aggregate]
    skip_unchanged: bool = False
    output_time: OutputTime = "end"
    limits: StateLimits | None = None
    applies_diff: bool | None = None

    operation: ClassVar[Operation] = "window"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def summary(self) -> str:
        """What the plan does, and for which key, in one line."""
        usual = "accumulating" if fires_once(self.trigger, self.allowed_lateness) else "retracting"
        emission = emission_text(
            self.trigger,
            self.allowed_lateness,
            None if self.mode == usual else self.mode,
            by_row=self.window.axis == "rows",
            skip_unchanged=self.skip_unchanged,
        )
        by = summary_of(self.window.describe(), self.key)
        return summary_of(f"{by}, {emission}" if emission else by, (), self.aggregates)

    @property
    def offset(self) -> str | None:
        """The column of an origin's offsets, for windows by offset."""
        return getattr(self.window, "by", None)

    @property
    def forget_after(self) -> int | None:
        """How far the watermark is past the last row of a key when the key is forgotten; None: never."""
        return getattr(self.window, "forget_after", None)

    @property
    def timeout(self) -> int | None:
        """How far the watermark is past the latest row of a window on the axis of rows when the window is closed."""
        return getattr(self.window, "timeout", None)

    @property
    def expiry(self) -> Lateness:
        """When the windows of this plan are complete and expired."""
        joins_at_end = isinstance(self.window, Sessions) and self.window.touching == "merge"
        return Lateness(self.allowed_lateness, joins_at_end)

    @property
    def bounded(self) -> bool:
        """Whether windows are closed before they expire, to limit state."""
        return self.limits is not None or self.timeout is not None

    @property
    def ships_rows(self) -> bool:
        """Whether state needs the rows themselves, because it numbers them or decides on each of them."""
        options = [source.watermark.options for source in self.edges]
        deduplicates = any(each.deduplicate or each.ids for each in options)
        return self.window.axis == "rows" or self.bounded or deduplicates

    @property
    def row_grain(self) -> Literal["windows", "pairs"]:
        """Whether an emitted row is a window of a key, or a pair of rows in it."""
        return "windows" if self.sides is None or self.sides.how is None else "pairs"

    @property
    def counts_all_keys(self) -> bool:
        """Whether rows of all keys affect each key."""
        return isinstance(self.window, Sessions) and self.window.axis == "rows" and self.offset is None

    @property
    def layout(self) -> Layout:
        """What is stored in state.

        ``cells``: partial aggregates per key and slice, shared by all windows; enough where each window fires exactly
        once, at its end. ``panes``: a row per key and window with its trigger's state.
        """
        once = fires_once(self.trigger, self.allowed_lateness) and self.window.axis == "time" and not self.bounded
        return "cells" if once and isinstance(self.window, WindowKind) else "panes"

    @property
    def stores_last_pane(self) -> bool:
        """Whether the values of the last pane are stored, to retract it or to compare with it."""
        return self.mode == "retracting" or self.skip_unchanged


def state_limits(rows: Any, bytes_: Any) -> StateLimits:
    """Return checked limits."""
    if rows is None and bytes_ is None:
        raise PlanError(
            ".limit_state() needs a limit: rows=10_000, bytes=64_000_000, or both. To store windows for a limited "
            "time, use allowed_lateness= of .emit(…)."
        )
    size = byte_count(bytes_) if isinstance(bytes_, str) else bytes_
    if rows is not None and not is_integer(rows, at_least=1):
        raise PlanError(f".limit_state(rows={shown(rows)}): give an integer of at least 1.")
    if bytes_ is not None and not is_integer(size, at_least=1):
        raise PlanError(f".limit_state(bytes={shown(bytes_)}): give a size such as '64m' or '1g', or an integer.")
    return StateLimits(rows, size)


def fires_once(trigger: Trigger, allowed_lateness: int) -> bool:
    """Whether each window emits one pane, when it is complete."""
    if allowed_lateness:
        return False
    repeated = trigger.inner if isinstance(trigger, Repeatedly) else trigger
    return isinstance(repeated, AfterWatermark) and repeated.early is None

"""When the panes of a window are emitted: early, when the window is full, and late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from eventide import _columns as c
from eventide._arguments import is_integer
from eventide.errors import PlanError, did_you_mean, shown
from eventide.operators.emission import pane_timing
from eventide.panes import TIMING
from eventide.time import MIN, duration, format_duration
from eventide.triggers import AfterWatermark, Trigger
from eventide.triggers.evaluation import FIRES, TriggerEvaluation
from eventide.triggers.trigger import ADDED, COMPLETE, NOW, WAS_COMPLETE, not_a_trigger
from eventide.windows import Axis
from eventide.windows.lateness import is_complete

_IS_LATE = pl.col("__policy.late_phase")
_TEMPORARY = [column.meta.output_name() for column in (COMPLETE, WAS_COMPLETE, NOW, ADDED)]


@dataclass(frozen=True)
class FullSize:
    """A window is full with a message that is ``delay`` past its end, or with its message number ``rows``."""

    delay: int = 0
    rows: int | None = None

    def is_passed(self, position: pl.Expr) -> pl.Expr:
        """Whether a stream at this position is far enough past the end of windows."""
        if self.delay:
            position = pl.when(position >= MIN + self.delay).then(position - self.delay).otherwise(MIN)
        return is_complete(pl.col(c.END), position)

    def is_full(self, position: pl.Expr) -> pl.Expr:
        """Whether windows are full, by the position of the stream or by their number of messages."""
        passed = self.is_passed(position)
        return passed if self.rows is None else passed | (pl.col(c.ROWS) >= self.rows)

    def describe(self) -> str:
        """A few words for ``explain()``.

        >>> FullSize().describe(), FullSize(30_000_000, 100).describe()
        ('when full', 'when full (30s past the end, or 100 messages)')
        """
        parts = [f"{format_duration(self.delay)} past the end"] if self.delay else []
        parts += [] if self.rows is None else [f"{self.rows} messages"]
        return "when full" + (f" ({', or '.join(parts)})" if parts else "")


def full_size(full: Mapping[str, object] | None, axis: Axis) -> FullSize:
    """Return the checked value of ``full=``.

    >>> full_size({"rows": 100}, "time").describe()
    'when full (100 messages)'
    """
    if full is None:
        return FullSize()
    if not isinstance(full, Mapping):
        raise _bad_full_size(full)
    for name in full:
        if name not in ("time", "rows"):
            raise PlanError(f"full: there is no {name!r}. {did_you_mean(name, ['time', 'rows'])}")
    time, rows = full.get("time"), full.get("rows")
    if rows is not None and not is_integer(rows, at_least=1):
        raise _bad_full_size(full)
    delay = 0 if time is None else duration(time, what="time of full", zero=True)
    if time is not None and axis == "rows":
        raise PlanError("full: windows counted in rows have no end in time. Give full={'rows': …}, or leave it out.")
    return FullSize(delay, rows)


class Policies:
    """The early and the late trigger around the full window, as columns that are stored with each window."""

    def __init__(self, early: Trigger, late: Trigger, full: FullSize, *, operator: str) -> None:
        for name, trigger in (("early", early), ("late", late)):
            if not hasattr(trigger, "compile"):
                raise not_a_trigger(f"{operator}({name}=…)", trigger)
        self.full = full
        self.trigger = TriggerEvaluation(AfterWatermark(early, late), "__policy", accepts=pl.lit(True))
        self._description = f"early: {early.describe()}; {full.describe()}; late: {late.describe()}"

    def describe(self) -> str:
        """One line for ``explain()``."""
        return self._description

    def is_due(self, now: int) -> pl.Expr:
        """Whether a deadline of processing time has passed."""
        due = [(deadline <= now).fill_null(False) for deadline in self.trigger.deadlines()]
        return pl.any_horizontal(due) if due else pl.lit(False)

    def evaluate(self, windows: pl.DataFrame, now: int) -> pl.DataFrame:
        """Return the windows with ``FIRES`` and the timing of a pane, and with the state of their trigger afterwards.

        The windows have ``STREAM_POSITION``, ``PREVIOUS_STREAM_POSITION``, ``ADDED`` and ``MOVED``.
        """
        evaluated = (
            windows.lazy()
            .with_columns(
                self.full.is_full(pl.col(c.STREAM_POSITION)).alias(COMPLETE.meta.output_name()),
                self.full.is_passed(pl.col(c.PREVIOUS_STREAM_POSITION)).alias(WAS_COMPLETE.meta.output_name()),
                pl.lit(now, pl.Int64).alias(NOW.meta.output_name()),
            )
            .with_columns(self.trigger.started(pl.col(c.EMITTED_PANES).is_null()))
        )
        for step in (self.trigger.moved, self.trigger.added):
            evaluated = evaluated.with_columns(step) if step else evaluated
        # The late phase begins with the full pane: a window can be full by its messages before the stream passes it.
        timing = pane_timing(COMPLETE | _IS_LATE, late=_IS_LATE).cast(TIMING)
        evaluated = evaluated.with_columns(self.trigger.fires.alias(FIRES), timing.alias(c.TIMING))
        # One query: on small bundles, the number of Polars calls dominates the cost.
        return evaluated.with_columns(self.trigger.fired).drop(*_TEMPORARY).collect(engine="in-memory")


def _bad_full_size(value: object) -> PlanError:
    return PlanError(f"full={shown(value)}: give full={{'time': '1 hour'}}, full={{'rows': 1000}}, or both.")

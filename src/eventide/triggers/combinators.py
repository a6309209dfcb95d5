"""Combinations of triggers, and triggers on processing time (the batch time, never the clock of a worker)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from eventide._display import described
from eventide._hints import with_option_hints
from eventide.errors import PlanError
from eventide.time import duration, format_duration
from eventide.triggers.trigger import ADDED, NOW, AfterCount, Changes, Column, Compiled, Finish, Trigger, not_a_trigger


@described
@dataclass(frozen=True)
class Repeatedly:
    """Fires whenever the inner trigger fires, and then starts it again. Never finishes."""

    inner: Trigger

    def finish(self) -> Finish:
        """It never finishes."""
        return Finish.NEVER

    def compile(self, path: str) -> Compiled:
        """Return the inner trigger, reset where it finishes."""
        return _Repeat(self.inner.compile(path))

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.inner == AfterCount(1):
            return "each time rows join"
        return f"repeatedly ({self.inner.describe()})"


@described
@dataclass(frozen=True)
class Parallel:
    """Several triggers in parallel: fires when any of them (or all) fire, and finishes when any (or all) finish."""

    triggers: tuple[Trigger, ...]
    need_all: bool

    def finish(self) -> Finish:
        """When the first of them finishes, or when the last one does."""
        pick = min if self.need_all else max
        return pick(t.finish() for t in self.triggers)

    def compile(self, path: str) -> Compiled:
        """Return all of them."""
        return _Parallel([t.compile(f"{path}.{i}") for i, t in enumerate(self.triggers)], self.need_all)

    def describe(self) -> str:
        """One line for ``explain()``."""
        return f"{'all' if self.need_all else 'any'} of ({', '.join(t.describe() for t in self.triggers)})"


@described
@dataclass(frozen=True)
class InOrder:
    """Several triggers in sequence: each starts when the previous one has finished."""

    triggers: tuple[Trigger, ...]

    def finish(self) -> Finish:
        """When the last of them finishes."""
        return min(t.finish() for t in self.triggers)

    def compile(self, path: str) -> Compiled:
        """Return all of them, and the number of the active one."""
        return _InOrder([t.compile(f"{path}.{i}") for i, t in enumerate(self.triggers)], f"{path}.turn")

    def describe(self) -> str:
        """One line for ``explain()``."""
        return " then ".join(t.describe() for t in self.triggers)


@described
@dataclass(frozen=True)
class Never:
    """Does not fire. The rows of a window are emitted when it expires."""

    def finish(self) -> Finish:
        """It never finishes."""
        return Finish.NEVER

    def compile(self, path: str) -> Compiled:
        """Return a trigger without state."""
        return _Never()

    def describe(self) -> str:
        """One line for ``explain()``."""
        return "never (only when the window expires)"


@dataclass(frozen=True)
class _Repeat:
    inner: Compiled

    def columns(self) -> list[Column]:
        return self.inner.columns()

    def add(self, when: pl.Expr, changes: Changes) -> None:
        self.inner.add(when, changes)

    def fires(self) -> pl.Expr:
        return self.inner.fires()

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        self.inner.reset(when & self.inner.fired(when, changes), changes)
        return pl.lit(False)

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        self.inner.moved(when, changes)

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        self.inner.reset(when, changes)


@dataclass(frozen=True)
class _Group:
    parts: Sequence[Compiled]

    def columns(self) -> list[Column]:
        return [column for part in self.parts for column in part.columns()]

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        for part in self.parts:
            part.moved(when, changes)

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        for part in self.parts:
            part.reset(when, changes)


@dataclass(frozen=True)
class _Parallel(_Group):
    need_all: bool

    def add(self, when: pl.Expr, changes: Changes) -> None:
        for part in self.parts:
            part.add(when, changes)

    def fires(self) -> pl.Expr:
        combine = pl.all_horizontal if self.need_all else pl.any_horizontal
        return combine([part.fires() for part in self.parts])

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        combine = pl.all_horizontal if self.need_all else pl.any_horizontal
        return combine([part.fired(when & part.fires(), changes) for part in self.parts])


@dataclass(frozen=True)
class _InOrder(_Group):
    turn: str

    def columns(self) -> list[Column]:
        return [Column(self.turn, pl.Int32(), pl.lit(0, pl.Int32), "max"), *super().columns()]

    def add(self, when: pl.Expr, changes: Changes) -> None:
        for i, part in enumerate(self.parts):
            part.add(when & (pl.col(self.turn) == i), changes)

    def fires(self) -> pl.Expr:
        active = [(pl.col(self.turn) == i) & part.fires() for i, part in enumerate(self.parts)]
        return pl.any_horizontal(active)

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        turn, last = pl.col(self.turn), pl.lit(False)
        for i, part in enumerate(self.parts):
            last = part.fired(when & (turn == i), changes) & when & (turn == i)
            if i + 1 < len(self.parts):  # the last one stays active: as a part of all_of it may be evaluated again
                changes.set(self.turn, last, pl.lit(i + 1, pl.Int32))
        return last

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.turn, when, pl.lit(0, pl.Int32))
        super().reset(when, changes)


class _Never:
    def columns(self) -> list[Column]:
        return []

    def add(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""

    def fires(self) -> pl.Expr:
        return pl.lit(False)

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        return pl.lit(False)

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""


def repeat(trigger: Trigger) -> Trigger:
    """Return ``trigger`` repeated, or itself if it never finishes."""
    return trigger if trigger.finish() is Finish.NEVER else Repeatedly(trigger)


@with_option_hints
def repeatedly(trigger: Trigger) -> Repeatedly:
    """Whenever ``trigger`` fires, start it again.

    >>> from eventide.triggers import after_count
    >>> repeatedly(after_count(100)).describe()
    'repeatedly (after 100 rows)'
    """
    return Repeatedly(*_checked("repeatedly()", [trigger], least=1))


@with_option_hints
def on_update() -> Repeatedly:
    """Whenever rows have joined the window, at most once per bundle.

    >>> on_update().describe()
    'each time rows join'
    """
    return Repeatedly(AfterCount(1))


@with_option_hints
def any_of(*triggers: Trigger) -> Parallel:
    """When one of the triggers fires. It finishes when a trigger that fired has finished.

    >>> from eventide.triggers import after_count, after_processing_time
    >>> any_of(after_count(100), after_processing_time("10s")).describe()
    'any of (after 100 rows, 10s of processing time after the first new row)'
    """
    return Parallel(_checked("any_of()", triggers, least=2), need_all=False)


@with_option_hints
def all_of(*triggers: Trigger) -> Parallel:
    """When all triggers fire.

    >>> from eventide.triggers import after_count, after_watermark
    >>> all_of(after_count(2), after_watermark()).describe()
    'all of (after 2 rows, when the watermark passes the end)'
    """
    return Parallel(_checked("all_of()", triggers, least=2), need_all=True)


@with_option_hints
def in_order(*triggers: Trigger) -> InOrder:
    """Triggers in sequence: the next one starts when the previous one has finished.

    >>> from eventide.triggers import after_count
    >>> in_order(after_count(1), repeatedly(after_count(100))).describe()
    'after 1 row then repeatedly (after 100 rows)'
    """
    return InOrder(_checked("in_order()", triggers, least=2))


@with_option_hints
def or_finally(trigger: Trigger, until: Trigger) -> Parallel:
    """``trigger``, until ``until`` finishes.

    >>> from eventide.triggers import after_count, after_watermark, on_update
    >>> or_finally(on_update(), after_watermark()).describe()
    'any of (each time rows join, when the watermark passes the end)'
    """
    return Parallel(_checked("or_finally()", (trigger, until), least=2), need_all=False)


@with_option_hints
def never() -> Never:
    """No panes until the window expires or the stream is drained.

    >>> never().describe()
    'never (only when the window expires)'
    """
    return Never()


def _checked(where: str, triggers: Sequence[Trigger], *, least: int) -> tuple[Trigger, ...]:
    for trigger in triggers:
        if not hasattr(trigger, "compile"):
            raise not_a_trigger(where, trigger)
    if len(triggers) < least:
        raise PlanError(f"{where} needs at least {least} triggers, got {len(triggers)}.")
    return tuple(triggers)


@described
@dataclass(frozen=True)
class AfterProcessingTime:
    """Fires once, ``delay`` after the first row that joined since it started.

    Aligned, it fires at the next multiple of ``delay``, plus ``offset``.
    """

    delay: int
    aligned: bool = False
    offset: int = 0

    def finish(self) -> Finish:
        """At any time: when the delay has passed."""
        return Finish.ANY_TIME

    def compile(self, path: str) -> Compiled:
        """Return a due time per pane."""
        return _Timer(self.delay, self.aligned, self.offset, f"{path}.due")

    def describe(self) -> str:
        """One line for ``explain()``."""
        if self.aligned:
            shift = f" plus {format_duration(self.offset)}" if self.offset else ""
            return f"at the next full {format_duration(self.delay)}{shift} of processing time"
        return f"{format_duration(self.delay)} of processing time after the first new row"


@dataclass(frozen=True)
class _Timer:
    delay: int
    aligned: bool
    offset: int
    name: str

    def columns(self) -> list[Column]:
        return [Column(self.name, pl.Int64(), pl.lit(None, pl.Int64), "min", due=True)]

    def add(self, when: pl.Expr, changes: Changes) -> None:
        multiple = ((NOW - self.offset) // self.delay + 1) * self.delay + self.offset
        due = multiple if self.aligned else NOW + self.delay
        changes.set(self.name, when & (ADDED > 0) & pl.col(self.name).is_null(), due)

    def fires(self) -> pl.Expr:
        return (pl.col(self.name) <= NOW).fill_null(False)

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        return when

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: merged sessions have the earliest due time."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.lit(None, pl.Int64))


@with_option_hints
def after_processing_time(delay: str | timedelta) -> AfterProcessingTime:
    """Once, when ``delay`` of processing time has passed since the first row.

    >>> after_processing_time("10 seconds").describe()
    '10s of processing time after the first new row'
    """
    return AfterProcessingTime(duration(delay, what="delay of after_processing_time()"))


@with_option_hints
def every(period: str | timedelta, *, aligned: bool = False, offset: str | timedelta | None = None) -> Repeatedly:
    """Repeatedly while rows arrive, at most once per ``period``. Aligned: at full periods of the clock.

    ``offset`` moves the full periods: every two minutes with an offset of one is 12:01, 12:03, and so on.

    >>> every("10 seconds").describe()
    'repeatedly (10s of processing time after the first new row)'
    >>> every("1 minute", aligned=True).describe()
    'repeatedly (at the next full 1m of processing time)'
    >>> every("2 minutes", aligned=True, offset="1 minute").describe()
    'repeatedly (at the next full 2m plus 1m of processing time)'
    """
    length = duration(period, what="period of every()")
    if offset is None:
        return repeatedly(AfterProcessingTime(length, aligned))
    if not aligned:
        raise PlanError(
            "every(offset=…): the offset moves the full periods of the clock. Add aligned=True, or leave "
            "the offset out."
        )
    shift = duration(offset, what="offset of every()", zero=True, negative=True)
    return repeatedly(AfterProcessingTime(length, aligned, shift % length))

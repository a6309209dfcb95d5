"""The trigger of the watermark: once when the window is complete, with early and late panes around it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from eventide._display import described
from eventide._hints import with_option_hints
from eventide.time import duration
from eventide.triggers.combinators import every, repeat
from eventide.triggers.trigger import (
    COMPLETE,
    WAS_COMPLETE,
    Changes,
    Column,
    Compiled,
    Finish,
    Trigger,
    not_a_trigger,
)


@described
@dataclass(frozen=True)
class AfterWatermark:
    """Fires when the watermark passes the window's end; ``early`` repeats before that, ``late`` after it."""

    early: Trigger | None = None
    late: Trigger | None = None

    def finish(self) -> Finish:
        """Never with ``late``, otherwise at the end of the window."""
        return Finish.AT_END if self.late is None else Finish.NEVER

    def compile(self, path: str) -> Compiled:
        """Return a test for the end of the window, or a state machine with two phases."""
        if self.early is None and self.late is None:
            return _AtEnd()
        early = None if self.early is None else repeat(self.early).compile(f"{path}.early")
        late = None if self.late is None else repeat(self.late).compile(f"{path}.late")
        return _Phases(early, late, f"{path}.late_phase")

    def describe(self) -> str:
        """One line for ``explain()``."""
        parts = ["when the watermark passes the end"]
        if self.early is not None:
            parts.append(f"early: {self.early.describe()}")
        if self.late is not None:
            parts.append(f"late: {self.late.describe()}")
        return "; ".join(parts)


class _AtEnd:
    def columns(self) -> list[Column]:
        return []

    def add(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""

    def fires(self) -> pl.Expr:
        return COMPLETE

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        return when

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        """Do nothing: there is no state."""


@dataclass(frozen=True)
class _Phases:
    early: Compiled | None
    late: Compiled | None
    name: str

    @property
    def _born_late(self) -> pl.Expr:
        # Without a late trigger, a window that is complete from the start still has one pane.
        return WAS_COMPLETE if self.late else pl.lit(False)

    def columns(self) -> list[Column]:
        phase = Column(self.name, pl.Boolean(), self._born_late, "max")
        inner = [c for part in (self.early, self.late) if part for c in part.columns()]
        return [phase, *inner]

    def add(self, when: pl.Expr, changes: Changes) -> None:
        late = pl.col(self.name)
        if self.early:
            self.early.add(when & ~late, changes)
        if self.late:
            self.late.add(when & late, changes)

    def fires(self) -> pl.Expr:
        before = COMPLETE | self.early.fires() if self.early else COMPLETE
        after = self.late.fires() if self.late else pl.lit(True)  # finished: evaluated only as a part of all_of
        return pl.when(pl.col(self.name)).then(after).otherwise(before)

    def fired(self, when: pl.Expr, changes: Changes) -> pl.Expr:
        late = pl.col(self.name)
        on_time = when & ~late & COMPLETE
        if self.early:
            self.early.fired(when & ~late & ~COMPLETE, changes)
            self.early.reset(on_time, changes)
        if self.late:
            self.late.fired(when & late, changes)
        changes.set(self.name, on_time, pl.lit(True))
        return pl.lit(False) if self.late else on_time

    def moved(self, when: pl.Expr, changes: Changes) -> None:
        # A session that grew beyond the watermark is early again. A session of late rows starts late.
        changes.set(self.name, when, self._born_late)
        for part in (self.early, self.late):
            if part:
                part.moved(when, changes)

    def reset(self, when: pl.Expr, changes: Changes) -> None:
        changes.set(self.name, when, pl.lit(False))
        for part in (self.early, self.late):
            if part:
                part.reset(when, changes)


@with_option_hints
def after_watermark(
    *, early: Trigger | str | timedelta | None = None, late: Trigger | str | timedelta | None = None
) -> AfterWatermark:
    """When the watermark passes the end of the window: the on-time pane. ``early`` and ``late`` repeat.

    A duration is short for ``ev.every``, as in ``.emit``.

    >>> from eventide.triggers import on_update
    >>> after_watermark(early="10 seconds", late=on_update()).describe()
    'when the watermark passes the end; early: repeatedly (10s of ...); late: each time rows join'
    """
    return AfterWatermark(_part("early", early), _part("late", late))


def _part(name: str, when: Trigger | str | timedelta | None) -> Trigger | None:
    if isinstance(when, (str, timedelta, int, float)):
        duration(when, what=f"{name} of after_watermark()")  # names the argument in the message
        return every(when)
    if when is not None and not hasattr(when, "compile"):
        raise not_a_trigger(f"after_watermark({name}=…)", when)
    return when

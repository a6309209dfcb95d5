"""One trigger, run bare: a frame with one row per history, stepped as ``operators/emission.py`` steps panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import polars as pl

import eventide as ev
from eventide.triggers import Trigger
from eventide.triggers.combinators import AfterProcessingTime
from eventide.triggers.trigger import ADDED, COMPLETE, WAS_COMPLETE, Changes

FINISHED, FIRES, PENDING = "__finished", "__fires", "__pending"


@dataclass(frozen=True)
class Event:
    """One bundle as a pane sees it."""

    rows: int
    complete: bool
    now: int


def histories(length: int = 4) -> list[tuple[Event, ...]]:
    """Rows or none in each bundle, and the watermark passing at any time or not at all; 10 µs between bundles."""
    return [
        tuple(Event(rows, i >= end, 10 * i + 3) for i, rows in enumerate(added))
        for added in product((0, 1, 2), repeat=length)
        for end in range(length + 1)
        if added[0]
    ]


HISTORIES = histories()


class Bench:
    """The trigger's state in all histories at once, and what has happened so far."""

    def __init__(self, trigger: Trigger, many: Sequence[tuple[Event, ...]] = HISTORIES) -> None:
        self.compiled = trigger.compile("t")
        self.columns = self.compiled.columns()
        self.histories = many
        nothing = {FINISHED: False, PENDING: 0, "__was_complete": False}
        self.frame = pl.select(pl.repeat(0, len(many)).alias("__i")).with_columns(
            pl.lit(value).alias(name) for name, value in nothing.items()
        )
        self.frame = self.frame.with_columns(
            column.start.cast(column.dtype).alias(column.name) for column in self.columns
        )

    def step(self, i: int) -> pl.DataFrame:
        """Bundle ``i`` of every history. Gives where it fired and where the trigger is finished."""
        events = [history[i] for history in self.histories]
        was = self.frame["__complete"] if i else pl.repeat(False, len(events), eager=True)
        self.frame = self.frame.with_columns(
            was.alias("__was_complete"),
            pl.Series("__added", [e.rows for e in events]),
            pl.Series("__complete", [e.complete for e in events]),
            pl.Series("__now", [e.now for e in events]),
        )
        add, after = Changes(), Changes()
        self.compiled.add(~pl.col(FINISHED), add)
        self.frame = self.frame.with_columns(*add.expressions(), pl.col(PENDING) + ADDED)
        news = (pl.col(PENDING) > 0) | (COMPLETE & ~WAS_COMPLETE)
        self.frame = self.frame.with_columns((self.compiled.fires() & ~pl.col(FINISHED) & news).alias(FIRES))
        done = self.compiled.fired(pl.col(FIRES), after)
        after.set(FINISHED, done & pl.col(FIRES), pl.lit(True))
        after.set(PENDING, pl.col(FIRES), pl.lit(0))
        self.frame = self.frame.with_columns(after.expressions())
        return self.frame.select(FIRES, FINISHED, COMPLETE)

    def run(self) -> list[pl.DataFrame]:
        """All bundles."""
        return [self.step(i) for i in range(len(self.histories[0]))]

    def reset(self, where: bool) -> pl.DataFrame:
        """The trigger's own columns after a reset of all panes, or of none."""
        changes = Changes()
        self.compiled.reset(pl.lit(where), changes)
        return self.frame.with_columns(changes.expressions()).select(column.name for column in self.columns)

    def state(self) -> pl.DataFrame:
        """The trigger's own columns."""
        return self.frame.select(column.name for column in self.columns)


@cache
def ran(trigger: Trigger) -> tuple[Bench, list[pl.DataFrame]]:
    """A bench after all histories, and what happened on it. Not to be changed."""
    bench = Bench(trigger)
    return bench, bench.run()


LEAVES = [
    ev.after_count(1),
    ev.after_count(2),
    ev.after_processing_time("10us"),
    AfterProcessingTime(10, aligned=True),
    ev.after_watermark(),
    ev.never(),
]
PAIRS = list(product(LEAVES[1:], repeat=2))
TRIGGERS: list[Trigger] = [
    *LEAVES,
    ev.on_update(),
    ev.every("20us"),
    *(ev.repeatedly(trigger) for trigger in LEAVES),
    *(ev.after_watermark(early=trigger) for trigger in LEAVES),
    *(ev.after_watermark(late=trigger) for trigger in LEAVES),
    *(ev.after_watermark(early=first, late=other) for first, other in PAIRS),
    *(ev.any_of(first, other) for first, other in PAIRS),
    *(ev.all_of(first, other) for first, other in PAIRS),
    *(ev.in_order(first, other) for first, other in PAIRS),
    *(ev.or_finally(ev.on_update(), trigger) for trigger in LEAVES),
    *(ev.repeatedly(ev.in_order(first, other)) for first, other in PAIRS[::5]),
    *(ev.repeatedly(ev.all_of(first, other)) for first, other in PAIRS[::5]),
    *(ev.in_order(ev.any_of(first, other), ev.on_update()) for first, other in PAIRS[::7]),
]

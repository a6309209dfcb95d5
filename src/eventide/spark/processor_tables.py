"""The state and the timers of a processor, as a user named their columns."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from eventide.plan.process_plan import ProcessPlan
from eventide.processors.timers import AT, CLOCK, TIMER

_INSTANT = pl.Datetime("us", "UTC")


def processor_tables(plan: ProcessPlan, frames: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the state by key, and the timers by time: key columns, ``timer``, ``at`` and ``clock``.

    ``frames`` are what ``Processing.scan`` gives for each bucket.
    """
    tables = list(frames)
    state = [frame.select(*plan.key, *plan.state) for frame in tables if TIMER not in frame.columns]
    timers = [frame.select(*plan.key, TIMER, AT, CLOCK) for frame in tables if TIMER in frame.columns]
    return _sorted_state(plan, state), _sorted_timers(plan, timers)


def _sorted_state(plan: ProcessPlan, frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=[*plan.key, *plan.state])
    state = pl.concat(frames)
    return state.sort(*plan.key, nulls_last=True) if plan.key else state


def _sorted_timers(plan: ProcessPlan, frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema=[*plan.key, TIMER, AT, CLOCK])
    return pl.concat(frames).with_columns(pl.col(AT).cast(_INSTANT)).sort(AT, TIMER, *plan.key, nulls_last=True)

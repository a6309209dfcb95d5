"""Deadlines: the batch times at which something can happen without rows, so that hosts need not poll.

Idleness has deadlines (see ``InputTracker.next_deadline``), and so have panes and timers on the batch clock. A
watermark that follows the clock at a distance (``lags``) turns the event times at which windows and timers are due into
deadlines, too. Before the deadline a step without rows emits nothing; at the deadline it may.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventide.plan.plan import Plan
from eventide.state.operator_state import State
from eventide.state.pane_table import PaneTable
from eventide.time import MAX, MIN, earliest

CLOCK_STEP = 1_000_000
"""Where every move of a watermark that follows the clock matters, it moves in steps of a second."""


def deadline(
    state: State, lags: frozenset[int], *, clocks: Iterable[int | None] = (), dues: Iterable[int | None] = ()
) -> int | None:
    """The next deadline of an operator.

    ``clocks`` are batch times at which its store has something to do, ``dues`` event times. A watermark that crosses
    a due time because time passes is by one of ``lags`` behind the clock in that step.
    """
    if state.watermark == MAX:  # the stream has ended
        return None
    times = [state.tracker.next_deadline(), *clocks]
    times += [due + lag for due in dues if due is not None and due < MAX for lag in lags]
    # What was due at the time of the last batch has been looked at.
    return earliest(time for time in times if time is None or time > state.now or state.now == MIN)


def clock_lags(plan: Plan) -> frozenset[int]:
    """The distances at which watermarks of a plan's inputs follow the clock."""
    delays = [edge.watermark.generator.clock_delay for edge in plan.edges]
    return frozenset(delay for delay in delays if delay is not None)


def next_clock(tables: Iterable[Any], state: State) -> int | None:
    """The first batch time at which a pane of these tables is due."""
    return earliest(table.next_clock(state.now) for table in tables if isinstance(table, PaneTable))

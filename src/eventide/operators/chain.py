"""A chain of operators as one step: the panes of each operator are the rows of the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from eventide.operators.deadlines import clock_lags
from eventide.operators.operator import Output, Stamp, StreamOperator
from eventide.state.operator_state import State
from eventide.time import MIN, earliest
from eventide.watermarks import Note


@dataclass(frozen=True)
class ChainStep:
    """The new state and the output of each operator, in the order of the chain."""

    states: tuple[State, ...]
    outputs: tuple[Output, ...]


class Chain:
    """The operators of a query that share one process. A single pipeline is a chain of one.

    The output watermark of an operator is the watermark of the next, so a bundle passes the whole chain in one step.
    """

    def __init__(self, operators: Sequence[StreamOperator]) -> None:
        self.operators = tuple(operators)

    def initial(self) -> tuple[State, ...]:
        """Return the states before the first bundle."""
        return tuple(operator.initial() for operator in self.operators)

    def step(
        self, states: Sequence[State], stamps: Sequence[Stamp], now: int, *, notes: Sequence[Note] = ()
    ) -> ChainStep:
        """Apply the stamps of a bundle. ``notes`` are watermarks from outside, for the first operator."""
        now = max(now, max((state.now for state in states), default=MIN))
        new_states: list[State] = []
        outputs: list[Output] = []
        for operator, state in zip(self.operators, states, strict=True):
            if outputs:
                panes = _as_rows(outputs[-1].panes, operator)
                stamps = [operator.stamp(panes, now, state.watermark)]
                notes = outputs[-1].notes_for(operator.plan.watermark.options.watermark_key)
            elif not stamps:
                stamps = [operator.stamp(operator.no_rows(), now, state.watermark)]
            step = operator.apply(state, stamps, now, notes=notes)
            new_states.append(step.state)
            outputs.append(step.output)
        return ChainStep(tuple(new_states), tuple(outputs))

    def next_deadline(self, states: Sequence[State]) -> int | None:
        """The earliest batch time at which something can happen without rows; MIN: a first batch starts the clocks."""
        lags: frozenset[int] = frozenset()
        times = []
        for operator, state in zip(self.operators, states, strict=True):
            times.append(operator.next_deadline(state, lags))
            lags = operator.lags(lags)
        return earliest(times)

    def moves_with_clock(self, *, followed: bool = False) -> bool:
        """Whether a watermark follows the clock and every move of it matters, so that there is always a next deadline.

        ``followed``: something outside the chain uses the output watermark.
        """
        lags: frozenset[int] = frozenset()
        for operator in self.operators:
            if operator.hears_time and lags | clock_lags(operator.plan):
                return True
            lags = operator.lags(lags)
        return followed and bool(lags)


def _as_rows(panes: pl.DataFrame, operator: StreamOperator) -> pl.DataFrame:
    """Panes in the types that the next operator was bound to: enums are text there, as everywhere outside."""
    schema = operator.schemas[0]
    return panes if dict(panes.schema) == schema else panes.cast(pl.Schema(schema))

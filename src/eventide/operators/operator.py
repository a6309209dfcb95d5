"""What hosts know of an operator: any kind of plan, bound to the columns of its inputs.

A bundle's rows are stamped, input by input and perhaps in several tasks, and then absorbed together. Stamps need no
state; absorbing is a pure step from one state to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from eventide.errors import joins as errors
from eventide.operators.bundle import Bundle, Stamp, Step
from eventide.operators.saving import State
from eventide.state.paging import Ledger, Pages
from eventide.time import MAX
from eventide.watermarks import InputEnd, InputWatermark, Note, Watermark


class StreamOperator(Protocol):
    """A plan bound to the columns of its inputs."""

    plan: Any
    schemas: tuple[dict[str, pl.DataType], ...]  # of the rows of each input

    @property
    def judges_when_stamping(self) -> bool:
        """Whether a stamp depends on the watermark that stands when the bundle begins."""
        ...

    @property
    def state_facts(self) -> Mapping[str, str]:
        """What a state in pages depends on, in words."""
        ...

    def no_rows(self, edge: int = 0) -> pl.DataFrame:
        """A bundle without rows."""
        ...

    def reads(self, edge: int = 0) -> set[str]:
        """The columns of an input's rows that the plan looks at."""
        ...

    def letter(self, reason: str, detail: str, edge: int = 0) -> pl.DataFrame:
        """A dead letter without a row, for a part of an input that cannot be read."""
        ...

    def output_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns of panes, late rows and dead letters."""
        ...

    def initial(self) -> State:
        """Nothing seen yet."""
        ...

    def step(self, state: State, bundle: Bundle) -> Step[State]:
        """One bundle, stamped and absorbed at once."""
        ...

    def stamp(self, rows: pl.DataFrame, now: int, watermark: int, edge: int = 0) -> Stamp:
        """Make of rows what can be made without state."""
        ...

    def absorb(
        self,
        state: State,
        stamps: Sequence[Stamp],
        now: int,
        *,
        notes: Sequence[Note] = (),
        polled: bool = True,
    ) -> Step[State]:
        """A bundle's stamps, in order."""
        ...

    @property
    def hears_time(self) -> bool:
        """Whether every move of a watermark matters to it, not only one that reaches a time it waits for."""
        ...

    def next_deadline(self, state: State, lags: frozenset[int] = frozenset()) -> int | None:
        """The earliest batch time at which something can happen without rows; None: nothing can.

        MIN: the first batch starts the clocks. ``lags`` are the distances at which the operator before this one lets
        its promises follow the clock.
        """
        ...

    def lags(self, before: frozenset[int] = frozenset()) -> frozenset[int]:
        """The distances at which the operator's own promises follow the clock."""
        ...

    def save(self, state: State) -> bytes:
        """The state as bytes."""
        ...

    def write(self, state: State, pages: Pages, ledger: Ledger | None) -> tuple[bytes, Ledger]:
        """Put what is new since ``ledger`` into pages; gives the head and the new ledger."""
        ...

    def read(self, head: bytes, pages: Pages, near: tuple[State, Ledger] | None = None) -> tuple[State, Ledger]:
        """The state that was written."""
        ...

    def let_go(self, state: State, ledger: Ledger, *, keep: int = 0) -> State:
        """The state with about ``keep`` bytes in memory of what can be fetched again."""
        ...

    def sizes(self, state: State, ledger: Ledger | None = None) -> dict[str, int]:
        """How large the state is."""
        ...

    def scan(self, state: State) -> list[pl.DataFrame]:
        """What rests in state, for inspection."""
        ...


def noted(plan: Any, to: int | str | None, time: int) -> Note:
    """A watermark from outside: for a watermark key, for an input by its name, or (None) for what time goes by."""
    if isinstance(to, str):
        if to not in (names := [one.name for one in plan.inputs]):
            raise errors.no_such_input(to, names)
        return InputWatermark(to, time)
    key = plan.watermark.options.watermark_key
    if to not in (None, *(keys := [one.watermark.options.watermark_key for one in plan.edges])):
        raise errors.no_such_key(to, keys)
    return Watermark(key if to is None else to, time)


def ended(plan: Any, name: str | None) -> Note:
    """The end of an input: of the only one, or of one of several by its name."""
    names = [one.name for one in plan.inputs]
    if name not in (names or [None]):
        raise errors.no_such_input(name, names)
    return Watermark(plan.watermark.options.watermark_key, MAX) if name is None else InputEnd(name)


def drained(plan: Any) -> list[Watermark]:
    """The watermarks that end the streams of all inputs."""
    keys = dict.fromkeys(one.watermark.options.watermark_key for one in plan.edges)
    return [Watermark(key, MAX) for key in keys]

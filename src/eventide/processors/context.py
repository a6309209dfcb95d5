"""What a processor can do in a bundle, and what it has done when the bundle ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from eventide.errors import processing as errors
from eventide.processors.changes import Keys
from eventide.processors.fitting import fitted
from eventide.processors.keyed import KeyedState
from eventide.processors.timers import Timers

ROW = "__row"  # the number of a row in the frame that process() was given


@dataclass(frozen=True)
class Rejected:
    """Rows of one input that the processor has refused, by their numbers, and why."""

    edge: str
    rows: list[int]
    why: list[str]


@dataclass(frozen=True)
class At:
    """Where a row by row processor stands: the time of the row, whether it is late, and the timers that it asks for."""

    time: int
    late: bool
    timers: list[tuple[str, bool, int | None]] = field(default_factory=list)


class Context:
    """A bundle as the processor sees it. Times are microseconds since the epoch, UTC."""

    def __init__(
        self,
        keys: Keys,
        state: KeyedState,
        timers: Timers,
        *,
        output: Mapping[str, pl.DataType],
        now: int,
        watermark: int,
        watermarks: Mapping[str, int],
    ) -> None:
        self.keys = keys
        self.who = keys.who
        self.state = state
        self.timers = timers
        self.output = output
        self.now = now  # the time of the batch
        self.watermark = watermark  # what all inputs have reached
        self.watermarks = watermarks  # what each has reached, by name
        self.emitted: list[pl.DataFrame] = []
        self.rejected: list[Rejected] = []
        self.at = At(now, False)
        self._edge: str | None = None
        self._open: set[int] = set()

    def emit(self, rows: pl.DataFrame) -> None:
        """Give rows on: the columns of ``output=``, in any order, and no others."""
        found = fitted(rows, self.output, who=self.who, call="emit()")
        unknown = [name for name in rows.columns if name not in self.output]
        if unknown:
            raise errors.columns_unknown(self.who, "emit()", unknown, self.output)
        if found.height:
            self.emitted.append(found)

    def dead(self, rows: pl.DataFrame, why: str | Sequence[str]) -> None:
        """Rows of the frame that ``process`` was given become dead letters, with ``why`` as the detail."""
        if self._edge is None:
            raise errors.dead_outside(self.who)
        if not isinstance(rows, pl.DataFrame):
            raise errors.not_a_frame(self.who, "dead()", rows)
        numbers = rows[ROW].to_list() if ROW in rows.columns else []
        if len(numbers) != rows.height or len(set(numbers)) != len(numbers) or not self._open.issuperset(numbers):
            raise errors.not_given(self.who)
        self._open -= set(numbers)
        self.rejected.append(Rejected(self._edge, numbers, [why] * len(numbers) if isinstance(why, str) else list(why)))

    def given(self, edge: str | None, rows: int = 0) -> None:
        """These rows of an input are with the processor now; none: it is done with them."""
        self._edge, self._open = edge, set(range(rows))

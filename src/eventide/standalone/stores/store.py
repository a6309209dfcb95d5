"""What every store promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.state.layouts import Layout
from eventide.time import MAX, MIN


@dataclass(frozen=True)
class Range:
    """Positions in ``[start, end)``. Offsets sharpen both ends.

    With ``start_offset``, messages at ``start`` itself count from that offset on; with ``end_offset``, those at ``end``
    count up to that offset, which is included.
    """

    start: int = MIN
    end: int = MAX
    start_offset: int | None = None
    end_offset: int | None = None

    def holds(self) -> pl.Expr:
        """Whether a message lies in it."""
        at, offset = pl.col(c.AT), pl.col(s.OFFSET)
        after = at >= self.start
        if self.start_offset is not None:
            after = (at > self.start) | ((at == self.start) & (offset >= self.start_offset))
        before = at < self.end
        if self.end_offset is not None:
            before = before | ((at == self.end) & (offset <= self.end_offset))
        return after & before


EVERYWHERE = Range()


class Messages(Protocol):
    """Rows as they came, each exactly once, in the order of the layout's key.

    A message has the columns ``__origin``, ``__offset``, ``__at`` (its time, or its number among the rows),
    ``__session`` and ``__equal`` beside the user's. Its origin and offset name it.
    """

    @property
    def layout(self) -> Layout:
        """How messages are keyed."""
        ...

    def put(self, messages: pl.DataFrame) -> int:
        """Add those that are not there yet and have not expired, and say how many that were."""
        ...

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        """The messages in a range, by position and offset; None before the first was put.

        Where the join key stands first, a read of one join key also deletes what has expired of it.
        """
        ...

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        """The messages with these offsets."""
        ...

    def expire(self, before: int) -> int:
        """Drop messages before a position, and say how many went now. They are never read again, gone or not."""
        ...

    def retire(self, ranges: pl.DataFrame) -> int:
        """Drop what lies in ``[__start, __end)`` of a ``__session``, for each row, and say how many went."""
        ...

    def count(self) -> int:
        """How many messages are there, with those that have expired but are not gone yet."""
        ...

    def bytes(self) -> int:
        """How much room their content takes."""
        ...


class Windows(Protocol):
    """What is known of each window, in the order in which windows expire.

    A window is named by ``__session``, ``__start`` and ``__end``; it has the first and the last offset, times, and what
    its operator keeps: partial results, policies. Sessions lie together, by their start; all other windows by start.
    """

    def put(self, windows: pl.DataFrame) -> None:
        """Add windows, or replace what is known of them."""
        ...

    def delete(self, windows: pl.DataFrame) -> None:
        """Forget these windows."""
        ...

    def all(self) -> pl.DataFrame | None:
        """Every window; None before the first was put."""
        ...

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        """The windows that share a position with ``[start, end)``."""
        ...


class Store(Protocol):
    """Messages, windows, outputs that were not taken yet, and the operator's own facts: all of it, or nothing."""

    @property
    def messages(self) -> Messages:
        """The messages."""
        ...

    @property
    def windows(self) -> Windows:
        """The windows."""
        ...

    def state(self) -> bytes | None:
        """What was given to the last commit."""
        ...

    def keep(self, number: int, output: pl.DataFrame) -> None:
        """Keep an output until it is taken."""
        ...

    def drop(self, up_to: int) -> None:
        """Outputs up to this number were taken."""
        ...

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        """The outputs that were not taken yet, by number."""
        ...

    def commit(self, state: Callable[[], bytes]) -> None:
        """Make everything since the last commit durable, in one piece. ``state`` is asked only if it is kept."""
        ...

    def close(self) -> None:
        """Let go. What was not committed is forgotten."""
        ...

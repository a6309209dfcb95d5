"""The contract of stores for messages, windows and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from eventide import _columns as c
from eventide.state.message_layout import MessageLayout
from eventide.time import MAX, MIN


@dataclass(frozen=True)
class Range:
    """Positions in ``[start, end)``. Offsets refine both ends.

    With ``start_offset``, messages at ``start`` itself count from that offset on; with ``end_offset``, those at ``end``
    count up to that offset, which is included.
    """

    start: int = MIN
    end: int = MAX
    start_offset: int | None = None
    end_offset: int | None = None

    def holds(self) -> pl.Expr:
        """Return whether a message is in the range."""
        at, offset = pl.col(c.AT), pl.col(c.OFFSET)
        after = at >= self.start
        if self.start_offset is not None:
            after = (at > self.start) | ((at == self.start) & (offset >= self.start_offset))
        before = at < self.end
        if self.end_offset is not None:
            before = before | ((at == self.end) & (offset <= self.end_offset))
        return after & before

    def above(self, floor: int) -> Range:
        """Return the part of the range at or above a retention floor: messages before it have expired.

        >>> Range(10, 90, start_offset=3).above(20)
        Range(start=20, end=90, start_offset=None, end_offset=None)
        """
        return self if self.start >= floor else replace(self, start=floor, start_offset=None)


EVERYWHERE = Range()


class MessageStore(Protocol):
    """Original rows, each exactly once, in the order of the layout's key.

    In addition to the user's columns, a message has ``__origin``, ``__offset``, ``__at`` (its time or row number),
    ``__session`` and ``__equal``. Origin and offset identify it.
    """

    @property
    def layout(self) -> MessageLayout:
        """How messages are keyed."""
        ...

    def put(self, messages: pl.DataFrame) -> int:
        """Add messages that are neither stored nor expired, and return their number."""
        ...

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        """Return the messages in a range, by position and offset; None before the first was put.

        If the join key is the first level, a read of one join key also deletes its expired messages.
        """
        ...

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        """Return the messages with these offsets."""
        ...

    def expire(self, before: int) -> int:
        """Delete messages before a position, and return how many. Those deleted lazily are not read any more."""
        ...

    def retire(self, ranges: pl.DataFrame) -> int:
        """Delete the messages in ``[__start, __end)`` of ``__session`` for each row, and return how many."""
        ...

    def count(self) -> int:
        """Return the number of messages, including expired ones that are not deleted yet."""
        ...

    def bytes(self) -> int:
        """Return the size of their content."""
        ...


class Windows(Protocol):
    """Windows, in the order in which they expire.

    ``__session``, ``__start`` and ``__end`` identify a window. It has its first and last offset, times, contents and
    the state of its policies. Sessions of a key are adjacent; all other windows are ordered by start.
    """

    def put(self, windows: pl.DataFrame) -> None:
        """Add windows, or replace them."""
        ...

    def delete(self, windows: pl.DataFrame) -> None:
        """Delete these windows."""
        ...

    def all(self) -> pl.DataFrame | None:
        """Return every window; None before the first was put."""
        ...

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        """Return the windows that overlap ``[start, end)``."""
        ...


class Store(Protocol):
    """Messages, windows, pending outputs, and the state of the operator. A commit covers all of them."""

    @property
    def messages(self) -> MessageStore:
        """The messages."""
        ...

    @property
    def windows(self) -> Windows:
        """The windows."""
        ...

    def state(self) -> bytes | None:
        """Return the state of the last commit."""
        ...

    def keep(self, number: int, output: pl.DataFrame) -> None:
        """Store an output until it is accepted."""
        ...

    def drop(self, up_to: int) -> None:
        """Delete the outputs up to this number."""
        ...

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        """Return the pending outputs, by number."""
        ...

    def commit(self, state: Callable[[], bytes]) -> None:
        """Make all changes since the last commit durable atomically. ``state`` is called only if it is stored."""
        ...

    def close(self) -> None:
        """Close the store. Uncommitted changes are lost."""
        ...

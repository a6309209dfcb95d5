"""A segment in the hands of a reader."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from eventide.marks.stored_events import stored_events
from eventide.marks.streams import Stream


@dataclass
class Held:
    """How far a reader has come with a segment, and what of it is decoded already."""

    segment: int
    position: int
    committed: int = -1
    leaving: bool = False
    """It is to be given up after the next commit: nothing more is read of it."""
    ahead: pa.Table | None = None

    def __post_init__(self) -> None:
        self.committed = self.position if self.committed < 0 else self.committed

    @property
    def dirty(self) -> bool:
        """Whether more was read than committed."""
        return self.position != self.committed

    def upcoming(self, stream: Stream, rows: int) -> pa.Table | None:
        """The next events, at most ``rows``, which count as read when ``pass_by`` says so. What a blob has beyond them
        is kept, not decoded again.
        """
        if self.ahead is None or not len(self.ahead):
            self.ahead = self._fetched(stream, rows)
        return None if self.ahead is None else self.ahead.slice(0, rows)

    def pass_by(self, rows: int) -> None:
        """So many of the upcoming events were read."""
        if self.ahead is not None:
            self.ahead = self.ahead.slice(rows)
        self.position += rows

    def _fetched(self, stream: Stream, rows: int) -> pa.Table | None:
        blobs = stream.store.read(stream.name, self.segment, self.position, rows=rows)
        if not blobs:
            return None
        table = stored_events(stream.name, self.segment, blobs)
        return table.slice(self.position - blobs[0].offset)

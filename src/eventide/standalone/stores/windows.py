"""Windows in memory: one frame, in the order in which they expire."""

from __future__ import annotations

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s

NAME = [s.SESSION, c.START, c.END]


class MemoryWindows:
    """There are few windows beside many messages, so all of them are at hand."""

    def __init__(self, *, by_session: bool) -> None:
        self._order = [s.SESSION, c.START, c.END] if by_session else [c.START, c.END, s.SESSION]
        self._frame: pl.DataFrame | None = None

    def put(self, windows: pl.DataFrame) -> None:
        """Add windows, or replace what is known of them."""
        frame = windows.lazy()
        if self._frame is not None:
            others = self._frame.lazy().join(frame, on=NAME, how="anti")
            frame = pl.concat([others, frame.select(self._frame.columns)])
        self._frame = frame.sort(self._order).collect(engine="in-memory")

    def delete(self, windows: pl.DataFrame) -> None:
        """Forget these windows."""
        if self._frame is not None:
            self._frame = self._frame.join(windows, on=NAME, how="anti", maintain_order="left")

    def all(self) -> pl.DataFrame | None:
        """Every window."""
        return self._frame

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        """The windows that share a position with a range."""
        if self._frame is None:
            return None
        wanted = (pl.col(c.START) < end) & (pl.col(c.END) > start)
        return self._frame.filter(wanted if session is None else wanted & (pl.col(s.SESSION) == session))

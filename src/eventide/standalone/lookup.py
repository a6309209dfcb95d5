"""Lookups of stored windows and messages, by time, offset and key."""

from __future__ import annotations

import polars as pl

from eventide import _columns as c
from eventide.errors import PlanError, shown
from eventide.kernels.keys import encoded_key
from eventide.standalone.assignment import SessionAssigner
from eventide.standalone.config import OperatorConfig
from eventide.standalone.intake import Instant
from eventide.standalone.stores import Range, Store
from eventide.time import MAX, MIN, instant


class Lookup:
    """Finds the windows and messages of an operator whose messages have these columns."""

    def __init__(self, config: OperatorConfig, store: Store, schema: pl.Schema, no_windows: pl.DataFrame) -> None:
        self._config = config
        self._store = store
        self._schema = schema
        self._no_windows = no_windows

    def windows(self, start: Instant | None, end: Instant | None, key: object) -> pl.DataFrame:
        """Return the windows that overlap ``[start, end)``: instants, or offsets where windows are counted in rows."""
        session = None if key is None else self._window_key(key)
        return self._overlapping(self._position(start, MIN), self._position(end, MAX), session)

    def messages(
        self,
        start: Instant | None,
        end: Instant | None,
        *,
        key: object,
        on: object,
        start_offset: int | None,
        end_offset: int | None,
    ) -> pl.DataFrame | None:
        """Return the messages in a range of time and offsets; None: there are none."""
        if not self._config.roles.window_key:
            key, on = None, on if key is None else key
        session = None if key is None else self._window_key(key)
        equal = None if on is None else self._join_key(on)
        first, last = self._position(start, MIN), self._position(end, MAX)
        # Without a time, an offset bounds the messages by itself.
        lower = start_offset if start is None and start_offset is not None else MIN
        upper = end_offset if end is None and end_offset is not None else MAX
        if self._config.axis_config.by_row:
            lower, upper = max(lower, first), min(upper, last if end is None else last - 1)
            within = self._range_of_offsets(lower, upper)
        else:
            offsets = None if start is None else start_offset, None if end is None else end_offset
            within = Range(first, last, *offsets)
        if isinstance(on, (list, tuple)) and None in on:  # null equals nothing
            return None
        messages = self._store.messages.read(within, session=session, equal=equal)
        if messages is None or (lower, upper) == (MIN, MAX):
            return messages
        return messages.filter(pl.col(c.OFFSET).is_between(lower, upper))

    def _overlapping(self, start: int, end: int, session: str | None = None) -> pl.DataFrame:
        store = self._store.windows
        if not self._config.axis_config.by_row:
            windows = store.overlapping(start, end, session=session)
            return self._no_windows if windows is None else windows
        windows = store.overlapping(MIN, MAX, session=session)
        if windows is None:
            return self._no_windows
        windows = windows.filter((pl.col(c.START_OFFSET) < end) & (pl.col(c.LAST_OFFSET) >= start))
        if isinstance(self._config.assigner, SessionAssigner):
            return windows
        return windows.sort(c.START_OFFSET, c.START, c.END, maintain_order=True)

    def _range_of_offsets(self, lower: int, upper: int) -> Range:
        """Return the row numbers of messages with these offsets. Only messages of windows are stored."""
        if (lower, upper) == (MIN, MAX):
            return Range()
        windows = self._overlapping(lower, min(upper, MAX - 1) + 1)
        first, last = windows[c.START].min(), windows[c.END].max()
        return Range(first, last) if isinstance(first, int) and isinstance(last, int) else Range(MIN, MIN)

    def _window_key(self, key: object) -> str:
        if not self._config.roles.window_key:
            raise PlanError("key=…: the windows of this operator have no key. Leave key= out.")
        return encoded_key(key, self._config.roles.window_key, self._schema)

    def _join_key(self, key: object) -> str:
        if not self._config.roles.join_key:
            raise PlanError("key=…: this operator was created without key=…, so it cannot look messages up by it.")
        return encoded_key(key, self._config.roles.join_key, self._schema)

    def _position(self, value: Instant | None, default: int) -> int:
        if value is None:
            return default
        if self._config.axis_config.by_row and not isinstance(value, int):
            raise PlanError(f"Windows counted in rows are found by offset: {shown(value)} is no integer.")
        return value if isinstance(value, int) else instant(value)

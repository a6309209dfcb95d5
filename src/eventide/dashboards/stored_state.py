"""The largest keys of a query, and the windows that ``.limit_state`` closes next: read from its checkpoint on demand.

No batch and no live view reads state. One thread of a server does at a time, for a page whose reader asks for it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eventide.dashboards.watched_queries import WatchedQuery
from eventide.errors import DataError
from eventide.time import instant

if TYPE_CHECKING:
    import polars as pl

    from eventide.spark.inspection import OperatorState

_MAX_BYTES = 64 << 20  # of pages, compressed; a larger state is read by eventide inspect only
_MAX_TEXT = 200  # characters of a key


def unreadable(query: WatchedQuery, record: Mapping[str, Any]) -> str | None:
    """Return why the state of a query cannot be read without Spark; None if it can. ``record`` is its last start."""
    if query.checkpoint is None:
        return "The largest keys are shown for a query whose checkpoint is on this machine."
    if record.get("state") == "executors":
        command = f"eventide inspect --keys {query.checkpoint}"
        return f"State on the executors is read with Spark: {command} shows the largest keys."
    return None


class StoredStateReader:
    """Reads the state of one query at a time."""

    def __init__(self) -> None:
        self._reading = threading.Lock()

    def read(self, query: WatchedQuery) -> dict[str, Any]:
        """Return the largest keys of each operator, and the windows that are closed next, as JSON."""
        if (reason := unreadable(query, query.record())) is not None:
            raise DataError(reason)
        if not self._reading.acquire(blocking=False):
            raise DataError("State is being read already. Try again when that has ended.")
        try:
            from eventide.spark.inspection import inspect_driver
            from eventide.spark.storage import LocalStorage

            assert query.checkpoint is not None
            operators = inspect_driver(LocalStorage(query.checkpoint), keys=True, max_bytes=_MAX_BYTES)
        finally:
            self._reading.release()
        if operators is None:
            raise DataError("The query has not finished a batch, so there is no state.")
        return {"operators": [_as_json(operator) for operator in operators]}


def _as_json(operator: OperatorState) -> dict[str, Any]:
    assert operator.keys is not None  # they were asked for
    closes_next = operator.keys.closes_next
    return {
        "operator": operator.depth,
        "at": instant(operator.at),
        "keys": operator.keys.count,
        "largest": _rows(operator.keys.largest),
        "closes_next": None if closes_next is None else _rows(closes_next),
    }


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows with their keys and bounds as text."""
    from eventide.panes import WINDOW
    from eventide.spark.key_sizes import bound_text, key_text

    rows = frame.to_dicts()
    for row in rows:
        text = key_text(row["key"])
        row["key"] = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
        row |= {name: bound_text(row[name]) for name in WINDOW if name in row}
    return rows

"""Bounds in time and rows, as users say them: ``{"time": "1 hour", "rows": 1000}``."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors import standalone as errors
from eventide.time import duration


def time_and_rows(option: str, given: Mapping[str, object] | None, *, zero: bool) -> tuple[int | None, int | None]:
    """The bounds that are given: microseconds (``zero``: also none of them), and a number of rows.

    >>> time_and_rows("retain", {"time": "1 minute"}, zero=False)
    (60000000, None)
    """
    if given is None:
        return None, None
    if not isinstance(given, Mapping):
        raise errors.bad_bounds(option, given)
    for name in given:
        if name not in ("time", "rows"):
            raise errors.unknown_bound(option, name)
    time, rows = given.get("time"), given.get("rows")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise errors.bad_bounds(option, given)
    return None if time is None else duration(time, what=f"time of {option}", zero=zero), rows

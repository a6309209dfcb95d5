"""Windows on the row axis: counted in rows, not in time. Row numbers start at 1."""

from __future__ import annotations

from typing import Any

from eventide.columns import named
from eventide.errors import windows as errors
from eventide.windows.sessions import Sessions
from eventide.windows.sliding import Sliding
from eventide.windows.tumbling import Tumbling


def rows(size: int, *, every: int | None = None, by: str | None = None, first: int = 1) -> Tumbling | Sliding:
    """Windows of ``size`` rows of a key, a new one ``every`` so many rows (default: ``size``).

    Without ``by``, a key's rows are numbered as they arrive. With it, windows are those of an origin's own offsets:
    a row lies in the windows of its offset, in whatever order rows come and however often they are read again. The
    watermark's ``origin=`` says whose offsets they are, and is part of the panes' key. ``first`` is the first offset
    that an origin has.

    >>> rows(100).describe()
    'every 100 rows'
    >>> rows(100, every=10).describe()
    '100 rows, every 10 rows'
    >>> rows(100, by="offset", first=0).describe()
    "every 100 rows by 'offset' from 0"
    """
    step = size if every is None else every
    for name, value in (("size", size), ("every", step)):
        _check_count(name, value)
    if isinstance(first, bool) or not isinstance(first, int):
        raise errors.not_an_offset(first)
    column = _column("rows()", by)
    if column is None and first != 1:
        raise errors.first_of_nothing(first)
    if step == size:
        return Tumbling(size, first % size, "rows", column, first)
    return Sliding(size, step, first % step, "rows", column, first)


def row_sessions(*, absent: int, by: str | None = None) -> Sessions:
    """A key's session ends when ``absent`` rows of the stream have passed without the key.

    Rows are counted over all keys: in the order in which they arrive or, with ``by``, by the offsets of the key's
    origin.

    >>> row_sessions(absent=5).describe()
    'sessions that end after 5 rows without the key'
    >>> row_sessions(absent=5, by="offset").describe()
    "sessions that end after 5 rows without the key by 'offset'"
    """
    _check_count("absent", absent)
    return Sessions(absent + 1, touching="split", axis="rows", by=_column("row_sessions()", by))


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise errors.not_a_row_count(name, value)


def _column(where: str, offset: Any) -> str | None:
    column = named(offset)
    if column is not None and (not isinstance(column, str) or not column):
        raise errors.not_an_offset_column(where, offset)
    return column

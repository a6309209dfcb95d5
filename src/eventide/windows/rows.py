"""Windows on the row axis: counted in rows, not in time. Row numbers start at 1."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import polars as pl

from eventide._arguments import is_integer
from eventide._column_refs import Column, named
from eventide._hints import with_option_hints
from eventide.errors import PlanError, shown
from eventide.time import duration
from eventide.windows.sessions import Sessions
from eventide.windows.tumbling_sliding import Sliding, Tumbling


@with_option_hints
def rows(
    size: int,
    *,
    every: int | None = None,
    by: Column | None = None,
    first: int = 1,
    timeout: str | timedelta | None = None,
    forget_after: str | timedelta | None = None,
) -> Tumbling | Sliding:
    """Windows of ``size`` rows of a key; a new window starts ``every`` number of rows (default: ``size``).

    Without ``by``, a key's rows are numbered as they arrive. With it, windows are those of an origin's offsets: a
    row belongs to the windows of its offset, in any order of arrival and even if it is read again. The watermark's
    ``origin=`` names the origin, and is part of the panes' key. ``first`` is the first offset
    that an origin has.

    With ``timeout``, a window that is not full is closed when the watermark is this far past its latest row. Its
    content is emitted as its last pane. Later rows of the window are dead letters, ``out_of_retention``.

    The number of rows of a key is stored for as long as the query runs. With ``forget_after``, a key is forgotten when
    the watermark is this far past its last row: its open windows are emitted and closed, and its next row is number 1.
    Windows ``by`` offset are forgotten with their origin (``forget_after=`` of the watermark).

    >>> rows(100, forget_after="30 days").describe()
    'every 100 rows, keys forgotten after 30d'
    >>> rows(100, timeout="1 hour").describe()
    'every 100 rows, closed after 1h'
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
    if not is_integer(first):
        raise PlanError(f"rows(first={shown(first)}): the first offset of an origin is an integer, mostly 0 or 1.")
    column = _column("rows()", by)
    if column is None and first != 1:
        raise PlanError(f"rows(first={first}) needs by=: rows that are numbered as they arrive begin at 1.")
    length = None if forget_after is None else duration(forget_after, what="forget_after of rows()")
    if length is not None and column is not None:
        raise PlanError(
            "rows(by=…, forget_after=…): windows by offset belong to an origin and are forgotten with it. Write "
            "forget_after= in the watermark, as in ev.bounded_delay('1 minute', origin='partition', "
            "idle_timeout='1 hour', "
            "forget_after='30 days')."
        )
    if step == size:
        return Tumbling(size, first % size, "rows", column, first, length, _timeout("rows()", timeout))
    return Sliding(size, step, first % step, "rows", column, first, length, _timeout("rows()", timeout))


@with_option_hints
def row_sessions(*, absent: int, by: Column | None = None, timeout: str | timedelta | None = None) -> Sessions:
    """A key's session ends when ``absent`` rows of the stream have passed without the key.

    Rows are counted over all keys: in the order in which they arrive or, with ``by``, by the offsets of the key's
    origin. With ``timeout``, a session is also closed when the watermark is this far past its latest row.

    >>> row_sessions(absent=5).describe()
    'sessions that end after 5 rows without the key'
    >>> row_sessions(absent=5, by="offset").describe()
    "sessions that end after 5 rows without the key by 'offset'"
    """
    _check_count("absent", absent)
    column, length = _column("row_sessions()", by), _timeout("row_sessions()", timeout)
    return Sessions(absent + 1, touching="split", axis="rows", by=column, timeout=length)


def row_numbers(previous: int | pl.Expr, by: Sequence[str] = ()) -> pl.Expr:
    """Return the numbers of rows that follow ``previous`` rows: over all rows, or for each ``by``.

    >>> pl.DataFrame({"k": ["a", "b", "a"]}).select(row_numbers(10, by=["k"])).to_series().to_list()
    [11, 11, 12]
    """
    number = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    return (number.over(by) if by else number) + previous


def _timeout(where: str, length: str | timedelta | None) -> int | None:
    return None if length is None else duration(length, what=f"timeout of {where}", zero=True)


def not_a_row_count(name: str, value: object) -> PlanError:
    """Return the error about a number of rows that is no positive integer."""
    return PlanError(
        f"{name}={shown(value)} is not a number of rows: it must be an integer of at least 1. "
        "For windows in time use tumbling() or sliding()."
    )


def _check_count(name: str, value: Any) -> None:
    if not is_integer(value, at_least=1):
        raise not_a_row_count(name, value)


def _column(where: str, offset: Any) -> str | None:
    column = named(offset)
    if column is not None and (not isinstance(column, str) or not column):
        raise PlanError(
            f"{where}: by={shown(offset)} is not the name of a column. Name the column of the origin's offsets."
        )
    return column

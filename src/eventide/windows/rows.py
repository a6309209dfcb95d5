"""Windows on the row axis: counted in rows, not in time. Row numbers start at 1."""

from __future__ import annotations

from eventide.errors import windows as errors
from eventide.windows.sessions import Sessions
from eventide.windows.sliding import Sliding
from eventide.windows.tumbling import Tumbling


def rows(size: int, *, every: int | None = None) -> Tumbling | Sliding:
    """Windows of ``size`` rows of a key, a new one ``every`` so many rows (default: ``size``).

    >>> rows(100).describe()
    'every 100 rows'
    >>> rows(100, every=10).describe()
    '100 rows, every 10 rows'
    """
    step = size if every is None else every
    for name, value in (("size", size), ("every", step)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise errors.not_a_row_count(name, value)
    if step == size:
        return Tumbling(size, offset=1 % size, axis="rows")
    return Sliding(size, step, offset=1 % step, axis="rows")


def row_sessions(*, absent: int) -> Sessions:
    """A key's session ends when ``absent`` rows of the stream have passed without the key.

    Rows are counted over all keys, in the order in which they arrive.

    >>> row_sessions(absent=5).describe()
    'sessions that end after 5 rows without the key'
    """
    if isinstance(absent, bool) or not isinstance(absent, int) or absent < 1:
        raise errors.not_a_row_count("absent", absent)
    return Sessions(absent + 1, touching="split", axis="rows")

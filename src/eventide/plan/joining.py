"""``ev.join``: two streams in one pipeline, whose rows meet where they are near in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import polars as pl

from eventide.errors import joins as errors
from eventide.plan.builder import Stream
from eventide.plan.combining import On, keyed
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan, Kept
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import How, Window
from eventide.time import duration
from eventide.windows import Preceding, Tumbling

Bound = str | timedelta | None

_LONGEST = 2**60  # beside an instant, both bounds must fit into 64 bits
_NAMES = ("left", "right")


def join(
    left: Stream,
    right: Stream,
    *,
    within: Bound | tuple[Bound, Bound] = None,
    over: Preceding | Window | None = None,
    on: On | None = None,
    how: How = "inner",
    where: pl.Expr | None = None,
    suffix: str = "_right",
    max_matches: int = 10_000_000,
) -> Pipeline:
    """Each row of the left stream beside each of the right with the same key that is near enough in time.

    ``within=(lo, hi)`` bounds ``right.time - left.time``, both ends included: ``("-1 minute", "1 hour")`` is from a
    minute before the left row to an hour after it. One duration ``d`` is ``(-d, d)``. ``where`` is a further condition,
    an expression of Polars over the columns of the joined row. ``on`` names the columns that must be equal, where they
    are not the streams' keys; nulls equal nothing. With ``how`` also rows without a partner are told, beside nulls,
    once none can come any more. More than ``max_matches`` pairs in one bundle are refused.

    ``over`` looks back instead, from the left row to the right rows before it: ``over=ev.range("2 minutes")`` is
    ``within=("-2 minutes", "0 seconds")``, and ``over=ev.rows(3)`` is the last three right rows of the key that came.

    >>> import eventide as ev, polars as pl
    >>> orders, payments = (ev.stream(time="t", key="order", watermark=ev.bounded_delay("1 minute")) for _ in range(2))
    >>> paid = ev.join(orders, payments, within=("0 seconds", "1 hour"), how="left")
    >>> rows = {
    ...     "left": pl.DataFrame({"t": [0, 5], "order": ["a", "b"]}),
    ...     "right": pl.DataFrame({"t": [7], "order": ["a"]}),
    ... }
    >>> paid.local(rows).panes.rows()
    [('a', 0, 7, 1), ('b', 5, None, 1)]
    """
    if how not in get_args(How):
        raise errors.unknown_how("join", how)
    if where is not None and not isinstance(where, pl.Expr):
        raise errors.bad_where(where)
    if isinstance(max_matches, bool) or not isinstance(max_matches, int) or max_matches < 1:
        raise errors.bad_max_matches(max_matches)
    if (within is None) == (over is None):
        raise errors.within_or_over()
    inputs = keyed("join", {"left": left, "right": right}, on)
    if not inputs[0].key:
        raise errors.no_key("join")
    for name in inputs[0].key:
        if name == "diff":
            raise errors.key_reserved("join", name)
        if name in ("side", *_NAMES):
            raise errors.key_is_a_side(name)
    if over is not None and not isinstance(over, Preceding):
        last = _last(over)
        if "retain" in right._options:
            raise errors.retained_rows_already(_NAMES[RIGHT])
        kept = _kept(left, LEFT, None), Kept(LEFT, None)
        return Pipeline(JoinPlan(inputs, None, None, kept, how, where, suffix, max_matches, last))
    lo, hi = _bounds(within if over is None else (timedelta(microseconds=-over.length), timedelta(0)))
    # A left row at l has partners up to l + hi, a right row at r has them up to r - lo.
    kept = _kept(left, LEFT, hi), _kept(right, RIGHT, None if lo is None else -lo)
    return Pipeline(JoinPlan(inputs, lo, hi, kept, how, where, suffix, max_matches))


def _bounds(within: Any) -> tuple[int | None, int | None]:
    if isinstance(within, str | timedelta):
        most = _length(within)
        if most < 0:
            raise errors.empty_interval(within)
        return -most, most
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise errors.bad_within(within)
    lo, hi = (None if bound is None else _length(bound) for bound in within)
    if lo is not None and hi is not None and lo > hi:
        raise errors.empty_interval(within)
    return lo, hi


def _last(over: Window) -> int:
    if not isinstance(over, Tumbling) or over.axis != "rows":
        raise errors.bad_over(over)
    return over.size


def _length(bound: Bound) -> int:
    length = duration(bound, what="within", zero=True, negative=True)
    if abs(length) > _LONGEST:
        raise errors.interval_too_long(bound)
    return length


def _kept(stream: Stream, edge: int, ahead: int | None) -> Kept:
    """How long rows of a side are kept: as long as the other side may send partners, or as the user has said."""
    retention = stream._options.get("retain")
    if ahead is not None:
        if retention is not None:
            raise errors.retained_already(_NAMES[edge])
        return Kept(1 - edge, ahead)
    if retention is None or retention.time is None:
        raise errors.unbounded(_NAMES[edge])
    if retention.rows is not None or retention.bytes is not None:
        raise errors.retention_by_time_only(_NAMES[edge])
    return Kept(edge, retention.time)

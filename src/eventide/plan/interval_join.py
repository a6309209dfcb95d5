"""``ev.join``: rows of two streams matched by key and time, or with the last rows of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl

from eventide._arguments import is_integer
from eventide._hints import with_option_hints
from eventide.errors import PlanError, did_you_mean, shown
from eventide.panes import DIFF, INPUT
from eventide.plan.errors import key_is_a_side
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan, SideRetention
from eventide.plan.multi_input import On, check_join_type, key_reserved, keyed_inputs, no_key
from eventide.plan.pipeline import Pipeline
from eventide.plan.plan import JoinType
from eventide.plan.streams import Stream
from eventide.time import duration

Bound = str | timedelta | None

_MAX_LENGTH = 2**60  # an instant plus both bounds must fit into 64 bits
_NAMES = ("left", "right")


@with_option_hints
def join(
    left: Stream,
    right: Stream,
    *,
    within: Bound | tuple[Bound, Bound] = None,
    last: int | None = None,
    keep: str | timedelta | Mapping[str, str | timedelta] | None = None,
    forget_after: str | timedelta | None = None,
    on: On | None = None,
    how: JoinType = "inner",
    where: pl.Expr | None = None,
    suffix: str = "_right",
    max_matches: int = 10_000_000,
) -> Pipeline:
    """Each row of the left stream beside each of the right with the same key that is near enough in time.

    ``within=(lo, hi)`` bounds ``right.time - left.time``, both ends included: ``("-1 minute", "1 hour")`` is from a
    minute before the left row to an hour after it. One duration ``d`` is ``(-d, d)``. ``where`` is a further condition,
    an expression of Polars over the columns of the joined row. ``on`` names the columns that must be equal, where they
    are not the streams' keys; nulls equal nothing. With ``how`` also rows without a partner are emitted, beside nulls,
    once none can come any more. More than ``max_matches`` pairs in one bundle are rejected.

    ``last=3`` looks back by rows instead: at the last three right rows of the key that arrived before the left row.
    They are kept for as long as the query runs. With ``forget_after="30 days"`` the right rows of a key are forgotten
    when the left watermark is so far past the last row of the key, of either side.

    ``keep`` is how long rows wait for partners where ``within`` has an open bound (None), or the left rows beside
    ``last``: until the watermark of their own stream is so far past their time. A mapping says it of each side:
    ``keep={"left": "1 hour", "right": "1 day"}``.

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
    check_join_type("join", how)
    if where is not None and not isinstance(where, pl.Expr):
        raise PlanError(
            f"join: where={shown(where)} is not an expression of Polars over the columns of the joined rows, such as "
            "pl.col('price') > pl.col('price_right')."
        )
    for name, count in (("max_matches", max_matches), ("last", last)):
        if count is not None and not is_integer(count, at_least=1):
            raise PlanError(f"join: {name}={shown(count)} is not a count of rows above zero.")
    if (within is None) == (last is None):
        raise PlanError(
            "join: say how near two rows must be, in one way: within=('-1 minute', '1 hour') for times, or last=3 for "
            "the right rows of the key that arrived last. For rows of the same window use ev.window_join."
        )
    inputs = keyed_inputs("join", {"left": left, "right": right}, on)
    if not inputs[0].key:
        raise no_key("join")
    for name in inputs[0].key:
        if name == DIFF:
            raise key_reserved("join", name)
        if name in (INPUT, *_NAMES):
            raise key_is_a_side(name)
    if last is not None:
        forget = None if forget_after is None else duration(forget_after, what="forget_after of join()")
        retention = _retention(keep, [(LEFT, None)])[0], SideRetention(LEFT, None)
        return Pipeline(JoinPlan(inputs, None, None, retention, how, where, suffix, max_matches, last, forget))
    if forget_after is not None:
        raise PlanError(
            "join: forget_after= belongs to last=n; with within=, rows of a key go by their time. Remove it."
        )
    lo, hi = _bounds(within)
    # A left row at time l has partners up to l + hi, a right row at time r up to r - lo.
    of_left, of_right = _retention(keep, [(LEFT, hi), (RIGHT, None if lo is None else -lo)])
    return Pipeline(JoinPlan(inputs, lo, hi, (of_left, of_right), how, where, suffix, max_matches))


def _bounds(within: Any) -> tuple[int | None, int | None]:
    if isinstance(within, str | timedelta):
        most = _length(within)
        if most < 0:
            raise _empty_interval(within)
        return -most, most
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise PlanError(
            f"join: within={shown(within)} is not a duration or a pair of them. Say how far right.time may lie from "
            "left.time: within=('-1 minute', '1 hour'), or within='5 minutes' for either direction."
        )
    lo, hi = (None if bound is None else _length(bound) for bound in within)
    if lo is not None and hi is not None and lo > hi:
        raise _empty_interval(within)
    return lo, hi


def _length(bound: Bound) -> int:
    length = duration(bound, what="within", zero=True, negative=True)
    if abs(length) > _MAX_LENGTH:
        raise _interval_too_long(bound)
    return length


def _retention(keep: Any, sides: Sequence[tuple[int, int | None]]) -> list[SideRetention]:
    """How long rows of each side are stored: while the other side may send partners, or as ``keep`` says.

    ``sides`` has each edge with how far ahead of a row its last partner may be; None: the bound is open.
    """
    open_sides = [_NAMES[edge] for edge, ahead in sides if ahead is None]
    lengths = keep if isinstance(keep, Mapping) else dict.fromkeys(open_sides, keep) if keep is not None else {}
    for name in lengths:
        if name not in _NAMES:
            raise PlanError(f"join: keep= names the side {str(name)!r}. {did_you_mean(str(name), _NAMES)}")
        if name not in open_sides:
            raise _kept_already(f"the {name} stream")
    if keep is not None and not open_sides:
        raise _kept_already("both streams")
    return [
        SideRetention(1 - edge, ahead) if ahead is not None else SideRetention(edge, _keep(lengths, _NAMES[edge]))
        for edge, ahead in sides
    ]


def _keep(lengths: Mapping[str, Any], side: str) -> int:
    if lengths.get(side) is None:
        open_bound = {"left": "an upper", "right": "a lower"}[side]
        raise PlanError(
            f"join: without {open_bound} bound of time, rows of the {side} stream would be kept for ever, because a "
            f"partner may come at any time. Give the bound, or say how long the rows are kept: "
            f"keep={{'{side}': '1 hour'}}."
        )
    length = duration(lengths[side], what=f"keep of the {side} stream", zero=True)
    if length > _MAX_LENGTH:
        raise _interval_too_long(lengths[side])
    return length


def _empty_interval(within: object) -> PlanError:
    return PlanError(
        f"join: within={shown(within)} holds nothing: its lower bound lies above the upper one. Swap them."
    )


def _interval_too_long(bound: object) -> PlanError:
    return PlanError(
        f"join: within has the bound {shown(bound)}, which is longer than 36,000 years. Choose a shorter one."
    )


def _kept_already(streams: str) -> PlanError:
    return PlanError(
        f"join: within= or last= already says how long rows of {streams} are kept. Leave keep= out, or leave the "
        "bound open (None)."
    )

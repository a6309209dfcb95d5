"""``ev.join``: matches rows of two streams by key and time, or with the last rows of a key."""

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
    """Join two streams: pairs of rows with equal keys that are close enough in event time.

    ``within=(lo, hi)`` bounds ``right.time - left.time``, both ends included: ``("-1 minute", "1 hour")`` is from a
    minute before the left row to an hour after it. One duration ``d`` is short for ``(-d, d)``. ``where`` is a further
    condition, a Polars expression over the columns of the joined row. ``on`` names the columns that must be equal,
    where they are not the streams' keys; nulls equal nothing. An outer join (``how``) also emits rows without a
    partner, padded with nulls, once no partner can arrive any more. A bundle with more than ``max_matches`` pairs is
    rejected.

    ``last=3`` joins by order of arrival instead: a left row is paired with the last three right rows of its key that
    arrived before it. These rows are stored as long as the query runs. With ``forget_after="30 days"`` the right rows
    of a key are deleted when the left watermark is 30 days past the last row of the key, of either side.

    ``keep`` is how long rows are stored where ``within`` has an open bound (None), and how long left rows are stored
    with ``last``: until the watermark of their stream is that far past their time. A mapping sets it for each side:
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
            f"join: where={shown(where)} is not a Polars expression over the columns of the joined rows, such as "
            "pl.col('price') > pl.col('price_right')."
        )
    for name, count in (("max_matches", max_matches), ("last", last)):
        if count is not None and not is_integer(count, at_least=1):
            raise PlanError(f"join: {name}={shown(count)} is not a count of rows above zero.")
    if (within is None) == (last is None):
        raise PlanError(
            "join: pass either within= or last=: within=('-1 minute', '1 hour') joins rows by their distance in time, "
            "last=3 with the right rows of the key that arrived last. For rows of the same window use ev.window_join."
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
        raise PlanError("join: forget_after= belongs to last=n; with within=, rows expire by their time. Remove it.")
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
            f"join: within={shown(within)} is not a duration or a pair of them. Bound right.time - left.time: "
            "within=('-1 minute', '1 hour'), or within='5 minutes' for either direction."
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
    """How long rows of each side are stored: while partners may arrive on the other side, or as long as ``keep``.

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
            f"join: without {open_bound} bound of time, rows of the {side} stream would never be dropped, because a "
            f"partner may arrive at any time. Set the bound, or limit how long rows are stored: "
            f"keep={{'{side}': '1 hour'}}."
        )
    length = duration(lengths[side], what=f"keep of the {side} stream", zero=True)
    if length > _MAX_LENGTH:
        raise _interval_too_long(lengths[side])
    return length


def _empty_interval(within: object) -> PlanError:
    return PlanError(f"join: within={shown(within)} is empty: its lower bound is above the upper bound. Swap them.")


def _interval_too_long(bound: object) -> PlanError:
    return PlanError(
        f"join: within has the bound {shown(bound)}, which is longer than 36,000 years. Choose a shorter one."
    )


def _kept_already(streams: str) -> PlanError:
    return PlanError(
        f"join: within= or last= already determines how long rows of {streams} are stored. Remove keep=, or leave the "
        "bound open (None)."
    )

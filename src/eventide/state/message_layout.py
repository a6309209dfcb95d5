"""The keys of messages in state.

A message is a row that is stored unaggregated. Its key decides what is fast: reading a range of time, reading the
messages of one join key, or dropping expired messages. The parts of a key, most significant first, follow from a few
facts about the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from eventide.errors import PlanError

Axis = Literal["time", "rows"]
Use = Literal["aggregate", "join"]
Size = Literal["small", "large"]


class Order(Enum):
    """The parts of a message's key, most significant first."""

    OFFSET = "offset"
    EQUAL_OFFSET = "equal + offset"
    TIME_OFFSET = "time + offset"
    TIME_EQUAL_OFFSET = "time + equal + offset"
    EQUAL_TIME_OFFSET = "equal + time + offset"


@dataclass(frozen=True)
class MessageLayout:
    """The key of messages. Sessions add a first part."""

    order: Order
    session: bool = False

    @property
    def equal_first(self) -> bool:
        """Whether messages of a join key are adjacent. Expired ones are then scattered, and are dropped lazily."""
        return self.order in (Order.EQUAL_OFFSET, Order.EQUAL_TIME_OFFSET)

    @property
    def has_equal(self) -> bool:
        """Whether the join key is a part of the key."""
        return self.order not in (Order.OFFSET, Order.TIME_OFFSET)

    def describe(self) -> str:
        """One line for ``explain()``.

        >>> MessageLayout(Order.TIME_OFFSET, session=True).describe()
        'session + time + offset'
        """
        return f"session + {self.order.value}" if self.session else self.order.value


def layout_of(
    axis: Axis,
    use: Use,
    *,
    equal: bool = False,
    time_range: bool = False,
    size: Size = "small",
    session: bool = False,
) -> MessageLayout:
    """The layout for windows on ``axis`` that an aggregate or a join uses.

    ``equal``: the join compares fields for equality. ``time_range``: it bounds the time between two messages as well.
    ``size``: whether reading a whole window to find the messages of one key is cheap. ``session``: a session key
    separates the windows.

    >>> layout_of("time", "join", equal=True, time_range=True, size="large").describe()
    'equal + time + offset'
    """
    if use == "aggregate" and (equal or time_range):
        raise PlanError(
            "layout_of('aggregate', …): equal= and time_range= are conditions of a join. Leave them out, or say 'join'."
        )
    if axis == "rows" and time_range:
        raise PlanError(
            "layout_of('rows', …): windows counted in rows have no range of time. Leave time_range= out, or say 'time'."
        )
    if axis == "rows":
        order = Order.EQUAL_OFFSET if equal and size == "large" else Order.OFFSET
    elif not equal:
        order = Order.TIME_OFFSET
    elif time_range and size == "small":
        order = Order.TIME_EQUAL_OFFSET
    else:
        order = Order.EQUAL_TIME_OFFSET
    return MessageLayout(order, session)

"""Checks of arguments that many functions share."""

from __future__ import annotations

from typing import TypeGuard

MAX_SPAN = 2**61
"""The longest duration or greatest offset in a plan: added to an instant, it still fits into 64 bits."""


def is_integer(value: object, *, at_least: int | None = None, at_most: int | None = None) -> TypeGuard[int]:
    """Whether a value is an integer in a range. A boolean is not an integer.

    >>> is_integer(3, at_least=1), is_integer(0, at_least=1), is_integer(True), is_integer(2.0)
    (True, False, False, False)
    """
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
    )

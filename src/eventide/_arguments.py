"""Checks of arguments that many functions share."""

from __future__ import annotations

import re
from typing import TypeGuard

from eventide.errors import PlanError, shown

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


def check_flags(where: str, **flags: object) -> None:
    """Reject options that are neither True nor False: any text would count as True.

    >>> check_flags("run()", drain="no")
    Traceback (most recent call last):
    eventide.errors.PlanError: run(drain='no'): give True or False.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise PlanError(f"{where.removesuffix('()')}({name}={shown(value)}): give True or False.")


def byte_count(size: str) -> int | None:
    """The bytes of a size such as ``"64m"``; None: it is no size.

    >>> byte_count("2g"), byte_count("64 MB"), byte_count("plenty")
    (2147483648, 67108864, None)
    """
    number = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", size.strip().lower())
    return None if number is None else int(number[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[number[2]]

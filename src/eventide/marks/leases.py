"""When what was given for some time is over."""

from __future__ import annotations


def lasts(until: int, length: int, now: int) -> bool:
    """Whether something that was given for ``length`` has not ended.

    What ends further ahead than it could is of a clock that was set back since, and over: else the dead would keep it
    until the clock has caught up. Twice the length, so that a small correction takes nothing from the living.

    >>> [lasts(until, 10, now=100) for until in (100, 101, 120, 121)]
    [False, True, True, False]
    """
    return now < until <= now + 2 * length

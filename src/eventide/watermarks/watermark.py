"""What travels beside the rows: how far event time has come, that an input is silent, that it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from eventide.errors import watermarks as errors
from eventide.time import MAX, MIN, format_instant


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row whose time column of this ``key`` is below ``time`` is expected any more.

    >>> print(Watermark(0, 1_000_000))
    watermark 0 at 1970-01-01T00:00:01Z
    >>> Watermark(256, 0)
    Traceback (most recent call last):
    ...
    eventide.errors.kinds.PlanError: watermark_key=256 is not a watermark key: it must be an integer from 0 to 255...
    """

    key: int
    time: int

    def __post_init__(self) -> None:
        check_key(self.key)
        if isinstance(self.time, bool) or not isinstance(self.time, int) or not MIN <= self.time <= MAX:
            raise errors.bad_time(self.time)

    def __str__(self) -> str:
        return f"watermark {self.key} at {format_instant(self.time)}"


@dataclass(frozen=True, slots=True)
class Cut:
    """A watermark that counts once a place in the stream has been passed: all rows before ``time`` lie before it.

    ``reached`` has, for segments of ``stream`` (by its identity), the first offset beyond; what an earlier cut said of
    a segment need not be said again. Cuts of a stream are numbered, and neither their times nor their places go back.
    """

    stream: str
    number: int
    time: int
    reached: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """The input is silent: others need not wait for it. It has no key, because silence is of all keys alike."""


@dataclass(frozen=True, slots=True)
class Done:
    """The input has ended and will never speak again."""


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """No row before ``time`` is expected on one input, which has this name among several."""

    input: str
    time: int


@dataclass(frozen=True, slots=True)
class InputEnd:
    """An input, by its name among several, has ended: no row follows on it, and nobody waits for it."""

    input: str


@dataclass(frozen=True, slots=True)
class InputIdle:
    """An input, by its name among several, is silent for this bundle: nobody waits for it."""

    input: str


Message: TypeAlias = Watermark | Idle | Done
Note: TypeAlias = Watermark | Cut | InputWatermark | InputEnd | InputIdle
"""What reaches a stream from outside of its rows."""


def check_key(key: object) -> None:
    """Refuse what is not a watermark key.

    >>> check_key(255)
    """
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key <= 255:
        raise errors.bad_key(key)

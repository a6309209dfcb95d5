"""What a tracker tells: where event time stands, and what holds it back."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.watermarks.watermark import Message

SHOWN = 12
"""So many origins are told one by one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where event time stands after a batch: ``time`` is MIN before anything is known, MAX once drained."""

    time: int
    idle: bool
    """All origins are silent, so that others need not wait for this stream."""
    messages: tuple[Message, ...] = ()
    """What changed, in the form in which operators tell each other."""


@dataclass(frozen=True, slots=True)
class OriginGap:
    """Sequences of an origin that are missing although later ones were seen, and since when."""

    origin: str | None
    first: int
    last: int
    since: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """What to show of a stream's watermark."""

    watermark: int
    least_origin: str | None
    """The active origin that holds the watermark back."""
    origins: int
    idle_origins: tuple[str | None, ...]
    gaps: tuple[OriginGap, ...]
    slowest: tuple[tuple[str | None, int], ...] = ()
    """How far each origin has come, those first that are least far; not more than ``SHOWN`` of them."""
    renumbered_origins: tuple[str | None, ...] = ()
    """Origins that in the last batch sent a number again with a later time: their numbering has started again."""
    forgotten_origins: int = 0
    """How many origins the last batch forgot."""

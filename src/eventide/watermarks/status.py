"""The status and the metrics of a stream's watermark."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.watermarks.watermark import Message

SHOWN = 12
"""The number of origins that metrics list by name."""


@dataclass(frozen=True, slots=True)
class WatermarkStatus:
    """The watermark after a batch: MIN before any is known, MAX once the stream is drained."""

    time: int
    idle: bool
    """All origins are idle, so that others need not wait for this stream."""
    messages: tuple[Message, ...] = ()
    """The changes, as messages to downstream operators."""


@dataclass(frozen=True, slots=True)
class OriginGap:
    """Sequences of an origin that are missing although later ones were seen, and since when."""

    origin: str | None
    first: int
    last: int
    since: int


@dataclass(frozen=True, slots=True)
class WatermarkMetrics:
    """The watermark of a stream, and what holds it back."""

    watermark: int
    least_origin: str | None
    """The active origin that holds the watermark back."""
    origins: int
    idle_origins: tuple[str | None, ...]
    gaps: tuple[OriginGap, ...]
    slowest: tuple[tuple[str | None, int], ...] = ()
    """The origins with the least watermarks, at most ``SHOWN``, and always the one that holds the watermark back."""
    renumbered_origins: tuple[str | None, ...] = ()
    """Origins that in the last batch sent a number again with a later time: their numbering has restarted."""
    forgotten_origins: int = 0
    """The number of origins that the last batch forgot."""
    origin_column: str | None = None
    """The column whose values are the names of origins; None without one, and with several inputs."""

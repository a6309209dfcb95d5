"""When to warn that most rows of a batch are late, and what the warning says. One rule for every host."""

from __future__ import annotations

from eventide.time import MAX, MIN, format_instant

_PAUSE = 60_000_000  # microseconds of batch time between two warnings of a query

_ADVICE = (
    "Late rows go to the late output. If rows arrive later than expected, use a larger delay (ev.bounded_delay) or "
    "allowed lateness (.lateness), with a new checkpoint. If a wrong clock moved the watermark ahead, lower "
    "max_future_skew and then the watermark: eventide repair CHECKPOINT --watermark INSTANT."
)


class LateWarning:
    """Decides for one query which of its batches deserve a warning.

    >>> warning = LateWarning()
    >>> warning.message(rows=10, late=5, watermark=0, now=0) is None
    True
    >>> print(warning.message(rows=10, late=6, watermark=0, now=0))
    6 of 10 rows of a batch are late: the watermark is 1970-01-01T00:00:00Z. Late rows go to the late output...
    >>> warning.message(rows=10, late=10, watermark=0, now=59_999_999) is None
    True
    """

    def __init__(self) -> None:
        self._warned_at: int | None = None

    def message(self, *, rows: int, late: int, watermark: int | None, now: int, operator: int = 0) -> str | None:
        """The warning about a batch in which more than half of the rows are late, at most once a minute.

        ``now`` is the batch's time. ``operator`` is the place of the pipeline in a chain.
        """
        if 2 * late <= rows or (self._warned_at is not None and now - self._warned_at < _PAUSE):
            return None
        self._warned_at = now
        where = f" of pipeline {operator + 1} of the chain" if operator else ""
        subject = f"{late:,} of {rows:,} rows of a batch{where} are late"
        if watermark == MAX:
            return f"{subject}: the stream was drained and has ended. Use another checkpoint."
        known = watermark is not None and watermark > MIN
        reason = f"the watermark is {format_instant(watermark or 0)}" if known else "no watermark is known"
        return f"{subject}: {reason}. {_ADVICE}"

"""Compatibility with other systems: triggers under the names and with the defaults that those have."""

from __future__ import annotations

from eventide.triggers import AfterWatermark, after_watermark, every, on_update

__all__ = ["samza_aggregate", "samza_join"]


def samza_aggregate() -> AfterWatermark:
    """Samza SQL's defaults for aggregates: nothing early, once when the window is full, late rows in batches of 10 s.

    >>> samza_aggregate().describe()
    'when the watermark passes the end; late: repeatedly (10s of processing time after the first new row)'
    """
    return after_watermark(late=every("10 seconds"))


def samza_join() -> AfterWatermark:
    """Samza SQL's defaults for joins: at each message, early and late.

    >>> samza_join().describe()
    'when the watermark passes the end; early: each time rows join; late: each time rows join'
    """
    return after_watermark(early=on_update(), late=on_update())

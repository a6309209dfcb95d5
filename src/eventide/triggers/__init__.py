"""When panes are emitted. A small algebra: each trigger has the same verbs, and combinators only combine."""

from eventide.triggers.clocks import AfterProcessingTime, after_processing_time, every
from eventide.triggers.combinators import (
    InOrder,
    Never,
    Parallel,
    Repeatedly,
    all_of,
    any_of,
    in_order,
    never,
    on_update,
    or_finally,
    repeatedly,
)
from eventide.triggers.counts import AfterCount, after_count
from eventide.triggers.trigger import Finish, Trigger
from eventide.triggers.watermark import AfterWatermark, after_watermark

__all__ = [
    "AfterCount",
    "AfterProcessingTime",
    "AfterWatermark",
    "Finish",
    "InOrder",
    "Never",
    "Parallel",
    "Repeatedly",
    "Trigger",
    "after_count",
    "after_processing_time",
    "after_watermark",
    "all_of",
    "any_of",
    "every",
    "in_order",
    "never",
    "on_update",
    "or_finally",
    "repeatedly",
]

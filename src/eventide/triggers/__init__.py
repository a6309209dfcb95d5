"""When panes are emitted. A small algebra: each trigger has the same verbs, and combinators only combine."""

from eventide.triggers.after_watermark import AfterWatermark, after_watermark
from eventide.triggers.combinators import (
    AfterProcessingTime,
    InOrder,
    Never,
    Parallel,
    Repeatedly,
    after_processing_time,
    all_of,
    any_of,
    every,
    in_order,
    never,
    on_update,
    or_finally,
    repeatedly,
)
from eventide.triggers.trigger import AfterCount, Finish, Trigger, after_count

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

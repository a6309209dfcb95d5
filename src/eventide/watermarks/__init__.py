"""Watermarks: how far event time has advanced.

A strategy derives watermarks from the rows of each origin (``strategies``, ``generators``, ``options``), and a task
summarises them (``origin_summary``). In the operator, a ``tracker`` puts sequences in order (``sequences``), detects
idle origins (``idleness``) and takes the least watermark over the active origins (``coalescer``).
"""

from eventide.watermarks.coalescer import Coalescer, InputWatermarks
from eventide.watermarks.operator_tracker import AnyTracker, OperatorTracker, without_origins
from eventide.watermarks.options import Options
from eventide.watermarks.origin_summary import SUMMARY, empty_summary
from eventide.watermarks.sequences import SequenceGap, SequenceProgress
from eventide.watermarks.status import OriginGap, WatermarkMetrics, WatermarkStatus
from eventide.watermarks.strategies import (
    Strategy,
    ascending,
    bounded_delay,
    no_watermark,
    noted,
    processing_time,
    punctuated,
)
from eventide.watermarks.tracker import InputTracker
from eventide.watermarks.watermark import (
    Cut,
    Done,
    Idle,
    InputEnd,
    InputIdle,
    InputWatermark,
    Message,
    Note,
    Reached,
    Watermark,
)

__all__ = [
    "SUMMARY",
    "AnyTracker",
    "Coalescer",
    "Cut",
    "Done",
    "Idle",
    "InputEnd",
    "InputIdle",
    "InputTracker",
    "InputWatermark",
    "InputWatermarks",
    "Message",
    "Note",
    "OperatorTracker",
    "Options",
    "OriginGap",
    "Reached",
    "SequenceGap",
    "SequenceProgress",
    "Strategy",
    "Watermark",
    "WatermarkMetrics",
    "WatermarkStatus",
    "ascending",
    "bounded_delay",
    "empty_summary",
    "no_watermark",
    "noted",
    "processing_time",
    "punctuated",
    "without_origins",
]

"""How far event time has come.

A strategy reads times off the rows of each origin (``strategies``, ``rules``, ``options``), a task sums them up
(``summaries``), the operator's side puts sequences in order (``progress``), takes the least over origins
(``coalescer``) and says where the stream stands (``tracker``).
"""

from eventide.watermarks.coalescer import Coalescer, Marks
from eventide.watermarks.options import Options
from eventide.watermarks.progress import Gap, Progress
from eventide.watermarks.standing import Metrics, OriginGap, Standing
from eventide.watermarks.strategies import (
    Strategy,
    ascending,
    bounded_delay,
    no_watermark,
    noted,
    processing_time,
    punctuated,
)
from eventide.watermarks.summaries import SUMMARY, empty_summary
from eventide.watermarks.tracker import Tracker
from eventide.watermarks.trackers import AnyTracker, Trackers
from eventide.watermarks.watermark import Cut, Done, Idle, InputEnd, InputIdle, InputWatermark, Message, Note, Watermark

__all__ = [
    "SUMMARY",
    "AnyTracker",
    "Coalescer",
    "Cut",
    "Done",
    "Gap",
    "Idle",
    "InputEnd",
    "InputIdle",
    "InputWatermark",
    "Marks",
    "Message",
    "Metrics",
    "Note",
    "Options",
    "OriginGap",
    "Progress",
    "Standing",
    "Strategy",
    "Tracker",
    "Trackers",
    "Watermark",
    "ascending",
    "bounded_delay",
    "empty_summary",
    "no_watermark",
    "noted",
    "processing_time",
    "punctuated",
]

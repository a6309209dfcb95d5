"""The story: the ten integers of "Streaming 102", one of them late, and two rows that end in no window.

Nine of the event and arrival times are those of the book "Streaming Systems"; the 4 is placed where the article's
results put it. The watermark is a guess, as it mostly is: too fast for the 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eventide import aggregates
from eventide.plan import Pipeline, Stream, stream
from eventide.testing import TestStream
from eventide.triggers import after_watermark, every, on_update
from eventide.windows import sessions, tumbling

TRUTH = 51


@dataclass(frozen=True)
class Row:
    """A row arrives: ``score`` happened at ``time``."""

    at: str
    time: str | None
    score: int


@dataclass(frozen=True)
class Mark:
    """The watermark advances."""

    at: str
    to: str


@dataclass(frozen=True)
class Tick:
    """Nothing but time."""

    at: str


STORY: tuple[Row | Mark | Tick, ...] = (
    Row("12:05:19", "12:00:26", 5),
    Row("12:05:39", "12:02:26", 7),
    Mark("12:05:58", "12:02"),
    Tick("12:06:00"),
    Row("12:06:13", "12:03:39", 3),
    Row("12:06:26", "12:03:53", 4),
    Row("12:06:39", "12:04:19", 3),
    Tick("12:07:00"),
    Row("12:07:06", "12:03:06", 8),
    Row("12:07:19", "12:06:39", 3),
    Mark("12:07:30", "12:04"),
    Mark("12:07:40", "12:06"),
    Tick("12:08:00"),
    Row("12:08:19", "12:01:26", 9),
    Row("12:08:39", "12:07:26", 8),
    Row("12:09:00", "12:07:46", 1),
    Mark("12:09:30", "12:09"),
    Row("12:09:45", "11:58:10", 6),
    Row("12:09:50", None, 2),
)


@dataclass(frozen=True)
class Chapter:
    """One pipeline, what to look at, and how its panes become one table."""

    title: str
    look: str
    pipeline: Pipeline
    last_counts: bool = False  # the last pane of a window is its result; else all rows times diff are


def chapters() -> list[Chapter]:
    """The four pipelines."""
    scores = stream(time="ts").window(tumbling("2 minutes")).lateness("5 minutes")
    fixed = scores.trigger(after_watermark(early=every("1 minute"), late=on_update()))
    in_sessions = stream(time="ts").window(sessions("1 minute")).lateness("5 minutes")
    growing = in_sessions.trigger(after_watermark(early=every("1 minute", aligned=True), late=on_update()))
    return [
        Chapter(
            "Discarding",
            "Each pane has only what is new: the panes of a window add up to its total.",
            _total(fixed.discarding()),
        ),
        Chapter(
            "Accumulating",
            "Each pane repeats the whole window: who adds panes up counts rows twice, so keep the last one.",
            _total(fixed.accumulating()),
            last_counts=True,
        ),
        Chapter(
            "Retracting",
            "Each pane takes the one before back (−): the rows add up, however often a window is told.",
            _total(fixed.retracting()),
        ),
        Chapter(
            "Sessions, retracting",
            "The windows themselves change: the 8 joins two sessions, and the late 9 joins what was told long ago.",
            _total(growing.retracting()),
        ),
    ]


def play(chapter: Chapter) -> Iterator[tuple[Row | Mark | Tick, TestStream]]:
    """The story, step by step; after each the stream knows what came of it."""
    test = TestStream(chapter.pipeline, clock="12:05")
    for step in STORY:
        match step:
            case Row(at, time, score):
                test.add({"ts": time, "score": score}, at=at)
            case Mark(at, to):
                test.advance_processing_time(to=at).advance_watermark(to)
            case Tick(at):
                test.advance_processing_time(to=at)
        yield step, test


def _total(stream: Stream) -> Pipeline:
    return stream.agg(total=aggregates.sum("score"))

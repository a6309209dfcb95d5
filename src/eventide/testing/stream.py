"""A test of a pipeline, told as a story: rows, watermarks and time go in, panes are expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Self

import polars as pl

from eventide.errors import testing as errors
from eventide.local.query import Frame
from eventide.operators.bundle import Counts
from eventide.plan.pipeline import Pipeline
from eventide.testing import timelines
from eventide.testing.day import Day, Moment
from eventide.testing.expectations import ExpectedPane, pair
from eventide.testing.history import Happening
from eventide.testing.hosts import Came, Host, LocalHost, StartHost
from eventide.testing.inputs import Rows, TestInputs
from eventide.testing.picture import Event, Fate, Pane, Timeline, picture
from eventide.testing.report import report, so_far
from eventide.testing.shapes import Row, Shape
from eventide.time import MAX, MIN, duration
from eventide.windows import global_window

_LATE_FIELDS = ("event_time", "watermark", "at")
_DEAD_FIELDS = ("reason", "detail", "watermark", "at")
_HINT = "Expectations are about all that came since the last one. What does not matter is dropped by .ignore()."


@dataclass(frozen=True)
class _Bundle:
    rows: Sequence[pl.DataFrame | None]  # of each input
    said: Sequence[str]
    now: int
    watermark: int | None
    polled: bool
    key: int | str | None = None


class TestStream:
    """Runs a pipeline step by step and checks what each step gives.

    Times are ``"12:00"``, ``"12:00:30.5"`` (on ``day``), ISO-8601, datetimes, or µs. Each ``add`` is one bundle.
    ``expect`` names *all* panes since the last expectation, in any order; of each pane only the named fields
    are compared. Several pipelines form a chain: each gets the panes of the one before.

    A pipeline with several inputs takes their rows by name, ``add(left=[…], right=[…])``, and ``schema`` has an entry
    for each input whose columns are not known from its first rows. Late rows and dead letters of a join have the
    columns of their input, and its name under ``input``.

    What comes after the last expectation is checked when the stream is used as a context (``with TestStream(…) as s``).
    With ``strict`` everything, late rows and dead letters too, must be expected before the next input.

    >>> import eventide as ev
    >>> from eventide.testing import TestStream, pane
    >>> scores = ev.stream(time="ts", key="user").window(ev.tumbling("2 minutes")).agg(total=ev.sum("score"))
    >>> stream = (
    ...     TestStream(scores)
    ...     .add({"ts": "12:00:30", "user": "a", "score": 5}, {"ts": "12:01:10", "user": "a", "score": 2})
    ...     .expect_nothing()
    ...     .advance_watermark("12:02")
    ...     .expect(pane(user="a", window=("12:00", "12:02"), total=7, timing="ON_TIME"))
    ...     .add({"ts": "12:01:59", "user": "a", "score": 1})
    ...     .expect_late({"user": "a", "score": 1})
    ...     .end()
    ...     .expect_nothing()
    ... )
    """

    __test__ = False  # its name begins as pytest likes it, but it is no test

    def __init__(
        self,
        *pipelines: Pipeline,
        schema: Mapping[str, Any] | None = None,
        day: str | date = "1970-01-01",
        clock: Moment | None = None,
        strict: bool = False,
        host: StartHost = LocalHost,
    ) -> None:
        self._pipelines = pipelines
        self._day = Day.of(day)
        self._inputs = TestInputs(pipelines[0].plan, self._day, schema)
        self._start_host = host
        self._host: Host | None = None
        self._strict = strict
        self._now = self._day.midnight if clock is None else self._day.read(clock, "clock")
        self._waiting: list[_Bundle] = []  # what happened before the columns were known
        self._ended = False
        self._came: list[Came] = []
        self._open: dict[str, list[pl.DataFrame]] = {"pane": [], "late row": [], "dead letter": []}
        self._history: list[Happening] = []
        self._timeline: tuple[list[Event], list[tuple[int, int]], list[Pane]] = ([], [(self._now, MIN)], [])

    # What happens.

    def add(
        self,
        *rows: Mapping[str, Any] | Frame,
        watermark: Moment | None = None,
        at: Moment | None = None,
        key: int | str | None = None,
        **inputs: Rows,
    ) -> Self:
        """One bundle of rows: dicts, or one frame. ``at`` is its batch time, ``watermark`` one that comes with it.

        Rows of several inputs are named: ``left=[…]``. ``key`` says whose watermark it is: of an input, or of a key.
        """
        self._begin("add")
        if at is not None:
            self._move_clock(self._day.read(at, "at"))
        frames = self._inputs.frames(rows, inputs)
        nothing = all(frame is None or frame.is_empty() for frame in frames)
        return self._act(frames, ["add nothing"] if nothing else [], watermark, key=key)

    def advance_watermark(self, to: Moment, *, key: int | str | None = None) -> Self:
        """No more rows before ``to`` are expected. Told from outside, it raises what the strategy has found.

        ``key`` says whose watermark it is: of an input by its name, or of a watermark key.
        """
        self._begin("advance_watermark")
        whose = "" if key is None else f" of {key}"
        return self._act((), [f"watermark{whose} {self._text(self._day.read(to, 'to'))}"], to, key=key)

    def advance_processing_time(self, by: str | timedelta | None = None, *, to: Moment | None = None) -> Self:
        """Time passes while the source is not asked for rows; triggers on processing time may fire."""
        self._begin("advance_processing_time")
        return self._wait(by, to, polled=False, word="wait")

    def idle(self, by: str | timedelta | None = None, *, to: Moment | None = None) -> Self:
        """The source is polled, nothing comes, time passes: origins may become idle."""
        self._begin("idle")
        return self._wait(by, to, polled=True, word="idle")

    def wait_for_calls(self, answers: int | None = None) -> Self:
        """Calls that span bundles are answered, all or so many, and a bundle without rows takes the answers."""
        self._begin("wait_for_calls")
        if isinstance(self._host, LocalHost):
            self._host.wait_for_calls(answers)
        return self._act((), ["answers"], None)

    def end(self, input: str | None = None) -> Self:
        """The stream ends: every open window fires and closes. Or one input of several ends."""
        self._begin("end")
        self._act((), ["end" if input is None else f"end {input}"], MAX, key=input)
        self._ended = input is None
        return self

    # What is expected.

    def expect(self, *panes: ExpectedPane) -> Self:
        """Exactly these panes have come since the last expectation, in any order."""
        for expected in panes:
            if not isinstance(expected, ExpectedPane):
                raise errors.not_a_pane(expected)
        wanted = [{**expected.fields, "diff": expected.diff} for expected in panes]
        return self._expect("pane", wanted, ["pane" if e.diff > 0 else "retraction" for e in panes])

    def expect_late(self, *rows: Mapping[str, Any]) -> Self:
        """Exactly these rows came too late since the last ``expect_late``."""
        return self._expect("late row", rows, ["expect_late"] * len(rows))

    def expect_dead(self, *rows: Mapping[str, Any], reason: str | None = None) -> Self:
        """Exactly these rows became dead letters since the last ``expect_dead``, for this ``reason``."""
        why = {} if reason is None else {"reason": reason}
        return self._expect("dead letter", [{**row, **why} for row in rows], ["expect_dead"] * len(rows))

    def expect_nothing(self) -> Self:
        """Nothing is left that was not expected: no pane, no late row, no dead letter."""
        return self.expect().expect_late().expect_dead()

    def expect_watermark(self, at: Moment | None) -> Self:
        """The watermark stands here; None: nothing is known yet."""
        wanted = MIN if at is None else self._day.read(at, "watermark")
        if self.watermark != wanted:
            stands = f"The watermark stands at {self._text(self.watermark)}, not at {self._text(wanted)}."
            raise AssertionError(f"{stands}\n\n{so_far(self._history)}")
        return self

    def ignore(self) -> Self:
        """Drop all that came so far and was not expected."""
        for frames in self._open.values():
            frames.clear()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is None:
            self.expect_nothing()

    # What is known.

    @property
    def panes(self) -> pl.DataFrame:
        """All panes so far, retractions too."""
        if not self._came:
            raise errors.no_rows_yet()
        return pl.concat([came.panes for came in self._came])

    @property
    def watermark(self) -> int:
        """Where event time stands, in µs."""
        return self._came[-1].watermark if self._came else MIN

    @property
    def counts(self) -> Counts:
        """What became of the rows."""
        return sum((came.counts for came in self._came), Counts())

    def timeline(self) -> Timeline:
        """All that happened, as the data of a picture."""
        if getattr(self._pipelines[-1].plan, "window", global_window()).axis == "rows":
            raise errors.nothing_to_show()
        events, watermarks, panes = self._timeline
        return Timeline(tuple(events), tuple(watermarks), tuple(panes))

    def picture(self, path: str | Path, *, title: str = "Event time and processing time", text: str = "") -> Self:
        """Write the picture of all that happened, an HTML page."""
        Path(path).write_text(picture(self.timeline(), title=title, text=text), encoding="utf-8")
        return self

    # How it is done.

    def _begin(self, action: str) -> None:
        if self._ended:
            raise errors.ended(action)
        if self._strict:
            self.expect_nothing()

    def _wait(self, by: str | timedelta | None, to: Moment | None, *, polled: bool, word: str) -> Self:
        if (by is None) == (to is None):
            raise errors.one_clock()
        until = self._now + duration(by, what=word) if by is not None else self._day.read(to, "to")
        self._move_clock(until)
        return self._act((), [f"{word} until {self._text(until)}"], None, polled=polled)

    def _move_clock(self, to: int) -> None:
        if to < self._now:
            raise errors.clock_back(self._text(self._now), self._text(to))
        self._now = to

    def _act(
        self,
        rows: Sequence[pl.DataFrame | None],
        said: list[str],
        watermark: Moment | None,
        *,
        polled: bool = True,
        key: int | str | None = None,
    ) -> Self:
        told = None if watermark is None else self._day.read(watermark, "watermark")
        if rows and told is not None and said == []:
            said = [f"watermark {self._text(told)}"]
        self._waiting.append(_Bundle(rows, said, self._now, told, polled, key))
        if (schemas := self._inputs.schemas) is not None:
            if self._host is None:
                self._host = self._start_host(self._pipelines, schemas if self._inputs.names else schemas[0])
            waiting, self._waiting = self._waiting, []
            for bundle in waiting:
                self._process(self._host, bundle, schemas)
        return self

    def _process(self, host: Host, bundle: _Bundle, schemas: Sequence[Mapping[str, pl.DataType]]) -> None:
        given = bundle.rows or [None] * len(schemas)
        frames = [
            pl.DataFrame(schema=schema) if frame is None else frame
            for frame, schema in zip(given, schemas, strict=True)
        ]
        key: dict[str, Any] = {} if bundle.key is None else {"key": bundle.key}
        rows = frames if self._inputs.names else frames[0]
        came = host.bundle(rows, now=bundle.now, watermark=bundle.watermark, polled=bundle.polled, **key)
        came = replace(came, late=self._plain(came.late), dead=self._plain(came.dead))
        self._came.append(came)
        self._open["pane"].append(came.panes)
        self._open["late row"] += came.late
        self._open["dead letter"] += came.dead
        self._remember(bundle, frames, came)

    def _plain(self, outputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
        """Rows of the first pipeline with the columns of their input."""
        return [*self._inputs.plain(outputs[0]), *outputs[1:]]

    def _remember(self, bundle: _Bundle, frames: Sequence[pl.DataFrame], came: Came) -> None:
        pane_shape, panes = self._shaped("pane", [came.panes])
        gone: dict[Fate, list[Row]] = {}
        out = [" ".join(word for _, word in pane_shape.say(row)) for row in panes]
        fates: tuple[tuple[Fate, str, Sequence[pl.DataFrame]], ...] = (
            ("late", "late row", came.late),
            ("dead", "dead letter", came.dead),
        )
        for word, what, came_out in fates:
            shape, gone[word] = self._shaped(what, came_out)
            shown = [name for name in shape.values if name != "reason"]
            first = ["reason"] if word == "dead" else []
            texts = ([shape.text(n, row[n]) for n in (*first, *shown) if n in row] for row in gone[word])
            out += [" ".join([word, *text]) for text in texts]
        said: list[str] = []
        events, watermarks, drawn = self._timeline
        for name, (plan, frame, shape, rows) in zip(self._inputs.names or [""], self._inputs.told(frames), strict=True):
            said += [" ".join(filter(None, (name, *(shape.text(n, row[n]) for n in frame.columns)))) for row in rows]
            events += timelines.events(plan, frame, shape, rows, bundle.now, gone)
        self._history.append(Happening(self._text(bundle.now), [*said, *bundle.said], self._text(came.watermark), out))
        if came.watermark != watermarks[-1][1]:
            watermarks.append((bundle.now, came.watermark))
        if "window" in came.panes.columns and self._pipelines[-1].plan.window.axis == "time":
            drawn += timelines.panes(pane_shape, panes, bundle.now)

    def _shaped(self, what: str, frames: Sequence[pl.DataFrame]) -> tuple[Shape, list[Row]]:
        both = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
        if what == "pane":
            return Shape.of_panes(both, key=self._pipelines[-1].plan.key, day=self._day)
        own = _LATE_FIELDS if what == "late row" else _DEAD_FIELDS
        values = [name for name in both.columns if name not in own]
        return Shape.of_rows(both, what=what, day=self._day, values=values)

    def _expect(self, what: str, wanted: Sequence[Mapping[str, Any]], words: Sequence[str]) -> Self:
        frames = self._open[what]
        if not frames and not self._came:
            if wanted:
                raise errors.no_rows_yet()
            return self
        last = self._came[-1]
        nothing = {"pane": [last.panes], "late row": last.late, "dead letter": last.dead}[what]
        shape, rows = self._shaped(what, frames or [frame.clear() for frame in nothing])
        if what == "pane" and "diff" not in shape.kinds:  # a processor emits rows without one
            wanted = [{name: value for name, value in fields.items() if name != "diff"} for fields in wanted]
        read = [shape.read(fields, word) for fields, word in zip(wanted, words, strict=True)]
        pairing = pair(read, rows, shape.fits)
        if not pairing.complete:
            title = f"{_many(len(read), what)} expected, {len(rows)} came"
            hint = _HINT if pairing.unexpected else ""
            raise AssertionError(report(title, shape, pairing, self._history, hint))
        frames.clear()
        return self

    def _text(self, us: int) -> str:
        return self._day.write(us)


def _many(count: int, what: str) -> str:
    return f"{count or 'No'} {what}{'s' * (count != 1)}"

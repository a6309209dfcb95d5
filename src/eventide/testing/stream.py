"""``TestStream``: a test of a pipeline as a sequence of rows, watermarks, time and expected panes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import polars as pl

from eventide._frames import Frame
from eventide._hints import with_attribute_hints, with_option_hints
from eventide.errors import PlanError, shown
from eventide.operators.operator import Counts
from eventide.panes import DEAD_COLUMNS, DIFF, LATE_COLUMNS, REASON, WINDOW_START
from eventide.plan import Stream, WindowedStream
from eventide.plan.explain import summary
from eventide.plan.pipeline import Runnable
from eventide.testing import chart_timeline as timelines
from eventide.testing.chart_page import picture
from eventide.testing.chart_timeline import Event, Fate, Pane, Timeline
from eventide.testing.expectations import ExpectedPane, HistoryEntry, Row, Shape, history_text, pair, report
from eventide.testing.hosts import BundleResult, Host, LocalHost, Rows, StartHost, TestInputs
from eventide.testing.rows import Day, TimeInput
from eventide.time import MAX, MIN, duration, known_datetime
from eventide.windows import global_window

_HINT = "An expectation covers all output since the last one. Use .ignore() to drop output that does not matter."


@dataclass(frozen=True)
class _Bundle:
    rows: Sequence[pl.DataFrame | None]  # of each input
    descriptions: Sequence[str]
    now: int
    watermark: int | None
    polled: bool
    key: int | str | None = None


@with_attribute_hints
class TestStream:
    """Runs a pipeline step by step and checks the output of each step.

    Times are ``"12:00"``, ``"12:00:30.5"`` (on ``day``), ISO-8601, datetimes, or µs; numbers of event times are in the
    ``time_unit`` of the stream. Each ``add`` is one bundle.
    ``expect`` names *all* panes since the last expectation, in any order; of each pane only the named fields
    are compared. Of a chain of pipelines, these are the panes of the last.

    A pipeline with several inputs takes their rows by name, ``add(left=[…], right=[…])``, and ``schema`` has an entry
    for each input whose columns are not known from its first rows. Late rows and dead letters of a join have the
    columns of their input, and its name under ``ev_input``.

    Output after the last expectation is checked if the stream is used as a context (``with TestStream(…) as s``).
    With ``strict`` all output, including late rows and dead letters, must be expected before the next input.

    >>> import eventide as ev
    >>> from eventide.testing import TestStream, pane
    >>> scores = ev.stream(time="ts", key="user").window(ev.tumbling("2 minutes")).agg(total=ev.sum("score"))
    >>> stream = (
    ...     TestStream(scores)
    ...     .add({"ts": "12:00:30", "user": "a", "score": 5}, {"ts": "12:01:10", "user": "a", "score": 2})
    ...     .expect_nothing()
    ...     .advance_watermark("12:02")
    ...     .expect(pane(user="a", window=("12:00", "12:02"), total=7, pane_timing="ON_TIME"))
    ...     .add({"ts": "12:01:59", "user": "a", "score": 1})
    ...     .expect_late({"user": "a", "score": 1})
    ...     .end()
    ...     .expect_nothing()
    ... )
    """

    __test__ = False  # pytest must not collect it

    @with_option_hints
    def __init__(
        self,
        pipeline: Runnable,
        *,
        schema: Mapping[str, Any] | None = None,
        day: str | date = "1970-01-01",
        clock: TimeInput | None = None,
        strict: bool = False,
        host: StartHost = LocalHost,
    ) -> None:
        if not isinstance(pipeline, Runnable):
            hint = " Complete it with .agg(…) first." if isinstance(pipeline, Stream | WindowedStream) else ""
            raise PlanError(
                f"TestStream() needs a pipeline, which is what .agg(…) returns, not {shown(pipeline)}.{hint}"
            )
        self._pipeline = pipeline = pipeline._as_pipeline()
        self._last = pipeline.plans[-1]
        self._day = Day.of(day)
        self._inputs = TestInputs(pipeline.plan, self._day, schema)
        self._start_host = host
        self._host: Host | None = None
        self._strict = strict
        self._now = self._day.midnight if clock is None else self._day.read(clock, "clock")
        self._waiting: list[_Bundle] = []  # bundles before the columns are known
        self._ended = False
        self._results: list[BundleResult] = []
        self._open: dict[str, list[pl.DataFrame]] = {"pane": [], "late row": [], "dead letter": []}
        self._history: list[HistoryEntry] = []
        self._timeline: tuple[list[Event], list[tuple[int, int]], list[Pane]] = ([], [(self._now, MIN)], [])

    def __repr__(self) -> str:
        return f"<TestStream: {summary(*self._pipeline.plans)}>"

    # Inputs.

    def add(
        self,
        *rows: Mapping[str, Any] | Frame,
        watermark: TimeInput | None = None,
        at: TimeInput | None = None,
        key: int | str | None = None,
        **inputs: Rows,
    ) -> Self:
        """Add one bundle of rows: dicts, or one frame. ``at`` is its batch time, ``watermark`` an external watermark.

        Rows of several inputs are named: ``left=[…]``. ``key`` selects the watermark: an input, or a watermark key.
        """
        self._begin("add")
        if at is not None:
            self._move_clock(self._day.read(at, "at"))
        frames = self._inputs.frames(rows, inputs)
        nothing = all(frame is None or frame.is_empty() for frame in frames)
        return self._act(frames, ["add nothing"] if nothing else [], watermark, key=key)

    @with_option_hints
    def advance_watermark(self, to: TimeInput, *, key: int | str | None = None) -> Self:
        """Advance the watermark to ``to`` from outside, in addition to the strategy.

        ``key`` selects the watermark: an input by its name, or a watermark key.
        """
        self._begin("advance_watermark")
        whose = "" if key is None else f" of {key}"
        return self._act((), [f"watermark{whose} {self._text(self._day.read(to, 'to'))}"], to, key=key)

    @with_option_hints
    def advance_processing_time(self, by: str | timedelta | None = None, *, to: TimeInput | None = None) -> Self:
        """Advance processing time while the source is not polled. Processing-time triggers may fire."""
        self._begin("advance_processing_time")
        return self._wait(by, to, polled=False, label="wait")

    @with_option_hints
    def idle(self, by: str | timedelta | None = None, *, to: TimeInput | None = None) -> Self:
        """Advance processing time while polls return no rows. Origins may become idle."""
        self._begin("idle")
        return self._wait(by, to, polled=True, label="idle")

    @with_option_hints
    def skip_gap(self, origin: str | None = None, *, up_to: int | None = None) -> Self:
        """Stop waiting for missing sequence numbers of an origin: the first gap, or all up to ``up_to``.

        >>> import eventide as ev
        >>> numbered = ev.stream("ts", watermark=ev.ascending(origin="till", sequence="n"))
        >>> counts = numbered.window(ev.tumbling("1 minute")).agg(rows=ev.count())
        >>> stream = TestStream(counts).add({"ts": "12:00", "till": "a", "n": 1}, {"ts": "12:05", "till": "a", "n": 3})
        >>> stream.expect_watermark("12:00").skip_gap("a").expect_watermark("12:05")
        <TestStream: tumbling 1m: rows>
        """
        self._begin("skip_gap")
        if not self._local_host("skip_gap").skip_gap(origin, up_to):
            missing = "" if up_to is None else f" up to {up_to}"
            raise PlanError(f".skip_gap({shown(origin)}): no sequence numbers{missing} of this origin are missing.")
        return self._act((), ["skip gap" if origin is None else f"skip gap of {origin}"], None)

    @with_option_hints
    def retire(self, origin: str | None) -> Self:
        """Stop waiting for an origin that will not return, or for an input, by its name."""
        self._begin("retire")
        if not self._local_host("retire").retire(origin):
            raise PlanError(f".retire({shown(origin)}): there is no such origin or input.")
        return self._act((), [f"retire {origin}"], None)

    @with_option_hints
    def wait_for_calls(self, answers: int | None = None) -> Self:
        """Wait for all or some answers of calls that span bundles, and process them in a bundle without rows."""
        self._begin("wait_for_calls")
        if isinstance(self._host, LocalHost):
            self._host.wait_for_calls(answers)
        return self._act((), ["answers"], None)

    @with_option_hints
    def end(self, input: str | None = None) -> Self:
        """End the stream: every open window fires and closes. With ``input``, end only that input."""
        self._begin("end")
        self._act((), ["end" if input is None else f"end {input}"], MAX, key=input)
        self._ended = input is None
        return self

    # Expectations.

    def expect(self, *panes: ExpectedPane) -> Self:
        """Expect exactly these panes since the last expectation, in any order."""
        for expected in panes:
            if not isinstance(expected, ExpectedPane):
                raise PlanError(
                    f".expect({shown(expected)}): expect panes, such as pane(user='a', total=5), or retraction(…)."
                )
        wanted = [{**expected.fields, DIFF: expected.diff} for expected in panes]
        return self._expect("pane", wanted, ["pane" if e.diff > 0 else "retraction" for e in panes])

    @with_option_hints
    def expect_late(self, *rows: Mapping[str, Any]) -> Self:
        """Expect exactly these late rows since the last ``expect_late``."""
        return self._expect("late row", rows, ["expect_late"] * len(rows))

    @with_option_hints
    def expect_dead(self, *rows: Mapping[str, Any], reason: str | None = None) -> Self:
        """Expect exactly these dead letters since the last ``expect_dead``, with this ``reason``."""
        why = {} if reason is None else {REASON: reason}
        return self._expect("dead letter", [{**row, **why} for row in rows], ["expect_dead"] * len(rows))

    @with_option_hints
    def expect_nothing(self) -> Self:
        """Expect no further output: no pane, no late row, no dead letter."""
        return self.expect().expect_late().expect_dead()

    @with_option_hints
    def expect_watermark(self, at: TimeInput | None) -> Self:
        """Expect the watermark to be here; None: there is no watermark yet."""
        wanted = MIN if at is None else self._day.read(at, "watermark")
        if self.watermark_us != wanted:
            problem = f"The watermark is {self._text(self.watermark_us)}, not {self._text(wanted)}."
            raise AssertionError(f"{problem}\n\n{history_text(self._history)}")
        return self

    @with_option_hints
    def ignore(self) -> Self:
        """Drop all output that was not expected."""
        for frames in self._open.values():
            frames.clear()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, problem: type[BaseException] | None, *_: object) -> None:
        if problem is None:
            self.expect_nothing()

    # Results.

    @property
    def panes(self) -> pl.DataFrame:
        """All panes so far, including retractions."""
        if not self._results:
            raise _no_rows_yet()
        return pl.concat([result.panes for result in self._results])

    @property
    def watermark(self) -> datetime | None:
        """The watermark; None before the first watermark and at the end of the stream."""
        return known_datetime(self.watermark_us)

    @property
    def watermark_us(self) -> int:
        """The watermark in microseconds: ``eventide.time.MIN`` before the first, ``MAX`` at the end."""
        return self._results[-1].watermark if self._results else MIN

    @property
    def counts(self) -> Counts:
        """The counts of rows by their fate."""
        return sum((result.counts for result in self._results), Counts())

    def timeline(self) -> Timeline:
        """Return everything that happened, as the data of a chart."""
        if getattr(self._last, "window", global_window()).axis == "rows":
            raise PlanError("A picture shows event time, but these windows count rows.")
        events, watermarks, panes = self._timeline
        return Timeline(tuple(events), tuple(watermarks), tuple(panes))

    @with_option_hints
    def picture(self, path: str | Path, *, title: str = "Event time and processing time", text: str = "") -> Self:
        """Write a chart of everything that happened as an HTML page."""
        Path(path).write_text(picture(self.timeline(), title=title, text=text), encoding="utf-8")
        return self

    def _begin(self, action: str) -> None:
        if self._ended:
            raise PlanError(f".{action}(): the stream has ended. Only expectations may follow .end().")
        if self._strict:
            self.expect_nothing()

    def _local_host(self, action: str) -> LocalHost:
        """The host that runs the pipeline in this process, where commands take effect at once."""
        if self._host is None:
            raise _no_rows_yet()
        if not isinstance(self._host, LocalHost):
            raise PlanError(f".{action}() needs a test in this process. Leave host= out.")
        return self._host

    def _wait(self, by: str | timedelta | None, to: TimeInput | None, *, polled: bool, label: str) -> Self:
        method = ".idle" if polled else ".advance_processing_time"
        if (by is None) == (to is None):
            raise PlanError(f"{method}(): say how long ('10 seconds'), or until when (to='12:05'), not both.")
        until = self._now + duration(by, what=f"by of {method}()") if by is not None else self._day.read(to, "to")
        self._move_clock(until)
        return self._act((), [f"{label} until {self._text(until)}"], None, polled=polled)

    def _move_clock(self, to: int) -> None:
        if to < self._now:
            raise PlanError(f"The clock is at {self._text(self._now)} and cannot go back to {self._text(to)}.")
        self._now = to

    def _act(
        self,
        rows: Sequence[pl.DataFrame | None],
        descriptions: list[str],
        watermark: TimeInput | None,
        *,
        polled: bool = True,
        key: int | str | None = None,
    ) -> Self:
        advanced_to = None if watermark is None else self._day.read(watermark, "watermark")
        if rows and advanced_to is not None and descriptions == []:
            descriptions = [f"watermark {self._text(advanced_to)}"]
        self._waiting.append(_Bundle(rows, descriptions, self._now, advanced_to, polled, key))
        if (schemas := self._inputs.schemas) is not None:
            if self._host is None:
                self._host = self._start_host(self._pipeline, schemas if self._inputs.names else schemas[0])
            waiting, self._waiting = self._waiting, []
            for bundle in waiting:
                self._process(self._host, bundle, schemas)
        return self

    def _process(self, host: Host, bundle: _Bundle, schemas: Sequence[Mapping[str, pl.DataType]]) -> None:
        rows_by_input = bundle.rows or [None] * len(schemas)
        frames = [
            pl.DataFrame(schema=schema) if frame is None else frame
            for frame, schema in zip(rows_by_input, schemas, strict=True)
        ]
        key: dict[str, Any] = {} if bundle.key is None else {"key": bundle.key}
        rows = frames if self._inputs.names else frames[0]
        result = host.bundle(rows, now=bundle.now, watermark=bundle.watermark, polled=bundle.polled, **key)
        result = replace(result, late=self._plain(result.late), dead=self._plain(result.dead))
        self._results.append(result)
        self._open["pane"].append(result.panes)
        self._open["late row"] += result.late
        self._open["dead letter"] += result.dead
        self._remember(bundle, frames, result)

    def _plain(self, outputs: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
        """Return rows of the first pipeline with the columns of their input."""
        return [*self._inputs.plain(outputs[0]), *outputs[1:]]

    def _remember(self, bundle: _Bundle, frames: Sequence[pl.DataFrame], result: BundleResult) -> None:
        pane_shape, panes = self._shaped("pane", [result.panes])
        removed: dict[Fate, list[Row]] = {}
        out = [" ".join(label for _, label in pane_shape.describe(row)) for row in panes]
        fates: tuple[tuple[Fate, str, Sequence[pl.DataFrame]], ...] = (
            ("late", "late row", result.late),
            ("dead", "dead letter", result.dead),
        )
        for label, what, frames_out in fates:
            shape, removed[label] = self._shaped(what, frames_out)
            first = [REASON] if label == "dead" else []
            texts = ([shape.text(n, row[n]) for n in (*first, *shape.values) if n in row] for row in removed[label])
            out += [" ".join([label, *text]) for text in texts]
        descriptions: list[str] = []
        events, watermarks, drawn = self._timeline
        for name, (plan, frame, shape, rows) in zip(
            self._inputs.names or [""], self._inputs.shaped(frames), strict=True
        ):
            descriptions += [
                " ".join(filter(None, (name, *(shape.text(n, row[n]) for n in frame.columns)))) for row in rows
            ]
            events += timelines.events(plan, frame, shape, rows, bundle.now, removed)
        self._history.append(
            HistoryEntry(
                self._text(bundle.now), [*descriptions, *bundle.descriptions], self._text(result.watermark), out
            )
        )
        if result.watermark != watermarks[-1][1]:
            watermarks.append((bundle.now, result.watermark))
        if WINDOW_START in result.panes.columns and self._last.window.axis == "time":
            drawn += timelines.panes(pane_shape, panes, bundle.now)

    def _shaped(self, what: str, frames: Sequence[pl.DataFrame]) -> tuple[Shape, list[Row]]:
        rows = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
        if what == "pane":
            return Shape.of_panes(rows, key=self._last.key, day=self._day)
        added_columns = LATE_COLUMNS if what == "late row" else DEAD_COLUMNS
        values = [name for name in rows.columns if name not in added_columns]
        return Shape.of_rows(rows, what=what, day=self._day, values=values, units=self._inputs.units)

    def _expect(self, what: str, wanted: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Self:
        frames = self._open[what]
        if not frames and not self._results:
            if wanted:
                raise _no_rows_yet()
            return self
        last = self._results[-1]
        nothing = {"pane": [last.panes], "late row": last.late, "dead letter": last.dead}[what]
        shape, rows = self._shaped(what, frames or [frame.clear() for frame in nothing])
        if what == "pane" and DIFF not in shape.kinds:  # a processor emits rows without one
            wanted = [{name: value for name, value in fields.items() if name != DIFF} for fields in wanted]
        read = [shape.read(fields, label) for fields, label in zip(wanted, labels, strict=True)]
        pairing = pair(read, rows, shape.fits)
        if not pairing.complete:
            title = f"{_counted(len(read), what)} expected, {len(rows)} received"
            hint = _HINT if pairing.unexpected else ""
            raise AssertionError(report(title, shape, pairing, self._history, hint))
        frames.clear()
        return self

    def _text(self, us: int) -> str:
        return self._day.write(us)


def _counted(count: int, what: str) -> str:
    return f"{count or 'No'} {what}{'s' * (count != 1)}"


def _no_rows_yet() -> PlanError:
    """Panes were requested before their columns are known."""
    return PlanError("No rows have been added yet, so it is not known which columns panes have. Add rows first.")

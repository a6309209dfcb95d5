"""Runs transcripts on a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.errors import EventideError
from eventide.plan.plan import Plan
from eventide.testing.hosts import LocalHost, StartHost
from eventide.testing.rows import Day, RowReader
from eventide.testing.stream import TestStream
from eventide.testing.transcripts.transcript import Transcript, TranscriptStep


def run(transcript: Transcript, *, host: StartHost = LocalHost) -> TestStream | None:
    """Run a transcript. An ``AssertionError`` has the place, the actual output and all earlier steps.

    Returns the stream, with its panes and its picture; None if the transcript expects a rejected pipeline.
    """
    if transcript.rejected is not None:
        _check_rejection(transcript, transcript.rejected)
        return None
    assert transcript.pipeline is not None
    schema = _schema(transcript, transcript.pipeline.plan)
    stream = TestStream(
        transcript.pipeline, schema=schema, day=transcript.day, clock=transcript.clock, strict=True, host=host
    )
    for step in transcript.steps:
        try:
            _take(stream, step)
        except AssertionError as failure:
            raise AssertionError(f"{step.place}: {transcript.name!r}\n{failure}") from None
    assert stream.counts.balanced, f"{transcript.place}: rows were lost: {stream.counts}"
    return stream


def _schema(transcript: Transcript, plan: Plan) -> Mapping[str, Any]:
    """Return the columns of all rows of a transcript; of several inputs, those of each."""
    day = Day.of(transcript.day)
    if not plan.inputs:
        rows = [row for step in transcript.steps if not isinstance(step.add, Mapping) for row in step.add or ()]
        return RowReader(plan, day).frame(rows).schema
    added = [step.add for step in transcript.steps if isinstance(step.add, Mapping)]
    return {
        stream.name: RowReader(plan.at(edge), day)
        .frame([row for rows in added for row in rows.get(stream.name, ())])
        .schema
        for edge, stream in enumerate(plan.inputs)
    }


def _check_rejection(transcript: Transcript, expected: str) -> None:
    where = f"{transcript.place}: {transcript.name!r}"
    if transcript.rejection is None:
        raise AssertionError(f"{where}: the pipeline was expected to be rejected, but was accepted.")
    if expected not in transcript.rejection:
        raise AssertionError(
            f"{where}: the message was expected to contain {expected!r}, but is:\n{transcript.rejection}"
        )


def _take(stream: TestStream, step: TranscriptStep) -> None:
    if step.fails is not None:
        _fail(stream, step, step.fails)
        return
    _act(stream, step)
    if step.reaches is not None:
        stream.expect_watermark(step.reaches)
    if step.expect or step.acts:
        stream.expect(*step.expect)
    stream.expect_late(*step.late).expect_dead(*step.dead)
    for name, expected in (step.counts or {}).items():
        actual = getattr(stream.counts, name)
        assert actual == expected, f"{name} is {actual}, not {expected}: {stream.counts}"


def _fail(stream: TestStream, step: TranscriptStep, expected: str) -> None:
    try:
        _act(stream, step)
    except EventideError as problem:
        assert expected in str(problem), f"the message was expected to contain {expected!r}, but is:\n{problem}"
        return
    raise AssertionError(f"the job was expected to stop with a message that contains {expected!r}, but went on.")


def _act(stream: TestStream, step: TranscriptStep) -> None:
    if step.wait is not None:
        stream.advance_processing_time(**_pause(step.wait))
    if step.idle is not None:
        stream.idle(**_pause(step.idle))
    if isinstance(step.add, Mapping):
        stream.add(watermark=step.watermark, at=step.at, key=step.key, **step.add)
    elif step.add is not None:
        stream.add(*step.add, watermark=step.watermark, at=step.at, key=step.key)
    elif step.watermark == "end":
        stream.end(None if step.key is None else str(step.key))
    elif step.watermark is not None:
        stream.advance_watermark(step.watermark, key=step.key)


def _pause(text: str) -> dict[str, str]:
    return {"to": text.removeprefix("until ").strip()} if text.startswith("until ") else {"by": text}

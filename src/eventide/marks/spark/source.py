"""``spark.readStream.format("eventide").load("sqlite:///shop.db#orders")``: a stream's events as rows.

One partition for each segment, as Arrow; a segment's successors come in a later batch than its end. Beside its own
columns a row has those of ``PLACE``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eventide.errors import marks as errors
from eventide.marks.segments import Position, Segments
from eventide.marks.spark.planning import last_passed, onward, parts, released, thinned
from eventide.marks.spark.reading import PLACE, pieces_of
from eventide.marks.streams import Stream, open_stream

_ROWS = 100_000  # rows that are sent together
_MARKS = 1_000  # marks that come in one batch, of those that wait


@dataclass(frozen=True)
class Part(InputPartition):
    """A stretch of one segment."""

    segment: int
    start: int
    end: int
    mark: int


def schema_of(address: str, token: str | None) -> StructType:
    """The columns of the stream's events, and where in the stream they were."""
    stream = open_stream(address, token=token)
    for name, _ in PLACE:
        if name in stream.schema.names:
            raise errors.reserved_column(stream.name, name)
    return from_arrow_schema(pa.schema([*stream.schema, *PLACE]))


class Pieces:
    """Reads stretches of segments, in tasks."""

    def __init__(self, address: str, token: str | None, schema: StructType) -> None:
        self._address, self._token = address, token
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a stretch, some at a time."""
        assert isinstance(partition, Part)
        for place, events in pieces_of(self._found(), partition.segment, partition.start, partition.end, rows=_ROWS):
            yield from self._placed(events, partition, place).to_batches()

    def _placed(self, events: pa.Table, part: Part, first: int) -> pa.Table:
        """With the columns that say where the events were."""
        count = len(events)
        offsets = pa.array(np.arange(first, first + count))
        where = (pa.repeat(pa.scalar(part.segment, pa.int64()), count), offsets, pa.repeat(pa.scalar(part.mark), count))
        events = events.combine_chunks()
        for (name, _), values in zip(PLACE, where, strict=True):
            events = events.append_column(name, values)
        return events.cast(self._schema)

    def _found(self) -> Stream:
        return open_stream(self._address, token=self._token)


class Snapshot(Pieces, DataSourceReader):
    """All events that are there, once."""

    def partitions(self) -> Sequence[InputPartition]:
        """One for each segment, those of all epochs; what comes first in the stream has lower numbers."""
        stream = self._found()
        info = stream.info()
        starts, lengths = info.starts, stream.store.lengths(stream.name)
        mark = stream.store.last_mark(stream.name)
        number = 0 if mark is None else mark.number
        ranges = [(one.number, starts.get(one.number, 0), lengths[one.number]) for one in info.segments.all]
        return [Part(segment, start, end, number) for segment, start, end in ranges if end > start]


class Events(Pieces, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The events of a stream, as they come."""

    def __init__(self, address: str, token: str | None, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(address, token, schema)
        self._rows = _whole_number(options, "rows_per_batch")
        self._start = options.get("start", "earliest")
        self._until: tuple[Segments, Position] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        stream = self._found()
        info = stream.info()
        lengths = stream.store.lengths(stream.name)
        if self._start == "earliest":
            begun = {number: info.starts.get(number, 0) for number in info.segments.first}
            position = _truncated(released(begun, info.segments, lengths), info.starts)
        elif self._start == "latest":
            position = {one.number: lengths[one.number] for one in info.segments.open}
        else:
            position = _read_cut(self._start)
            if not info.segments.is_cut(position):
                raise errors.not_a_cut(stream.name, position)
        return _offset(position, 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends."""
        stream = self._found()
        segments, lengths = self._until or _there(stream)
        position = _position(start)
        end = onward(position, segments, lengths, rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return start if end == position else _offset(end, self._passed(stream, start["mark"], end, segments))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the option says."""
        return ReadAllAvailable() if self._rows is None else ReadMaxRows(self._rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, and not what comes meanwhile."""
        self._until = _there(self._found())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the stream goes."""
        stream = self._found()
        segments, lengths = _there(stream)
        return _offset({one.number: lengths[one.number] for one in segments.open}, 0)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What lies between two offsets, a part for each segment."""
        return [Part(*part, end["mark"]) for part in parts(_position(start), _position(end))]

    def stop(self) -> None:
        """The query has ended."""
        _leave_quietly()

    def _passed(self, stream: Stream, known: int, position: Position, segments: Segments) -> int:
        """The last mark that a position has passed."""
        while True:
            marks = stream.store.marks(stream.name, after=known, limit=_MARKS)
            passed = last_passed(marks, position, segments) or known
            if not marks or passed != marks[-1].number:
                return passed
            known = passed


class Parts(Events):
    """Only where the events are: who asks for it reads them itself."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The stretch, as a row."""
        assert isinstance(partition, Part)
        yield (partition.segment, partition.start, partition.end, partition.mark)


class Marks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The marks of a stream, as commands to the operators that follow it."""

    def __init__(self, address: str, token: str | None) -> None:
        self._address, self._token = address, token
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all marks."""
        return {"mark": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The newest mark."""
        return {"mark": max(start["mark"], self._newest() if self._until is None else self._until)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The marks that are there now."""
        self._until = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """All in one."""
        return [Part(0, start["mark"], end["mark"], 0)] if end["mark"] > start["mark"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Each mark as a command. What an earlier one asked to be read is not said again: they are passed in order."""
        assert isinstance(partition, Part)
        stream = open_stream(self._address, token=self._token)
        segments, lengths = _there(stream)
        count = partition.end - partition.start
        before = stream.store.marks(stream.name, after=partition.start - 1, limit=1) if partition.start else []
        asked = segments.ancestors(before[0].cut) if before and before[0].number == partition.start else set()
        marks = stream.store.marks(stream.name, after=partition.start, limit=count)
        # Where the first ones are gone, others come that are of a later batch.
        for mark in thinned([mark for mark in marks if mark.number <= partition.end], _MARKS):
            reached = segments.must_be_read(mark.cut, lengths)
            news = {str(number): offset for number, offset in reached.items() if number not in asked and offset}
            asked = segments.ancestors(mark.cut)
            command = {"do": "cut", "stream": stream.name, "number": mark.number, "time": mark.lower, "reached": news}
            yield (json.dumps({"sent": f"{mark.number:020d}", **command}),)

    def stop(self) -> None:
        """The query has ended."""
        _leave_quietly()

    def _newest(self) -> int:
        stream = open_stream(self._address, token=self._token)
        mark = stream.store.last_mark(stream.name)
        return 0 if mark is None else mark.number


def _leave_quietly() -> None:
    """End this process if Spark has hung up, which is how it ends a source: what follows would be a traceback."""
    if isinstance(sys.exc_info()[1], EOFError):
        os._exit(0)


def _there(stream: Stream) -> tuple[Segments, Position]:
    """Segments and their lengths. In this order: what is sealed does not grow any more."""
    segments = stream.segments
    return segments, stream.store.lengths(stream.name)


def _truncated(position: Position, starts: Position) -> dict[int, int]:
    return {number: max(offset, starts.get(number, 0)) for number, offset in position.items()}


def _offset(position: Position, mark: int) -> dict[str, Any]:
    return {"segments": {str(number): offset for number, offset in position.items()}, "mark": mark}


def _position(offset: Mapping[str, Any]) -> dict[int, int]:
    return {int(number): int(place) for number, place in offset["segments"].items()}


def _read_cut(text: str) -> dict[int, int]:
    try:
        return {int(number): int(offset) for number, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as cause:
        raise errors.bad_start(text) from cause


def _whole_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise errors.bad_source_option(name, text)
    return int(text)

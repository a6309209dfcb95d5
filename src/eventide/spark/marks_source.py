"""The source ``format("eventide")``: readers of events, of ranges of segments, and of marks.

``spark.readStream.format("eventide").load("sqlite:///shop.db#orders")`` reads each segment as one partition of Arrow
batches. The successors of a segment are read in a later batch than its end. Rows also have ``POSITION_COLUMNS``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eventide.errors import PlanError
from eventide.marks.errors import not_a_cut, position_beyond, reserved_column
from eventide.marks.mark import Mark
from eventide.marks.segments import Position, Segments
from eventide.marks.streams import Stream, open_stream
from eventide.spark.marks_batches import (
    POSITION_COLUMNS,
    PositionColumns,
    SegmentRange,
    advance_position,
    exit_if_disconnected,
    last_passed,
    ranges_between,
    read_range,
    sample_numbers,
    stream_extent,
    with_successors,
)

_ROWS = 50_000  # rows that are read together; their data stays in the processor's cache
_MIN_CHUNK = 8_192  # rows; smaller chunks are merged before they are sent to Spark
_MARKS = 1_000  # marks that are read together, and the most marks of one batch


def source_schema(address: str, options: Mapping[str, str]) -> StructType:
    """Return the columns of the events, and those of their position unless the option ``places`` is false."""
    added = POSITION_COLUMNS if _flag(options, "places") else ()
    stream = open_stream(address, token=options.get("token"))
    for name, _ in POSITION_COLUMNS:
        if name in stream.schema.names:
            raise reserved_column(stream.name, name)
    for field in stream.schema:
        try:
            from_arrow_schema(pa.schema([field]))
        except Exception as cause:
            raise PlanError(
                f"Spark has no type for column {field.name!r} of stream {stream.name!r} ({field.type}). "
                "Cast it when writing."
            ) from cause
    # Not nullable: Spark then skips a check for each row.
    return from_arrow_schema(pa.schema([*stream.schema, *(pa.field(*column, nullable=False) for column in added)]))


class RangeReader:
    """Reads ranges of segments, in tasks."""

    def __init__(self, address: str, token: str | None, schema: StructType) -> None:
        self._address, self._token = address, token
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a range."""
        assert isinstance(partition, SegmentRange)
        position = PositionColumns(partition.segment, partition.mark)
        ranges = read_range(self._open(), partition.segment, partition.start, partition.end, rows=_ROWS)
        for first, events in ranges:
            if len(events) < _MIN_CHUNK * max((column.num_chunks for column in events.columns), default=0):
                events = events.combine_chunks()
            if len(events.schema) < len(self._schema):
                events = position.append_to(events, first)
            yield from events.cast(self._schema, safe=False).to_batches()  # Spark has no nanoseconds

    def _open(self) -> Stream:
        return open_stream(self._address, token=self._token)


class SnapshotReader(RangeReader, DataSourceReader):
    """Reads all events that exist, once."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each segment of all epochs. Earlier segments have lower numbers."""
        stream = self._open()
        info = stream.info()
        lengths = stream.store.lengths(stream.name)
        last = stream.store.last_mark(stream.name)
        mark = 0 if last is None else last.number
        ranges = [
            SegmentRange(segment.number, info.starts.get(segment.number, 0), lengths[segment.number], mark)
            for segment in info.segments.all
        ]
        return [part for part in ranges if part.end > part.start]


class EventsReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events of a stream as they arrive."""

    def __init__(self, address: str, token: str | None, schema: StructType, options: Mapping[str, str]) -> None:
        super().__init__(address, token, schema)
        self._rows = _whole_number(options, "rows_per_batch")
        self._start = options.get("start", "earliest")
        self._until: tuple[Segments, Position] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query starts."""
        stream = self._open()
        starts = stream.info().starts
        segments, lengths = self._until or stream_extent(stream)
        if self._start == "earliest":
            position = _earliest(segments, lengths, starts)
        elif self._start == "latest":
            position = {segment.number: lengths[segment.number] for segment in segments.open}
        else:
            position = _parse_cut(self._start)
            if not segments.is_cut(position):
                raise not_a_cut(stream.name, position)
            _check_position(stream.name, position, lengths)
        return _offset(position, 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends."""
        stream = self._open()
        segments, lengths = self._until or stream_extent(stream)
        position = _position(start)
        _check_position(stream.name, position, lengths)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = advance_position(position, segments, lengths, rows=rows)
        if end == position:
            return start
        # The start of a batch is logged with its end: a new query that is killed in its first batch asks again for
        # its start.
        return _offset(end, self._last_passed(stream, start["mark"], end, segments)) | {"begun": start["segments"]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the option ``rows_per_batch``."""
        return ReadAllAvailable() if self._rows is None else ReadMaxRows(self._rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the events that exist now."""
        self._until = stream_extent(self._open())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the stream."""
        segments, lengths = stream_extent(self._open())
        return _offset({segment.number: lengths[segment.number] for segment in segments.open}, 0)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offsets, one for each segment."""
        begun = {"segments": end["begun"]} if "begun" in end else start
        return [SegmentRange(*bounds, end["mark"]) for bounds in ranges_between(_position(begun), _position(end))]

    def stop(self) -> None:
        """End the query."""
        exit_if_disconnected()

    def _last_passed(self, stream: Stream, mark: int, position: Position, segments: Segments) -> int:
        """Return the last mark that a position has passed, beginning after ``mark``."""
        while True:
            marks = stream.store.marks(stream.name, after=mark, limit=_MARKS)
            passed = last_passed(marks, position, segments) or mark
            if not marks or passed != marks[-1].number:
                return passed
            mark = passed


class RangesReader(EventsReader):
    """Reads only the ranges of events, for ``scan_stream``, whose tasks read the events themselves."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the range as a row."""
        assert isinstance(partition, SegmentRange)
        yield (partition.segment, partition.start, partition.end, partition.mark)


def _earliest(segments: Segments, lengths: Position, starts: Position) -> dict[int, int]:
    """Return the first position after which nothing is truncated."""
    position = {number: starts.get(number, 0) for number in segments.first}
    while True:
        following = with_successors(position, segments, lengths)
        following = {number: max(offset, starts.get(number, 0)) for number, offset in following.items()}
        if following == position:
            return position
        position = following


def _check_position(stream: str, position: Position, lengths: Position) -> None:
    """Reject a position beyond the end of the stream: the stream was replaced by another one."""
    for number, offset in position.items():
        if not 0 <= offset <= lengths.get(number, -1):
            raise position_beyond(stream, number, offset, lengths.get(number, 0))


def _offset(position: Position, mark: int) -> dict[str, Any]:
    return {"segments": {str(number): offset for number, offset in position.items()}, "mark": mark}


def _position(offset: Mapping[str, Any]) -> dict[int, int]:
    return {int(number): int(value) for number, value in offset["segments"].items()}


def _parse_cut(text: str) -> dict[int, int]:
    try:
        return {int(number): int(offset) for number, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as cause:
        raise PlanError(
            f"option('start', {text!r}): it must be 'earliest', 'latest', or a cut as JSON: '{{\"0\": 100}}'."
        ) from cause


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise PlanError(f"option({name!r}, {text!r}): it must be 'true' or 'false'.")
    return text == "true"


def _whole_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise PlanError(f"option({name!r}, {text!r}): it must be a whole number, 1 or more.")
    return int(text)


class MarksReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the marks of a stream, as commands for the operators that use them."""

    def __init__(self, address: str, token: str | None, identity: str) -> None:
        self._address, self._token, self._identity = address, token, identity
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before all marks."""
        return {"mark": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset of the newest mark."""
        return {"mark": max(start["mark"], self._newest() if self._until is None else self._until)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit the query to the marks that exist now."""
        self._until = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one partition with all marks."""
        return [SegmentRange(0, start["mark"], end["mark"], 0)] if end["mark"] > start["mark"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Yield each mark as a command. It has only offsets that earlier marks did not have: marks pass in order."""
        assert isinstance(partition, SegmentRange)
        stream = open_stream(self._address, token=self._token)
        segments, lengths = stream_extent(stream)
        previous = [*_marks_at(stream, [partition.start])] if partition.start else []
        required = segments.must_be_read(previous[0].cut, lengths) if previous else {}
        for mark in _marks_at(stream, sample_numbers(partition.start, partition.end, _MARKS)):
            reached = segments.must_be_read(mark.cut, lengths)
            new = {str(number): offset for number, offset in reached.items() if offset > required.get(number, 0)}
            required = reached
            command = {"do": "cut", "stream": self._identity, "number": mark.number, "time": mark.lower, "reached": new}
            yield (json.dumps({"sent": f"{mark.number:020d}", **command}),)

    def stop(self) -> None:
        """End the query."""
        exit_if_disconnected()

    def _newest(self) -> int:
        stream = open_stream(self._address, token=self._token)
        mark = stream.store.last_mark(stream.name)
        return 0 if mark is None else mark.number


def _marks_at(stream: Stream, numbers: Sequence[int]) -> Iterator[Mark]:
    """Yield the marks with these numbers, except those that were dropped."""
    for number in numbers:
        for mark in stream.store.marks(stream.name, after=number - 1, limit=1):
            if mark.number == number:
                yield mark

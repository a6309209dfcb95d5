"""``spark.readStream.format("eventide").load("sqlite:///shop.db#orders")``: a stream's events as rows.

One partition for each segment, as Arrow; a segment's successors come in a later batch than its end. Beside its own
columns a row has those of ``PLACE``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from eventide.marks.spark.planning import last_passed, onward, parts, released
from eventide.marks.spark.reading import PLACE, Part, Places, leave_quietly, pieces_of, there
from eventide.marks.streams import Stream, open_stream

_ROWS = 50_000  # rows that are read together; what they need stays in the cache of a processor
_FEW = 8_192  # rows of a batch for Spark that are too few to be sent by themselves
_MARKS = 1_000  # marks that come in one batch, of those that wait


def schema_of(address: str, options: Mapping[str, str]) -> StructType:
    """The columns of the stream's events, and where in the stream they were unless ``places`` is false."""
    places = PLACE if _yes(options, "places") else ()
    stream = open_stream(address, token=options.get("token"))
    for name, _ in PLACE:
        if name in stream.schema.names:
            raise errors.reserved_column(stream.name, name)
    for field in stream.schema:
        try:
            from_arrow_schema(pa.schema([field]))
        except Exception as cause:
            raise errors.not_on_spark(stream.name, field.name, field.type) from cause
    # What is never null Spark does not have to ask about, row by row.
    return from_arrow_schema(pa.schema([*stream.schema, *(pa.field(*one, nullable=False) for one in places)]))


class Pieces:
    """Reads stretches of segments, in tasks."""

    def __init__(self, address: str, token: str | None, schema: StructType) -> None:
        self._address, self._token = address, token
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a stretch, some at a time."""
        assert isinstance(partition, Part)
        places = Places(partition.segment, partition.mark)
        for first, events in pieces_of(self._found(), partition.segment, partition.start, partition.end, rows=_ROWS):
            if len(events) < _FEW * max((column.num_chunks for column in events.columns), default=0):
                events = events.combine_chunks()
            if len(events.schema) < len(self._schema):
                events = places.beside(events, first)
            yield from events.cast(self._schema, safe=False).to_batches()  # Spark has no nanoseconds

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
        starts = stream.info().starts
        segments, lengths = self._until or there(stream)
        if self._start == "earliest":
            position = _first(segments, lengths, starts)
        elif self._start == "latest":
            position = {one.number: lengths[one.number] for one in segments.open}
        else:
            position = _read_cut(self._start)
            if not segments.is_cut(position):
                raise errors.not_a_cut(stream.name, position)
            _check(stream.name, position, lengths)
        return _offset(position, 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends."""
        stream = self._found()
        segments, lengths = self._until or there(stream)
        position = _position(start)
        _check(stream.name, position, lengths)
        end = onward(position, segments, lengths, rows=limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        if end == position:
            return start
        # Where a batch began is logged with its end: a new query that is killed in its first batch asks again.
        return _offset(end, self._passed(stream, start["mark"], end, segments)) | {"begun": start["segments"]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the option says."""
        return ReadAllAvailable() if self._rows is None else ReadMaxRows(self._rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, and not what comes meanwhile."""
        self._until = there(self._found())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the stream goes."""
        stream = self._found()
        segments, lengths = there(stream)
        return _offset({one.number: lengths[one.number] for one in segments.open}, 0)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What lies between two offsets, a part for each segment."""
        begun = {"segments": end["begun"]} if "begun" in end else start
        return [Part(*part, end["mark"]) for part in parts(_position(begun), _position(end))]

    def stop(self) -> None:
        """The query has ended."""
        leave_quietly()

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


def _first(segments: Segments, lengths: Position, starts: Position) -> dict[int, int]:
    """The first position of which nothing was truncated."""
    position = {number: starts.get(number, 0) for number in segments.first}
    while True:
        begun = released(position, segments, lengths)
        begun = {number: max(offset, starts.get(number, 0)) for number, offset in begun.items()}
        if begun == position:
            return position
        position = begun


def _check(stream: str, position: Position, lengths: Position) -> None:
    """Refuse a position that lies beyond the stream, which must be another one than it was."""
    for number, offset in position.items():
        if not 0 <= offset <= lengths.get(number, -1):
            raise errors.position_beyond(stream, number, offset, lengths.get(number, 0))


def _offset(position: Position, mark: int) -> dict[str, Any]:
    return {"segments": {str(number): offset for number, offset in position.items()}, "mark": mark}


def _position(offset: Mapping[str, Any]) -> dict[int, int]:
    return {int(number): int(place) for number, place in offset["segments"].items()}


def _read_cut(text: str) -> dict[int, int]:
    try:
        return {int(number): int(offset) for number, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as cause:
        raise errors.bad_start(text) from cause


def _yes(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise errors.bad_switch(name, text)
    return text == "true"


def _whole_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise errors.bad_source_option(name, text)
    return int(text)

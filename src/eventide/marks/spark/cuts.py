"""The marks of a stream as a source of its own, which goes into operators beside the events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from eventide.marks.mark import Mark
from eventide.marks.spark.planning import thinned
from eventide.marks.spark.reading import Part, leave_quietly, there
from eventide.marks.streams import Stream, open_stream

_MARKS = 1_000  # marks that come in one batch, of those that wait


class Marks(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The marks of a stream, as commands to the operators that follow it."""

    def __init__(self, address: str, token: str | None, identity: str) -> None:
        self._address, self._token, self._identity = address, token, identity
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
        segments, lengths = there(stream)
        before = [*_marks_at(stream, [partition.start])] if partition.start else []
        asked = segments.must_be_read(before[0].cut, lengths) if before else {}
        for mark in _marks_at(stream, thinned(partition.start, partition.end, _MARKS)):
            reached = segments.must_be_read(mark.cut, lengths)
            news = {str(number): offset for number, offset in reached.items() if offset > asked.get(number, 0)}
            asked = reached
            told = {"do": "cut", "stream": self._identity, "number": mark.number, "time": mark.lower, "reached": news}
            yield (json.dumps({"sent": f"{mark.number:020d}", **told}),)

    def stop(self) -> None:
        """The query has ended."""
        leave_quietly()

    def _newest(self) -> int:
        stream = open_stream(self._address, token=self._token)
        mark = stream.store.last_mark(stream.name)
        return 0 if mark is None else mark.number


def _marks_at(stream: Stream, numbers: Sequence[int]) -> Iterator[Mark]:
    """The marks with these numbers, one at a time; those that were dropped are left out."""
    for number in numbers:
        for mark in stream.store.marks(stream.name, after=number - 1, limit=1):
            if mark.number == number:
                yield mark

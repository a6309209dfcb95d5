"""The state pages of one operator, stored in the commit records of the batches that wrote them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eventide.spark.commit_log import CommitLog
from eventide.state.record import RecordBuilder, Span

_MOVED = 4 << 20  # bytes that one batch copies at most, so that no batch pays for all
_SPARSE = 0.25  # a record with a smaller live part is copied into a new one


@dataclass(frozen=True)
class PagePlace:
    """Where a page is stored."""

    record: int
    offset: int
    length: int
    checksum: int

    @property
    def span(self) -> Span:
        """The bytes within the record."""
        return Span(self.offset, self.length, self.checksum)


class RecordPages:
    """The pages of one operator: a page is appended to the current record, and found by its place later.

    Records that hold few live pages are compacted: their pages move to the current record, and the file is free to
    expire once no retained record refers to it.
    """

    def __init__(self, log: CommitLog, manifest: bytes = b"", batch: int = -1) -> None:
        rows = np.frombuffer(manifest, dtype="<i8").reshape(-1, 5).tolist()
        self._log = log
        self._places = {number: PagePlace(*place) for number, *place in rows}
        self._new: dict[int, bytes] = {}
        self._builder = RecordBuilder()
        self._batch = batch
        self._written: dict[int, int] = {}  # bytes of pages in each record
        self._live: dict[int, int] = {}
        self._left: dict[int, int] = {}  # records without live pages, and the batch from which on they have none
        for place in self._places.values():
            self._written[place.record] = self._written.get(place.record, 0) + place.length
        self._live = dict(self._written)

    def start(self, batch: int, builder: RecordBuilder) -> None:
        """Append to the record of a batch from now on."""
        self._batch, self._builder, self._new = batch, builder, {}

    def get(self, page: int) -> bytes:
        """Return the body of a page, checked."""
        if page in self._new:
            return self._new[page]
        place = self._places[page]
        return self._log.read_part(place.record, place.span)

    def bodies(self) -> dict[int, bytes]:
        """Return all pages."""
        stored: dict[int, dict[int, Span]] = {}
        for page, place in self._places.items():
            if page not in self._new:
                stored.setdefault(place.record, {})[page] = place.span
        bodies = dict(self._new)
        for record, spans in stored.items():
            bodies |= zip(spans, self._log.read_parts(record, list(spans.values())), strict=True)
        return bodies

    def put(self, page: int, body: bytes) -> None:
        """Append a page to the current record."""
        span = self._builder.add(body)
        self._place(page, PagePlace(self._batch, span.offset, span.length, span.checksum))
        self._new[page] = body

    def drop(self, page: int) -> None:
        """Forget a page."""
        self._new.pop(page, None)
        self._release(self._places.pop(page))

    def compact(self) -> None:
        """Move the pages of sparse records to the current one, a bounded number of bytes per batch."""
        sparse = {
            record
            for record, live in self._live.items()
            if record != self._batch and 0 < live < self._written[record] * _SPARSE
        }
        if not sparse:
            return
        budget = _MOVED
        for page in [page for page, place in self._places.items() if place.record in sparse]:
            place = self._places[page]
            if place.length > budget:
                break
            budget -= place.length
            body = self.get(page)
            self._release(place)
            self.put(page, body)

    def manifest(self) -> bytes:
        """Return where all pages are, as bytes."""
        rows = [
            (number, place.record, place.offset, place.length, place.checksum) for number, place in self._places.items()
        ]
        return np.array(rows, dtype="<i8").tobytes()

    def finish(self) -> None:
        """Forget the bodies of the record that was written."""
        self._new = {}
        self._builder = RecordBuilder()

    def needed(self) -> set[int]:
        """Return the records that this or another retained record refers to."""
        self._left = {r: batch for r, batch in self._left.items() if self._batch - batch <= self._log.retain}
        return {record for record, live in self._live.items() if live} | set(self._left)

    def _place(self, page: int, place: PagePlace) -> None:
        self._places[page] = place
        self._written[place.record] = self._written.get(place.record, 0) + place.length
        self._live[place.record] = self._live.get(place.record, 0) + place.length

    def _release(self, place: PagePlace) -> None:
        self._live[place.record] -= place.length
        if not self._live[place.record]:
            del self._live[place.record], self._written[place.record]
            self._left[place.record] = self._batch

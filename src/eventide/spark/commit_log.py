"""The commit log of a query whose state is in the driver: one immutable record per batch, and the state pages in it.

Record N is written before any sink sees batch N. If Spark repeats batch N, the record is delivered again instead of
being computed again, because a repeated batch has the same offsets but not always the same rows.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from eventide.errors import DataError
from eventide.spark.source_log import logs_behind
from eventide.spark.storage import RECORDS, Storage, read_text
from eventide.state.commit_record import Record, RecordBuilder, Span

_EPOCHS = "eventide/epochs"
_COMPACTED = 4 << 20  # bytes that one batch copies at most, so that no batch pays for all
_SPARSE = 0.25  # a record with a smaller live part is copied into a new one
_PAGE_NUMBERS, _RECORD_NUMBERS = 5, 3  # for each page and each record in a manifest


@dataclass(frozen=True)
class BatchOffsets:
    """What Spark logged of a batch before it started."""

    batch: int
    time: int  # of the batch, in microseconds
    digest: str


class CommitLog:
    """Commit records of a checkpoint. ``take_epoch`` fences older drivers.

    ``records`` is where the records are stored if they are not in the checkpoint itself.
    """

    def __init__(self, checkpoint: Storage, records: Storage | None = None, *, retain: int = 100) -> None:
        self._checkpoint = checkpoint
        self._storage = checkpoint if records is None else records
        self.retain = retain  # the number of batches whose records stay readable
        self.epoch = 0
        self._batches: list[int] = []
        self._output_files: set[str] = set()
        self._logged: tuple[int, str | None] = -1, None  # the last batch, and its offsets as Spark logged them

    @property
    def location(self) -> str:
        """The directory of the records, for messages."""
        return f"{self._storage.location}/{RECORDS}"

    def take_epoch(self) -> None:
        """Become the only writer of the log: an epoch above all others, created exclusively."""
        newest = self._newest_epoch()
        owner = [uuid.uuid4().bytes]  # what another driver never writes
        while not self._storage.create(f"{_EPOCHS}/{newest + 1}", owner):
            newest += 1
        self.epoch = newest + 1
        self._storage.delete(f"{_EPOCHS}/{old}" for old in range(max(1, newest - 8), newest))
        self.check_epoch()  # the unfinished files may be those of a driver that has taken over in the meantime
        self._storage.delete_unfinished(RECORDS)
        names = self._storage.list(RECORDS)
        self._batches = sorted(int(name) for name in names if name.isdigit())
        if self._batches:  # its writer may have ended before the entry of the directory was durable
            self._storage.sync(f"{RECORDS}/{self._batches[-1]}")
        self._output_files = {name for name in names if "." in name}

    def check_epoch(self) -> None:
        """Raise an error if another driver has taken over.

        Called before a driver creates a record, writes to sinks, or deletes commands.
        """
        if (newest := self._newest_epoch()) > self.epoch:  # not only the next one: old epochs are deleted
            raise DataError(
                f"Another driver (epoch {newest}) runs the query of this checkpoint now. "
                f"This driver (epoch {self.epoch}) stops before it writes anything else."
            )

    def batches(self) -> set[int]:
        """Return the batches that have a record."""
        return {int(name) for name in self._storage.list(RECORDS) if name.isdigit()}

    def newest(self) -> Record | None:
        """Return the newest record, for a reader that writes nothing; None if there is none."""
        batches = self.batches()
        return self.read(max(batches)) if batches else None

    def offsets(self, batch: int) -> BatchOffsets:
        """Return the logged time of a batch and a digest of its offsets, once Spark's logs of them are durable.

        Spark does not flush its logs. After a power failure it would choose other offsets or files, or another id.
        """
        name = f"offsets/{batch}"
        text = self._checkpoint.read(name)
        before, previous = self._logged
        if before != batch - 1:
            previous = read_text(self._checkpoint, f"offsets/{batch - 1}")
        self._logged = batch, text.decode()
        for log in [*logs_behind(text.decode(), previous), name]:
            with suppress(FileNotFoundError):  # not every source has a log
                self._checkpoint.sync(log)
        header = json.loads(text.split(b"\n", 2)[1])
        return BatchOffsets(batch, int(header["batchTimestampMs"]) * 1000, hashlib.sha256(text).hexdigest()[:16])

    def find(self, batch: int, skipped: Collection[int] = ()) -> tuple[Record | None, bool]:
        """Return the record that a batch starts from, and whether it is the record of that batch itself.

        None: this is the first batch. ``skipped`` are batches that Spark does not run, because their files are gone.
        """
        newest = self._batches[-1] if self._batches else None
        if newest is not None and newest > batch:
            raise DataError(
                f"Spark starts batch {batch}, but {self.location} has commit records up to batch {newest}. "
                "The checkpoint was restored from a backup without its eventide directory, or the other way round. "
                "Restore both from the same copy."
            )
        if newest == batch:
            return self.read(batch), True
        previous = batch - 1
        while previous in skipped:
            previous -= 1
        if newest == previous:
            return self.read(previous), False
        if previous < 0:
            return None, False
        raise DataError(
            f"Batch {batch} needs the commit record of batch {batch - 1} in {self.location}, and it is missing. "
            "State is never started from empty: restore the directory, or start a new checkpoint."
        )

    def read(self, batch: int) -> Record:
        """Return the record of a batch."""
        return Record.open(f"{self.location}/{batch}", partial(self._storage.read, f"{RECORDS}/{batch}"))

    def read_part(self, batch: int, span: Span) -> bytes:
        """Return a part of a record, checked."""
        return self.read_parts(batch, [span])[0]

    def read_parts(self, batch: int, spans: Sequence[Span]) -> list[bytes]:
        """Return parts of a record, checked. Parts that fill half of a range are read at once, in one request."""
        name = f"{self.location}/{batch}"
        start = min(span.offset for span in spans)
        length = max(span.offset + span.length for span in spans) - start
        if length > 2 * sum(span.length for span in spans):
            return [self.read_part(batch, span) for span in spans]
        try:
            body = self._storage.read(f"{RECORDS}/{batch}", start, length)
        except FileNotFoundError as cause:
            raise DataError(
                f"The commit record {name} is missing, and later batches refer to state in it. "
                "Restore the file from a copy of the checkpoint, or start a new checkpoint."
            ) from cause
        if len(spans) == 1:
            return [spans[0].verified(body, name)]
        return [span.verified(body[(place := span.offset - start) : place + span.length], name) for span in spans]

    def check_offsets(self, record: Record, offsets: BatchOffsets) -> None:
        """Raise an error if Spark repeats a committed batch with other offsets."""
        recorded = record.footer["offsets"]
        if recorded != offsets.digest:
            raise DataError(
                f"Batch {offsets.batch} was committed with other source offsets (digest {recorded}) than "
                f"Spark repeats it with (digest {offsets.digest}). The offset log of the checkpoint was lost or "
                "replaced. Restore it from the same copy as the eventide directory."
            )

    def commit(self, batch: int, builder: RecordBuilder, footer: Mapping[str, object]) -> None:
        """Write the record of a batch durably. Raise an error if another driver has taken over or has written it."""
        self.check_epoch()
        self._create(f"{RECORDS}/{batch}", builder.finish({"batch": batch, "epoch": self.epoch, **footer}))
        self._batches.append(batch)

    def write_output(self, batch: int, name: str, pieces: Sequence[bytes]) -> str:
        """Store a large output next to the record that will name it. A repeated attempt gets another name."""
        file = f"{batch}.{name}.{self.epoch}"
        self._create(f"{RECORDS}/{file}", pieces)
        self._output_files.add(file)
        return f"{RECORDS}/{file}"

    def read_output(self, file: str) -> bytes:
        """Return a large output."""
        return self._storage.read(file)

    def delete_outputs(self, batch: int) -> None:
        """Delete the large outputs of batches up to ``batch``. A later batch has started: Spark has committed them."""
        names = {name for name in self._output_files if int(name.partition(".")[0]) <= batch}
        self._storage.delete(f"{RECORDS}/{name}" for name in names)
        self._output_files -= names

    def expire(self, batch: int, needed: set[int]) -> None:
        """Delete records beyond the retention that no retained record refers to."""
        expired = {old for old in self._batches if old <= batch - max(self.retain, 2) and old not in needed}
        if expired:
            self._storage.delete(f"{RECORDS}/{old}" for old in sorted(expired))
            self._batches = [record for record in self._batches if record not in expired]

    def _newest_epoch(self) -> int:
        return max((int(name) for name in self._storage.list(_EPOCHS) if name.isdigit()), default=0)

    def _create(self, name: str, pieces: Sequence[bytes]) -> None:
        """Create a file. Reject one that another driver has created, which may happen after the check of the epoch."""
        try:
            created = self._storage.create(name, pieces)
        except OSError:
            self.check_epoch()  # a driver that has taken over deletes what others have not finished
            raise
        if created:
            return
        self.check_epoch()
        raise DataError(
            f"Another driver has written {self._storage.location}/{name} while this one computed the same batch. "
            "Start the query again: it continues from that file."
        )


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
    """The state pages of one operator, in the records of the batches that wrote them.

    A page is appended to the current record, and found by its place later. Records that hold few live pages are
    compacted: their pages move to the current record, and the file expires once no retained record refers to it.
    """

    def __init__(self, log: CommitLog, manifest: bytes = b"", batch: int = -1) -> None:
        places, records = _read_manifest(manifest)
        self._log = log
        self._places = {number: PagePlace(*place) for number, *place in places}
        self._new: dict[int, bytes] = {}
        self._builder = RecordBuilder()
        self._batch = batch
        # Bytes of pages that were written into each record with live pages.
        self._written = {record: written for record, written, emptied in records if emptied < 0}
        # Records without live pages, and the batch that moved or dropped the last one.
        self._emptied = {record: emptied for record, _, emptied in records if emptied >= 0}
        self._live: dict[int, int] = {}
        for place in self._places.values():
            self._live[place.record] = self._live.get(place.record, 0) + place.length

    @property
    def live_bytes(self) -> int:
        """The bytes of all pages."""
        return sum(self._live.values())

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
        moved = 0
        for page in [page for page, place in self._places.items() if place.record in sparse]:
            place = self._places[page]
            if moved and moved + place.length > _COMPACTED:
                continue  # until it is the first: a page above the limit moves alone
            moved += place.length
            body = self.get(page)
            self._release(place)
            self.put(page, body)

    def manifest(self) -> bytes:
        """Return where all pages are, and what is known of the records that hold or held them, as bytes."""
        numbers = [len(self._places)]
        for number, place in self._places.items():
            numbers += (number, place.record, place.offset, place.length, place.checksum)
        for record, written in self._written.items():
            numbers += (record, written, -1)
        for record, batch in self._emptied.items():
            numbers += (record, 0, batch)
        return np.array(numbers, dtype="<i8").tobytes()

    def finish(self) -> None:
        """Forget the bodies of the record that was written."""
        self._new = {}
        self._builder = RecordBuilder()

    def needed(self) -> set[int]:
        """Return the records that this or another retained record refers to."""
        self._emptied = {
            record: batch for record, batch in self._emptied.items() if self._batch - batch <= self._log.retain
        }
        return {record for record, live in self._live.items() if live} | set(self._emptied)

    def _place(self, page: int, place: PagePlace) -> None:
        self._places[page] = place
        self._written[place.record] = self._written.get(place.record, 0) + place.length
        self._live[place.record] = self._live.get(place.record, 0) + place.length

    def _release(self, place: PagePlace) -> None:
        self._live[place.record] -= place.length
        if not self._live[place.record]:
            del self._live[place.record], self._written[place.record]
            self._emptied[place.record] = self._batch


def _read_manifest(manifest: bytes) -> tuple[list[list[int]], list[list[int]]]:
    """Return the rows of pages and those of records, as ``RecordPages.manifest`` writes them."""
    if not manifest:
        return [], []
    numbers = np.frombuffer(manifest, dtype="<i8")
    end = 1 + _PAGE_NUMBERS * int(numbers[0])
    return numbers[1:end].reshape(-1, _PAGE_NUMBERS).tolist(), numbers[end:].reshape(-1, _RECORD_NUMBERS).tolist()

"""The commit log of a query whose state is in the driver: one immutable record per batch.

Record N is written before any sink sees batch N. If Spark repeats batch N, the record is delivered again instead of
being computed again, because a repeated batch has the same offsets but not always the same rows.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from eventide.errors import state as errors
from eventide.spark.storage import RECORDS, Storage
from eventide.state.record import Record, RecordBuilder, Span

_EPOCHS = "eventide/epochs"


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
        self._records: list[int] = []
        self._beside: set[str] = set()  # names of large outputs

    @property
    def location(self) -> str:
        """The directory of the records, for messages."""
        return f"{self._storage.location}/{RECORDS}"

    def take_epoch(self) -> None:
        """Become the one writer of the log: an epoch above all others, created exclusively."""
        newest = max((int(name) for name in self._storage.list(_EPOCHS) if name.isdigit()), default=0)
        owner = [uuid.uuid4().bytes]  # what another driver never writes
        while not self._storage.create(f"{_EPOCHS}/{newest + 1}", owner):
            newest += 1
        self.epoch = newest + 1
        self._storage.delete(f"{_EPOCHS}/{old}" for old in range(max(1, newest - 8), newest))
        names = self._storage.list(RECORDS)
        self._records = sorted(int(name) for name in names if name.isdigit())
        self._beside = {name for name in names if "." in name}

    def batches(self) -> set[int]:
        """Return the batches that have a record."""
        return {int(name) for name in self._storage.list(RECORDS) if name.isdigit()}

    def newest(self) -> Record | None:
        """Return the newest record, for a reader that writes nothing; None if there is none."""
        batches = self.batches()
        return self.read(max(batches)) if batches else None

    def check_epoch(self) -> None:
        """Raise an error if another driver has taken over. Called before sinks write."""
        if self._storage.exists(f"{_EPOCHS}/{self.epoch + 1}"):
            raise errors.fenced(self.epoch, self.epoch + 1)

    def offsets(self, batch: int) -> BatchOffsets:
        """Return the logged time of a batch and a digest of its offsets, once they are durable."""
        name = f"offsets/{batch}"
        self._checkpoint.sync(name)  # Spark does not: after a power failure it would choose other offsets
        text = self._checkpoint.read(name)
        about = json.loads(text.split(b"\n", 2)[1])
        return BatchOffsets(batch, int(about["batchTimestampMs"]) * 1000, hashlib.sha256(text).hexdigest()[:16])

    def find(self, batch: int, skipped: Collection[int] = ()) -> tuple[Record | None, bool]:
        """Return the record that a batch starts from, and whether it is that batch's own.

        None: this is the first batch. ``skipped`` are batches that Spark does not run, because their files are gone.
        """
        newest = self._records[-1] if self._records else None
        if newest is not None and newest > batch:
            raise errors.records_ahead(batch, newest, self.location)
        if newest == batch:
            return self.read(batch), True
        previous = batch - 1
        while previous in skipped:
            previous -= 1
        if newest == previous:
            return self.read(previous), False
        if previous < 0:
            return None, False
        raise errors.missing_record(batch, self.location)

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
            raise errors.missing_pages(name) from cause
        if len(spans) == 1:
            return [spans[0].verified(body, name)]
        return [span.verified(body[(place := span.offset - start) : place + span.length], name) for span in spans]

    def check_offsets(self, record: Record, offsets: BatchOffsets) -> None:
        """Raise an error if Spark repeats a committed batch with other offsets."""
        recorded = record.footer["offsets"]
        if recorded != offsets.digest:
            raise errors.other_offsets(offsets.batch, recorded, offsets.digest)

    def write_beside(self, batch: int, name: str, pieces: Sequence[bytes]) -> str:
        """Store a large output next to the record that will name it. A repeated attempt gets another name."""
        file = f"{RECORDS}/{batch}.{name}.{self.epoch}"
        if not self._storage.create(file, pieces):
            raise errors.fenced(self.epoch, self.epoch + 1)
        self._beside.add(file.removeprefix(f"{RECORDS}/"))
        return file

    def read_beside(self, file: str) -> bytes:
        """Return a large output."""
        return self._storage.read(file)

    def drop_beside(self, batch: int) -> None:
        """Delete the large outputs of batches up to ``batch``. A later batch has started: Spark has committed them."""
        names = {name for name in self._beside if int(name.partition(".")[0]) <= batch}
        self._storage.delete(f"{RECORDS}/{name}" for name in names)
        self._beside -= names

    def commit(self, batch: int, builder: RecordBuilder, footer: Mapping[str, object]) -> None:
        """Write the record of a batch durably, or raise an error if there is one already."""
        about = {"batch": batch, "epoch": self.epoch, **footer}
        if not self._storage.create(f"{RECORDS}/{batch}", builder.finish(about)):
            raise errors.fenced(self.epoch, self.epoch + 1)
        self._records.append(batch)

    def expire(self, batch: int, needed: set[int]) -> None:
        """Delete records beyond the retention that no retained record refers to."""
        old = [record for record in self._records if record <= batch - max(self.retain, 2) and record not in needed]
        if old:
            self._storage.delete(f"{RECORDS}/{record}" for record in old)
            self._records = [record for record in self._records if record not in set(old)]

"""Compaction: adjacent small blobs are replaced by one larger blob.

Readers pay a fixed cost per blob, so many small appends are slow to read. Compaction changes neither events nor their
offsets. Appends compact what they fill; the controller that owns a stream compacts the rest, one step per round.
Concurrent compactions are safe: the lease only avoids duplicate work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from eventide.marks.events import decode_all, encode
from eventide.marks.stores.store import Store


class BlobSize(NamedTuple):
    """The offset and size of a blob."""

    offset: int
    rows: int
    bytes: int

    @property
    def end(self) -> int:
        """The offset after its last event."""
        return self.offset + self.rows


Run: TypeAlias = Sequence[BlobSize]
"""Adjacent blobs to replace by one."""


class SegmentBlobs(Protocol):
    """The blobs of one segment in a store, locked for the current step."""

    def sizes(self, offset: int, limit: int) -> list[BlobSize]:
        """The sizes of the first blobs that begin at an offset or later."""
        ...

    def load(self, run: Run) -> list[tuple[str, bytes]]:
        """Writer and body of each blob."""
        ...

    def replace(self, run: Run, writer: str, body: bytes) -> None:
        """Replace the blobs by one."""
        ...


@dataclass(frozen=True, kw_only=True)
class CompactionPolicy:
    """Which blobs are compacted, and when.

    The offsets of a segment are divided into ranges of ``short`` and of ``long`` rows. An append that completes a range
    compacts the blobs in it. The decision depends on lengths only, so appends share no state. Two range sizes keep the
    number of tiny blobs low, while a row is compacted at most twice.
    """

    short: int = 128
    long: int = 16_384
    min_blobs: int = 4
    """The least number of adjacent blobs to compact."""
    target_rows: int = 2_048
    """A blob with this many rows is large enough and stays as it is."""
    target_bytes: int = 128 * 1024
    """A blob with this many bytes is large enough and stays as it is."""
    max_bytes: int = 1024 * 1024
    """The most bytes that become one blob."""
    step_bytes: int = 4 * 1024 * 1024
    """The most bytes per step. Appends to the segment wait for it."""
    step_blobs: int = 1_024
    """The most blobs per step."""

    def completed_range(self, start: int, end: int) -> int | None:
        """The start of the range that an append from ``start`` to ``end`` completes; None if it completes none.

        >>> policy = CompactionPolicy(short=10, long=100)
        >>> [policy.completed_range(*append) for append in ((97, 103), (28, 30), (28, 29), (11, 60))]
        [0, 20, None, None]
        """
        if start // self.long < end // self.long:
            return start // self.long * self.long
        is_tiny = (end - start) * self.min_blobs <= self.short
        if is_tiny and start // self.short < end // self.short:
            return start // self.short * self.short
        return None

    def runs(self, blobs: Sequence[BlobSize]) -> list[Run]:
        """All runs of adjacent small blobs, each with hardly more than ``long`` rows.

        >>> policy = CompactionPolicy(long=10, target_rows=5)
        >>> sizes = [(0, 4, 50), (4, 4, 50), (8, 2, 50), (10, 1, 50), (11, 9, 99), (20, 1, 50)]
        >>> [[blob.offset for blob in run] for run in policy.runs([BlobSize(*size) for size in sizes])]
        [[0, 4, 8], [10], [20]]
        """
        runs: list[list[BlobSize]] = [[]]
        for blob in blobs:
            if not self._is_small(blob):
                runs.append([])
                continue
            if runs[-1] and not self._fits(runs[-1], blob):
                runs.append([])
            runs[-1].append(blob)
        return [run for run in runs if run]

    def select(self, runs: Sequence[Run]) -> list[Run]:
        """The runs worth compacting, up to the limit of a step."""
        selected: list[Run] = []
        budget = self.step_bytes
        for run in runs:
            if len(run) < self.min_blobs:
                continue
            budget -= sum(blob.bytes for blob in run)
            if budget < 0:
                break
            selected.append(run)
        return selected

    def plan(self, blobs: Sequence[BlobSize]) -> tuple[list[Run], int]:
        """The runs to compact among the given blobs, and the offset of the next step.

        A last run that may still grow is left for later, unless it fills the whole step.
        """
        runs, next_offset = self.runs(blobs), blobs[-1].end
        may_grow = bool(runs) and runs[-1][-1] == blobs[-1] and sum(blob.rows for blob in runs[-1]) < self.long
        if may_grow:
            next_offset = runs[-1][0].offset
            if len(blobs) < self.step_blobs or next_offset > blobs[0].offset:
                runs.pop()
        selected = self.select(runs)
        if selected and sum(len(run) >= self.min_blobs for run in runs) > len(selected):
            next_offset = selected[-1][-1].end
        return selected, next_offset

    def _is_small(self, blob: BlobSize) -> bool:
        return blob.rows < self.target_rows and blob.bytes < self.target_bytes

    def _fits(self, run: Run, blob: BlobSize) -> bool:
        rows, size = sum(other.rows for other in run), sum(other.bytes for other in run)
        return run[-1].end == blob.offset and rows < self.long and size + blob.bytes <= self.max_bytes


POLICY = CompactionPolicy()
"""The policy of all stores."""


def compact_appended(blobs: SegmentBlobs, start: int, end: int) -> None:
    """Compact the range that an append from ``start`` to ``end`` has completed, if any."""
    offset = POLICY.completed_range(start, end)
    if offset is not None:
        _replace_all(blobs, POLICY.select(POLICY.runs(blobs.sizes(offset, POLICY.step_blobs))))


def compact_from(blobs: SegmentBlobs, offset: int) -> int:
    """Execute one compaction step from an offset on. Return the offset of the next step."""
    sizes = blobs.sizes(offset, POLICY.step_blobs)
    if not sizes:
        return offset
    runs, next_offset = POLICY.plan(sizes)
    return next_offset if _replace_all(blobs, runs) else max(next_offset, sizes[-1].end)


def compact_bodies(bodies: Sequence[bytes], rows: int) -> bytes | None:
    """The events of many bodies as one; None if they are not valid events with this many rows.

    >>> bodies = [encode(pa.table({"n": [number]})) for number in range(3)]
    >>> compact_bodies(bodies, 3) == encode(pa.table({"n": [0, 1, 2]})), compact_bodies([b"no events"], 3)
    (True, None)
    """
    try:
        table = decode_all(bodies).combine_chunks()
        return encode(table) if len(table) == rows else None
    except (pa.ArrowException, OSError, EOFError):  # a store accepts any bytes; readers report invalid ones
        return None


def _replace_all(blobs: SegmentBlobs, runs: Sequence[Run]) -> bool:
    """Whether all runs could be compacted. Blobs that are not valid events stay as they are."""
    is_complete = True
    for run in runs:
        loaded = blobs.load(run)
        body = compact_bodies([body for _, body in loaded], run[-1].end - run[0].offset)
        if body is None:
            is_complete = False
            continue
        writers = {writer for writer, _ in loaded}
        blobs.replace(run, writers.pop() if len(writers) == 1 else "", body)
    return is_complete


class Compactor:
    """Compacts the segments of streams step by step. Its progress is not stored: a new one scans all blobs once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._offsets: dict[tuple[str, int], int] = {}

    def step(self, stream: str) -> None:
        """Execute one step in the segment with the largest backlog. Appends to that segment wait for it."""
        lengths = self._store.lengths(stream)
        backlog = {segment: length - self._offset(stream, segment, length) for segment, length in lengths.items()}
        segment = max(backlog, key=lambda number: backlog[number])
        if backlog[segment] >= POLICY.long:
            offset = self._offsets.get((stream, segment), 0)
            self._offsets[stream, segment] = self._store.compact(stream, segment, offset)

    def retain(self, streams: Collection[str]) -> None:
        """Drop the progress of all other streams."""
        self._offsets = {key: offset for key, offset in self._offsets.items() if key[0] in streams}

    def _offset(self, stream: str, segment: int, length: int) -> int:
        if self._offsets.get((stream, segment), 0) > length:  # the stream was deleted and created again
            del self._offsets[stream, segment]
        return self._offsets.get((stream, segment), 0)

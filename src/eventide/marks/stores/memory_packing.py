"""Small blobs are replaced by one, in the list of a segment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from eventide.marks import packing
from eventide.marks.packing import Run, Size
from eventide.marks.stores.store import Blob


def pack_filled(blobs: list[Blob], begins: int, ends: int) -> None:
    """Pack the stretch whose end was reached, if one was, by an append."""
    since = packing.PACKING.filled(begins, ends)
    if since is not None:
        _pack(blobs, packing.PACKING.chosen(packing.PACKING.runs(_sizes(blobs, since))))


def pack(blobs: list[Blob], offset: int) -> int:
    """``Log.pack``."""
    sizes = _sizes(blobs, offset)
    if not sizes:
        return offset
    runs, further = packing.PACKING.ahead(sizes)
    return further if _pack(blobs, runs) else max(further, sizes[-1].end)


def _sizes(blobs: list[Blob], since: int) -> list[Size]:
    first = _place(blobs, since)
    return [Size(one.offset, one.rows, len(one.body)) for one in blobs[first : first + packing.PACKING.looked_at]]


def _pack(blobs: list[Blob], runs: Sequence[Run]) -> bool:
    """Whether all of them could be packed: bytes that are no events stay as they are."""
    done = True
    for run in runs:
        first = _place(blobs, run[0].offset)
        some = blobs[first : first + len(run)]
        rows = run[-1].end - run[0].offset
        body = packing.packed([one.body for one in some], rows)
        if body is None:
            done = False
            continue
        writer = packing.writer_of([one.writer for one in some])
        blobs[first : first + len(run)] = [Blob(run[0].offset, rows, body, writer)]
    return done


def _place(blobs: list[Blob], offset: int) -> int:
    """The index of the first blob that begins at an offset or later."""
    return bisect_left(blobs, offset, key=lambda one: one.offset)

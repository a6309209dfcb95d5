"""Events as a reader finds them in a segment. A damaged blob is reported with its position."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eventide.errors import marks as errors
from eventide.marks.events import decode, decode_all
from eventide.marks.stores.store import Blob

_FAULTS = (pa.ArrowException, OSError, EOFError, ValueError)


def stored_events(stream: str, segment: int, blobs: Sequence[Blob]) -> pa.Table:
    """The events of blobs that lie one behind the other."""
    try:
        table = decode_all([blob.body for blob in blobs])
        if table.num_rows == sum(blob.rows for blob in blobs):
            return table
    except _FAULTS as cause:
        raise _damaged(stream, segment, blobs, str(cause)) from cause
    raise _damaged(stream, segment, blobs, "the number of events differs")


def _damaged(stream: str, segment: int, blobs: Sequence[Blob], cause: str) -> Exception:
    """The first blob that cannot be read by itself; else the last one, whose columns differ from the others."""
    for blob in blobs:
        try:
            if decode(blob.body).num_rows != blob.rows:
                return errors.damaged_events(stream, segment, blob.offset, blob.rows, "the number of events differs")
        except _FAULTS as fault:
            return errors.damaged_events(stream, segment, blob.offset, blob.rows, str(fault) or type(fault).__name__)
    return errors.damaged_events(stream, segment, blobs[-1].offset, blobs[-1].rows, cause)

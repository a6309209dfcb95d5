"""Rules of appends and transactions, without SQL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eventide.marks.errors import (
    SegmentSealedError,
    stream_sealed,
    transaction_ended,
    unknown_segment,
)
from eventide.marks.events import POINT, decode_all, split_by_segment
from eventide.marks.segments import Segments
from eventide.marks.stores.store import Part, TransactionStatus

RETENTION = 3_600_000_000
"""How long after its deadline the outcome of a transaction can be queried."""


def current_status(status: str, deadline: int, now: int) -> str:
    """The status of a transaction, which is ``expired`` when an open one has passed its deadline."""
    return "expired" if status == "open" and deadline <= now else status


def public_status(status: str) -> TransactionStatus:
    """The status for clients: an expired transaction is aborted."""
    return "open" if status == "open" else "committed" if status == "committed" else "aborted"


def check_open(id_: str, status: str) -> None:
    """Reject a transaction that is not open."""
    if status != "open":
        raise transaction_ended(id_, status)


def route_bodies(bodies: Sequence[bytes], segments: Segments) -> list[Part]:
    """Split the events of a transaction over the segments that are open now."""
    table = decode_all(bodies) if bodies else None
    if table is None or not len(table):
        return []
    points: npt.NDArray[np.float64] = table[POINT].to_numpy()
    return split_by_segment(table.drop_columns([POINT]), points, segments)


def check_append(stream: str, segments: Segments, parts: Sequence[Part]) -> None:
    """Reject an append to a sealed stream, or to segments that are unknown or sealed."""
    if segments.has_ended:
        raise stream_sealed(stream)
    for part in parts:
        if part.segment not in segments:
            raise unknown_segment(part.segment, segments.open_numbers)
    for part in parts:
        if segments[part.segment].sealed:
            raise SegmentSealedError(f"Segment {part.segment} of stream {stream!r} is sealed. Route the events again.")

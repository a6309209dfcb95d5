"""Marks: writers that declare time, and the watermark that is made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventide.errors.marks import SeatTakenError
from eventide.errors.readers import ReaderReplacedError, SegmentsLostError
from eventide.marks.batch import Batch
from eventide.marks.group import ReaderGroup
from eventide.marks.mark import Mark, TimeWindow
from eventide.marks.reader import Reader
from eventide.marks.streams import Stream, create_stream, list_streams, open_stream
from eventide.marks.transaction import Transaction
from eventide.marks.writer import Writer

if TYPE_CHECKING:
    from eventide.marks.controller import Controller

__all__ = [
    "Batch",
    "Controller",
    "Mark",
    "Reader",
    "ReaderGroup",
    "ReaderReplacedError",
    "SeatTakenError",
    "SegmentsLostError",
    "Stream",
    "TimeWindow",
    "Transaction",
    "Writer",
    "create_stream",
    "list_streams",
    "open_stream",
]


def __getattr__(name: str) -> Any:
    if name == "Controller":  # writers and readers can do without what it needs
        from eventide.marks.controller import Controller

        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

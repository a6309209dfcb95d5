"""Marks: writers declare their event time, and a controller merges it into the watermark of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventide.marks.errors import ReaderReplacedError, SegmentsLostError, WriterFencedError
from eventide.marks.mark import Mark, TimeWindow
from eventide.marks.reader import Batch, Reader
from eventide.marks.reader_group import ReaderGroup
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
    "SegmentsLostError",
    "Stream",
    "TimeWindow",
    "Transaction",
    "Writer",
    "WriterFencedError",
    "create_stream",
    "list_streams",
    "open_stream",
]


def __getattr__(name: str) -> Any:
    if name == "Controller":  # writers and readers do not need its dependencies
        from eventide.marks.controller import Controller

        return Controller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

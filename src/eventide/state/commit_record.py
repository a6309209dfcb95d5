"""The commit record of a batch as bytes: everything that the batch changed and emitted, in one immutable file.

    "EVRECORD" version | part | part | … | footer (JSON) | length and checksum of the footer | "EVRECORD"

A part is a run of bytes that is addressed by its offset, so one page of state can be read without the rest. The footer
names all parts with their checksums. A file that was cut off has no footer.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eventide._formats import FORMATS
from eventide.errors import DataError

_MAGIC = b"EVRECORD"
_HEAD = struct.Struct(">8sI")  # magic, format
_TAIL = struct.Struct(">QI8s")  # length of the footer, its CRC-32, magic

ReadRange = Callable[[int, int], bytes]
"""Returns ``length`` bytes from ``offset``. A negative offset counts from the end."""


@dataclass(frozen=True)
class Span:
    """Where a part of a record is stored."""

    offset: int
    length: int
    checksum: int

    def verified(self, body: bytes, name: str) -> bytes:
        """Return the bytes, or raise an error that names the file if they are not those that were written."""
        if len(body) != self.length or zlib.crc32(body) != self.checksum:
            raise _damaged_record(name, f"{self.length} bytes at {self.offset}")
        return body

    def to_list(self) -> list[int]:
        """Return the span as plain data."""
        return [self.offset, self.length, self.checksum]


class RecordBuilder:
    """Collects the parts of a record. Offsets are final as soon as a part is added."""

    def __init__(self) -> None:
        self._parts: list[bytes] = [_HEAD.pack(_MAGIC, FORMATS["commit record"])]
        self.size = _HEAD.size

    def add(self, body: bytes) -> Span:
        """Append a part and return where it is stored."""
        span = Span(self.size, len(body), zlib.crc32(body))
        self._parts.append(body)
        self.size += len(body)
        return span

    def finish(self, footer: Mapping[str, Any]) -> list[bytes]:
        """Return the complete record in pieces, to be written one after the other."""
        text = json.dumps(footer, separators=(",", ":")).encode()
        return [*self._parts, text, _TAIL.pack(len(text), zlib.crc32(text), _MAGIC)]


@dataclass(frozen=True)
class Record:
    """A commit record that can be read."""

    name: str
    footer: Mapping[str, Any]
    _read: ReadRange

    @classmethod
    def open(cls, name: str, read: ReadRange) -> Record:
        """Read and check the footer. ``name`` is used in error messages."""
        tail = read(-_TAIL.size, _TAIL.size)
        if len(tail) != _TAIL.size or not tail.endswith(_MAGIC):
            raise _damaged_record(name, "the end of the file is missing")
        length, checksum, _ = _TAIL.unpack(tail)
        text = read(-_TAIL.size - length, length)
        if len(text) != length or zlib.crc32(text) != checksum:
            raise _damaged_record(name, "its footer")
        magic, version = _HEAD.unpack(read(0, _HEAD.size))
        if magic != _MAGIC:
            raise _damaged_record(name, "its first bytes")
        if version != FORMATS["commit record"]:
            raise DataError(
                f"The commit record {name} has format {version}; this version of Eventide reads format "
                f"{FORMATS['commit record']}."
            )
        return cls(name, json.loads(text), read)

    def part(self, span: Span) -> bytes:
        """Return a part, checked."""
        return span.verified(self._read(span.offset, span.length), self.name)


def _damaged_record(name: str, what: str) -> DataError:
    """A commit record whose bytes are not those that were written."""
    return DataError(
        f"The commit record {name} is damaged: {what}. Restore the file from a copy of the checkpoint, "
        "or start a new checkpoint."
    )

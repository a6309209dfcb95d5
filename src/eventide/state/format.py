"""The bytes of stored state. ``_formats.py`` has their version number.

A state, a header and a page are a JSON header, followed by binary parts: frames as Arrow IPC streams, or pages.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eventide._formats import FORMATS
from eventide.errors import DataError
from eventide.kernels.frames import Compression, write_ipc

_MAGIC = b"eventide"
_PREFIX = struct.Struct(">8sIQ")  # magic, format, length of the JSON header
_UNCOMPRESSED_BELOW = 2048  # bytes of a frame that compression does not make smaller


def dump(content: dict[str, Any], *, compression: Compression = "zstd") -> bytes:
    """Encode nested dicts and lists of plain values, frames and series.

    >>> load(dump({"watermark": 5, "runs": [pl.DataFrame({"n": [1, 2]})]}))["runs"][0]["n"].to_list()
    [1, 2]
    """
    parts = _FrameParts(compression)
    plain = parts.extract(content)
    return _encode(plain, parts.lengths, parts.chunks)


def load(data: bytes) -> dict[str, Any]:
    """Decode what ``dump`` wrote."""
    plain, parts = _decode(data)
    content: dict[str, Any] = _with_frames(plain, parts)
    return content


@dataclass(frozen=True)
class StateHeader:
    """The header of a state in pages as a host stores it: with the pages that are too small for a place of their own.

    The first access to a page store can cost milliseconds in every batch. A small state is stored in its header.
    """

    body: bytes  # as the operator wrote it
    inline_pages: Mapping[int, bytes] = field(default_factory=dict)
    stored_pages: int = 0  # how many pages are in the page store

    def to_bytes(self) -> bytes:
        """Encode the header.

        >>> StateHeader.from_bytes(StateHeader(dump({}), {7: b"rows"}).to_bytes()).inline_pages
        {7: b'rows'}
        """
        parts = [*self.inline_pages.values(), self.body]
        content = {"kind": "stored header", "inline": list(self.inline_pages), "stored": self.stored_pages}
        return _encode(content, [len(part) for part in parts], parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> StateHeader:
        """Decode what ``to_bytes`` wrote."""
        content, (*pages, body) = _decode(data)
        return cls(body, dict(zip(content["inline"], pages, strict=True)), content["stored"])


def _encode(content: Any, lengths: Sequence[int], parts: Iterable[bytes]) -> bytes:
    header = json.dumps({"content": content, "lengths": lengths}, separators=(",", ":")).encode()
    return b"".join([_PREFIX.pack(_MAGIC, FORMATS["state"], len(header)), header, *parts])


def _decode(data: bytes) -> tuple[Any, list[bytes]]:
    """Return the plain values and the binary parts."""
    if len(data) < _PREFIX.size or not data.startswith(_MAGIC):
        raise DataError("These bytes are not a state that Eventide saved. Pass the unchanged result of query.save().")
    _, version, length = _PREFIX.unpack_from(data)
    if version != FORMATS["state"]:
        raise DataError(
            f"The saved state has format {version}, but this version of Eventide reads format {FORMATS['state']}. "
            "Use the version that saved it, or start with new state."
        )
    position = _PREFIX.size + length
    if len(data) < position:
        raise _damaged(position, len(data))
    header = json.loads(data[_PREFIX.size : position])
    parts = []
    for size in header["lengths"]:
        parts.append(data[position : position + size])
        position += size
    if position != len(data):
        raise _damaged(position, len(data))
    return header["content"], parts


class _FrameParts:
    """Collects frames as Arrow IPC streams. A file-like object, because BytesIO copies when it grows."""

    def __init__(self, compression: Compression) -> None:
        self.chunks: list[bytes] = []
        self.lengths: list[int] = []
        self._compression = compression

    def write(self, chunk: bytes) -> int:
        self.chunks.append(bytes(chunk))
        return len(chunk)

    def flush(self) -> None:
        pass

    def extract(self, value: Any) -> Any:
        """Return the value with a reference in place of each frame."""
        if isinstance(value, dict):
            return {name: self.extract(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.extract(item) for item in value]
        if isinstance(value, pl.DataFrame):
            return {"$frame": self._add(value)}
        if isinstance(value, pl.Series):
            return {"$series": self._add(value.to_frame())}
        return value

    def _add(self, frame: pl.DataFrame) -> int:
        first = len(self.chunks)
        is_small = frame.estimated_size() < _UNCOMPRESSED_BELOW
        # Polars calls only write() and flush(), of all that IO[bytes] has.
        write_ipc(frame, self, "uncompressed" if is_small else self._compression)  # type: ignore[arg-type]
        self.lengths.append(sum(map(len, self.chunks[first:])))
        return len(self.lengths) - 1


def _with_frames(value: Any, parts: list[bytes]) -> Any:
    if isinstance(value, list):
        return [_with_frames(item, parts) for item in value]
    if not isinstance(value, dict):
        return value
    if "$frame" in value:
        return pl.read_ipc_stream(io.BytesIO(parts[value["$frame"]]))
    if "$series" in value:
        return pl.read_ipc_stream(io.BytesIO(parts[value["$series"]])).to_series()
    return {name: _with_frames(item, parts) for name, item in value.items()}


def _damaged(expected: int, actual: int) -> DataError:
    return DataError(f"The saved state is damaged: it should have {expected} bytes and has {actual}.")

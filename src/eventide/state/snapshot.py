"""State as bytes: a header in JSON that carries the format's version, and frames as Arrow IPC behind it.

What is saved whole, the pages that state rests in and the pages that travel between tasks are all written here.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from eventide.errors import state as errors
from eventide.state.compact import Compression, write_ipc

FORMAT = 1

_MAGIC = b"eventide"
_HEAD = struct.Struct(">8sIQ")  # magic, format, length of the header
_SMALL = 2048  # bytes of a frame that compression would not make smaller


def dump(content: dict[str, Any], *, compression: Compression = "zstd") -> bytes:
    """Nested dicts and lists of plain values, frames and series.

    >>> load(dump({"watermark": 5, "runs": [pl.DataFrame({"n": [1, 2]})]}))["runs"][0]["n"].to_list()
    [1, 2]
    """
    frames = _Frames(compression)
    plain = frames.taken_from(content)
    return framed(FORMAT, plain, frames.lengths, frames.parts)


def load(data: bytes) -> dict[str, Any]:
    """What was dumped."""
    version = format_of(data)
    if version != FORMAT:
        raise errors.unknown_format(version, FORMAT)
    plain, blobs = unframed(data)
    content: dict[str, Any] = _whole(plain, blobs)
    return content


def framed(version: int, content: Any, lengths: Sequence[int], parts: Iterable[bytes]) -> bytes:
    """Plain values, and behind them bytes: as many pieces as ``lengths`` says. Every format begins so."""
    header = json.dumps({"content": content, "lengths": lengths}, separators=(",", ":")).encode()
    return b"".join([_HEAD.pack(_MAGIC, version, len(header)), header, *parts])


def format_of(data: bytes) -> int:
    """The number of the format, whether it is known here or not."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise errors.not_a_snapshot()
    version: int = _HEAD.unpack_from(data)[1]
    return version


def unframed(data: bytes) -> tuple[Any, list[bytes]]:
    """The plain values and the pieces behind them."""
    length: int = _HEAD.unpack_from(data)[2]
    if len(data) < _HEAD.size + length:
        raise errors.cut_off(_HEAD.size + length, len(data))
    header = json.loads(data[_HEAD.size : _HEAD.size + length])
    place, blobs = _HEAD.size + length, []
    for size in header["lengths"]:
        blobs.append(data[place : place + size])
        place += size
    if place != len(data):
        raise errors.cut_off(place, len(data))
    return header["content"], blobs


class _Frames:
    """Collects frames as Arrow IPC streams. A file that Polars writes to, because BytesIO copies as it grows."""

    def __init__(self, compression: Compression) -> None:
        self.parts: list[bytes] = []
        self.lengths: list[int] = []
        self._compression = compression

    def write(self, part: bytes) -> int:
        self.parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        pass

    def taken_from(self, value: Any) -> Any:
        """The value with a number in place of each frame."""
        if isinstance(value, dict):
            return {name: self.taken_from(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.taken_from(part) for part in value]
        if isinstance(value, pl.DataFrame):
            return {"$frame": self._add(value)}
        if isinstance(value, pl.Series):
            return {"$series": self._add(value.to_frame())}
        return value

    def _add(self, frame: pl.DataFrame) -> int:
        first = len(self.parts)
        small = frame.estimated_size() < _SMALL
        write_ipc(frame, self, "uncompressed" if small else self._compression)  # type: ignore[arg-type]
        self.lengths.append(sum(map(len, self.parts[first:])))
        return len(self.lengths) - 1


def _whole(value: Any, blobs: list[bytes]) -> Any:
    if isinstance(value, list):
        return [_whole(part, blobs) for part in value]
    if not isinstance(value, dict):
        return value
    if "$frame" in value:
        return pl.read_ipc_stream(io.BytesIO(blobs[value["$frame"]]))
    if "$series" in value:
        return pl.read_ipc_stream(io.BytesIO(blobs[value["$series"]])).to_series()
    return {name: _whole(part, blobs) for name, part in value.items()}

"""State as bytes: a header in JSON that carries the format's version, and frames as Arrow IPC behind it."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import polars as pl

from eventide.errors import state as errors

FORMAT = 1

_MAGIC = b"eventide"
_HEAD = struct.Struct(">8sIQ")  # magic, format, length of the header


def dump(content: dict[str, Any]) -> bytes:
    """Nested dicts and lists of plain values, frames and series.

    >>> load(dump({"watermark": 5, "runs": [pl.DataFrame({"n": [1, 2]})]}))["runs"][0]["n"].to_list()
    [1, 2]
    """
    blobs: list[bytes] = []
    header = json.dumps({"content": _plain(content, blobs), "lengths": [len(blob) for blob in blobs]}).encode()
    return b"".join([_HEAD.pack(_MAGIC, FORMAT, len(header)), header, *blobs])


def load(data: bytes) -> dict[str, Any]:
    """What was dumped."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise errors.not_a_snapshot()
    _, version, length = _HEAD.unpack_from(data)
    if version != FORMAT:
        raise errors.unknown_format(version, FORMAT)
    if len(data) < _HEAD.size + length:
        raise errors.cut_off(_HEAD.size + length, len(data))
    header = json.loads(data[_HEAD.size : _HEAD.size + length])
    place, blobs = _HEAD.size + length, []
    for size in header["lengths"]:
        blobs.append(data[place : place + size])
        place += size
    if place != len(data):
        raise errors.cut_off(place, len(data))
    content: dict[str, Any] = _whole(header["content"], blobs)
    return content


def _plain(value: Any, blobs: list[bytes]) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part, blobs) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, blobs) for part in value]
    if isinstance(value, (pl.DataFrame, pl.Series)):
        series = isinstance(value, pl.Series)
        blobs.append(_ipc(value.to_frame() if isinstance(value, pl.Series) else value))
        return {"$series" if series else "$frame": len(blobs) - 1}
    return value


def _whole(value: Any, blobs: list[bytes]) -> Any:
    if isinstance(value, list):
        return [_whole(part, blobs) for part in value]
    if not isinstance(value, dict):
        return value
    if "$frame" in value:
        return pl.read_ipc(io.BytesIO(blobs[value["$frame"]]))
    if "$series" in value:
        return pl.read_ipc(io.BytesIO(blobs[value["$series"]])).to_series()
    return {name: _whole(part, blobs) for name, part in value.items()}


def _ipc(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="zstd")
    return buffer.getvalue()

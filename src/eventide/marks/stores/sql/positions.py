"""Positions as bytes: pairs of a segment and an offset, each a little-endian int64, in the order of the segments."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eventide.marks.segments import Position


def packed(position: Position) -> bytes:
    """A position as it is stored.

    >>> unpacked(packed({3: 500, 1: 7}))
    {1: 7, 3: 500}
    """
    numbers = [number for place in sorted(position.items()) for number in place]
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpacked(body: bytes) -> dict[int, int]:
    """The position of ``packed``."""
    numbers = struct.unpack(f"<{len(body) // 8}q", body)
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def columns(bodies: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Many positions at once: for each pair the index of its body, its segment and its offset."""
    pairs = np.frombuffer(b"".join(bodies), dtype="<i8").astype(np.int64, copy=False).reshape(-1, 2)
    who = np.repeat(np.arange(len(bodies), dtype=np.int64), [len(body) // 16 for body in bodies])
    return who, pairs[:, 0], pairs[:, 1]

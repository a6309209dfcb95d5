"""Which controller is to make the marks of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b


def owner_of(stream: str, controllers: Sequence[str]) -> str:
    """The one whose hash with the stream is greatest: when one comes or goes, only its own streams change hands.

    >>> [owner_of(stream, ["a", "b", "c"]) for stream in ("orders", "returns", "clicks", "visits")]
    ['c', 'c', 'a', 'a']
    >>> [owner_of(stream, ["a", "c"]) for stream in ("orders", "returns", "clicks", "visits")]
    ['c', 'c', 'a', 'a']
    """
    return max(controllers, key=lambda controller: (_weight(stream, controller), controller))


def share_of(controller: str, streams: Iterable[str], controllers: Sequence[str]) -> list[str]:
    """The streams of one controller."""
    return [stream for stream in streams if owner_of(stream, controllers) == controller]


def _weight(stream: str, controller: str) -> bytes:
    return blake2b(f"{controller}\0{stream}".encode(), digest_size=8).digest()

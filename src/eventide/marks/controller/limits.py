"""Connections that are limited in number and in time, so that incomplete requests cannot hold a controller."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass
class Limits:
    """How long a request may take to arrive, and how many connections there may be, in all and of one peer.

    Where there are as many already, the one that has waited longest for the rest of its request is closed.
    """

    header_seconds: float = 10.0
    body_seconds: float = 120.0
    connections: int = field(default_factory=lambda: _most_connections())
    per_peer: int = 256
    _open: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _waiting: dict[LimitedProtocol, str] = field(default_factory=dict)  # the oldest first

    def admit(self, peer: str) -> bool:
        """Whether one more connection of a peer is allowed, after an incomplete one was closed if need be."""
        if self._open[peer] >= self.per_peer:
            return self._closed_oldest(peer)
        return sum(self._open.values()) < self.connections or self._closed_oldest(None)

    def opened(self, peer: str) -> None:
        """Count a connection."""
        self._open[peer] += 1

    def gone(self, connection: LimitedProtocol, peer: str) -> None:
        """Forget a connection."""
        self._waiting.pop(connection, None)
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]

    def waits(self, connection: LimitedProtocol, peer: str) -> None:
        """Note that a connection has not sent all of its request."""
        self._waiting.setdefault(connection, peer)

    def complete(self, connection: LimitedProtocol) -> None:
        """Note that a connection has sent its request."""
        self._waiting.pop(connection, None)

    def _closed_oldest(self, peer: str | None) -> bool:
        oldest = next((one for one, of in self._waiting.items() if peer is None or of == peer), None)
        if oldest is not None:
            self._waiting.pop(oldest)
            oldest.drop()
        return oldest is not None


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a time limit for headers and for the body, and a place among the others."""

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._peer: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it at once."""
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        admitted = self._limits.admit(peer)
        super().connection_made(transport)
        if not admitted:
            self.drop()
            return
        self._peer = peer
        self._limits.opened(peer)
        self._wait(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place of a connection."""
        self._rest()
        if self._peer is not None:
            self._limits.gone(self, self._peer)
            self._peer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, and note whether it is complete."""
        super().data_received(data)
        if self._peer is None:
            return
        state = self.conn.their_state
        in_body = state is h11.SEND_BODY
        if not in_body and not (state is h11.IDLE and self.conn.trailing_data[0]):
            self._rest()
        elif self._timer is None or in_body != self._in_body:
            self._rest()
            self._wait(self._limits.body_seconds if in_body else self._limits.header_seconds)
        self._in_body = in_body

    def drop(self) -> None:
        """Close the connection, without an answer."""
        self.transport.abort()

    def _wait(self, seconds: float) -> None:
        assert self._peer is not None
        self._limits.waits(self, self._peer)
        self._timer = self.loop.call_later(seconds, self.drop)

    def _rest(self) -> None:
        self._limits.complete(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limited(limits: Limits) -> Callable[..., LimitedProtocol]:
    """What uvicorn makes a connection with."""

    def protocol(*args: Any, **options: Any) -> LimitedProtocol:
        return LimitedProtocol(*args, limits=limits, **options)

    return protocol


def _most_connections() -> int:
    """As many as the process may have files open, less some for the store and the log."""
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, OSError, ValueError):
        files = 1024
    return max(8, min(files - 64, 4096)) if files > 0 else 4096  # -1: as many as there are

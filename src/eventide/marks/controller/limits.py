"""Connections that are limited in number and in time, so that incomplete requests cannot hold a controller."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass
class Limits:
    """How long a request may take to arrive, and how many connections there may be, in all and of one peer.

    Where there are as many already, one is closed: the oldest that waits for the rest of a request, or else the oldest
    that waits for a next request. A client then opens another one.
    """

    header_seconds: float = 10.0
    body_seconds: float = 120.0
    connections: int = field(default_factory=lambda: _most_connections())
    per_peer: int = 256
    _open: dict[LimitedProtocol, str] = field(default_factory=dict)  # the oldest first
    _of_peer: Counter[str] = field(default_factory=Counter)

    def admit(self, connection: LimitedProtocol, peer: str) -> bool:
        """Count one more connection of a peer, if it is allowed."""
        if self._of_peer[peer] >= self.per_peer:
            room = self._close_one([one for one, of in self._open.items() if of == peer])
        else:
            room = len(self._open) < self.connections or self._close_one(list(self._open))
        if room:
            self._open[connection] = peer
            self._of_peer[peer] += 1
        return room

    def gone(self, connection: LimitedProtocol) -> None:
        """Forget a connection."""
        peer = self._open.pop(connection, None)
        if peer is not None:
            self._of_peer[peer] -= 1

    def _close_one(self, among: list[LimitedProtocol]) -> bool:
        waiting = next((one for one in among if one.is_waiting), None)
        chosen = waiting or next((one for one in among if one.is_idle), None)
        if chosen is not None:
            self.gone(chosen)
            chosen.drop()
        return chosen is not None


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a time limit for headers and for the body, and a place among the others."""

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._in_body = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request has begun, or the first one is due, and is not complete."""
        return self._timer is not None

    @property
    def is_idle(self) -> bool:
        """Whether all requests so far are answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it at once."""
        super().connection_made(transport)
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        if self._limits.admit(self, peer):
            self._wait(self._limits.header_seconds)
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place of a connection."""
        self._rest()
        self._limits.gone(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, and note whether it is complete."""
        super().data_received(data)
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
        self._timer = self.loop.call_later(seconds, self.drop)

    def _rest(self) -> None:
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

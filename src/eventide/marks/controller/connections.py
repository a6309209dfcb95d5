"""Protection of a controller against web pages, missing tokens, and slow or excessive connections.

A browser sends requests of any page to any address, including loopback: as a simple request without permission, or by
DNS rebinding as its own origin. So a request must name a known host, have no origin, and have a content type that a
page may not send to another origin.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import h11
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from eventide.marks.controller.http_client import is_loopback
from eventide.marks.controller.wire import CONTENT_TYPE


class RequestGuard:
    """Checks the headers of requests. ``hosts`` are the accepted names besides loopback; None accepts all."""

    def __init__(self, token: str, hosts: Collection[str] | None) -> None:
        self._bearer = f"Bearer {token}".encode()
        self._hosts = None if hosts is None else {name.lower() for name in hosts}

    def reject(self, request: Request) -> tuple[str, str] | None:
        """The error code and the message of a request that is rejected; None if it is accepted."""
        host = _host_name(request.headers.get("host", "").lower())
        if self._hosts is not None and not is_loopback(host) and host not in self._hosts:
            return "wrong_host", f"This controller is not {host!r}. Add --allow-host {host} if clients use that name."
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") != "none":
            return "cross_origin", "A controller rejects requests of web pages, with Origin or Sec-Fetch-Site."
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._bearer):
            return "wrong_token", (
                "The token is missing or wrong. Set EVENTIDE_TOKEN, or pass token=, to the token of the controller. "
                "Clients of the user that runs it read it from its file."
            )
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and content_type != CONTENT_TYPE:
            return "wrong_content_type", f"The content type is {content_type!r}, and must be {CONTENT_TYPE!r}."
        return None


@dataclass
class ConnectionLimits:
    """How long a request may take to arrive, and how many connections are open, in total and per peer.

    At the limit, a connection is closed: the oldest that waits for the rest of a request, or else the oldest idle one.
    Its client opens another.
    """

    header_seconds: float = 10.0
    body_seconds: float = 120.0
    connections: int = field(default_factory=lambda: _default_connections())
    per_peer: int = 256
    _peers: dict[LimitedProtocol, str] = field(default_factory=dict)  # the oldest first
    _counts: Counter[str] = field(default_factory=Counter)

    def admit(self, connection: LimitedProtocol, peer: str) -> bool:
        """Register a connection, if it is allowed."""
        if self._counts[peer] >= self.per_peer:
            is_admitted = self._close_oldest([other for other, of in self._peers.items() if of == peer])
        else:
            is_admitted = len(self._peers) < self.connections or self._close_oldest(list(self._peers))
        if is_admitted:
            self._peers[connection] = peer
            self._counts[peer] += 1
        return is_admitted

    def remove(self, connection: LimitedProtocol) -> None:
        """Unregister a connection."""
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._counts[peer] -= 1

    def _close_oldest(self, candidates: list[LimitedProtocol]) -> bool:
        waiting = next((connection for connection in candidates if connection.is_waiting), None)
        closed = waiting or next((connection for connection in candidates if connection.is_idle), None)
        if closed is not None:
            self.remove(closed)
            closed.drop()
        return closed is not None


class LimitedProtocol(H11Protocol):
    """The HTTP/1.1 protocol of uvicorn with time limits for headers and body, and a limited number of connections."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._in_body = False

    @property
    def is_waiting(self) -> bool:
        """Whether the first or a started request is incomplete."""
        return self._timer is not None

    @property
    def is_idle(self) -> bool:
        """Whether all requests have been answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """Admit a connection or close it."""
        super().connection_made(transport)
        peer = str((transport.get_extra_info("peername") or ("",))[0])
        if self._limits.admit(self, peer):
            self._start_timer(self._limits.header_seconds)
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister a connection."""
        self._stop_timer()
        self._limits.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request, and limit the time for the rest."""
        super().data_received(data)
        state = self.conn.their_state
        in_body = state is h11.SEND_BODY
        if not in_body and not (state is h11.IDLE and self.conn.trailing_data[0]):
            self._stop_timer()
        elif self._timer is None or in_body != self._in_body:
            self._stop_timer()
            self._start_timer(self._limits.body_seconds if in_body else self._limits.header_seconds)
        self._in_body = in_body

    def drop(self) -> None:
        """Close the connection without a response."""
        self.transport.abort()

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_factory(limits: ConnectionLimits) -> Callable[..., LimitedProtocol]:
    """The protocol class for uvicorn, with limits."""

    def protocol(*args: Any, **options: Any) -> LimitedProtocol:
        return LimitedProtocol(*args, limits=limits, **options)

    return protocol


def _host_name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> [_host_name(host) for host in ("localhost:8787", "[::1]:8787", "marks.shop", "")]
    ['localhost', '::1', 'marks.shop', '']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _default_connections() -> int:
    """The number of files that the process may open, less some for the store and the log."""
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, OSError, ValueError):
        files = 1024
    return max(8, min(files - 64, 4096)) if files > 0 else 4096  # -1: unlimited

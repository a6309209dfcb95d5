"""A controller as a server: what it needs before others may reach it, and how it starts and ends."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from eventide.errors import controller as errors
from eventide.marks.controller.client import check_token, is_loopback
from eventide.marks.controller.limits import Limits, limited
from eventide.marks.controller.token_file import created_token, token_file, token_of
from eventide.marks.controller.wire import MAX_BODY


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where to listen, and how it is protected. Only on loopback may there be no certificate.

    Without a token it is the one of this user, which the first controller creates. ``hosts`` are further names under
    which it may be asked.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    token: str = field(default_factory=created_token, repr=False)
    hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    max_body: int = MAX_BODY

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise errors.certificate_without_key()
        check_token(self.token)
        if self.certificate is None and not is_loopback(self.host):
            raise errors.needs_protection(self.host)
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)

    @property
    def known_hosts(self) -> tuple[str, ...] | None:
        """The names under which it may be asked; None: any, because a certificate says which they are."""
        return self.hosts if self.hosts or is_loopback(self.host) else None

    @property
    def scheme(self) -> str:
        """How clients speak to it."""
        return "http" if self.certificate is None else "https"


def token_from(path: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """The token in a file, or else in ``EVENTIDE_TOKEN``, or else the one of this user."""
    if path is not None:
        return token_of(path)
    return environment.get("EVENTIDE_TOKEN") or created_token(token_file(environment))


class Server(uvicorn.Server):
    """Serves an application at an address that is bound before it starts."""

    def __init__(
        self, app: Starlette, settings: Settings, ready: Callable[[str], None], limits: Limits | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=limited(limits or Limits()),  # type: ignore[arg-type]  # it is called, and nothing else
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=10,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )
        self._ready = ready
        self._socket = _bound(settings.host, settings.port)
        host, port = self._socket.getsockname()[:2]
        self.url = f"{settings.scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def serve_until_stopped(self) -> None:
        """Until SIGTERM, SIGINT, or ``stop()``. Requests that are being answered are answered first."""
        self.run(sockets=[self._socket])

    def stop(self) -> None:
        """End it, from any thread."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Also tells that it is ready."""
        await super().startup(sockets)
        self._ready(self.url)


def _bound(host: str, port: int) -> socket.socket:
    # asyncio sends small packets at once only where TCP is named: else each answer waits for 40 ms.
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except (OSError, OverflowError) as cause:
        bound.close()
        raise errors.address_in_use(host, port, cause) from cause
    return bound


def _check_certificate(certificate: Path, key: Path) -> None:
    """Here rather than in the middle of a start."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as cause:
        raise errors.unreadable("The certificate, or its key,", certificate, cause) from cause

"""A controller as a server: what it needs before others may reach it, and how it starts and ends."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from eventide.errors import controller as errors
from eventide.marks.controller.client import check_token, is_loopback
from eventide.marks.controller.wire import MAX_BODY


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where to listen, and how it is protected. Only on loopback may there be no token and no certificate."""

    host: str = "127.0.0.1"
    port: int = 8787
    token: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    max_body: int = MAX_BODY

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise errors.certificate_without_key()
        check_token(self.token)
        missing = [
            name
            for name, value in (("--token-file or EVENTIDE_TOKEN", self.token), ("--certificate", self.certificate))
            if value is None
        ]
        if missing and not is_loopback(self.host):
            raise errors.needs_protection(self.host, missing)
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)

    @property
    def scheme(self) -> str:
        """How clients speak to it."""
        return "http" if self.certificate is None else "https"


def token_from(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in a file, or else in ``EVENTIDE_TOKEN``."""
    if path is None:
        return environment.get("EVENTIDE_TOKEN") or None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise errors.unreadable("The file with the token", path, cause) from cause
    if not token:
        raise errors.empty_token(path)
    return token


class Server(uvicorn.Server):
    """Serves an application at an address that is bound before it starts."""

    def __init__(self, app: Starlette, settings: Settings, ready: Callable[[str], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
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

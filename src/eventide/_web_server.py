"""A web server at an address that is bound before it starts: of a controller, and of a dashboard."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn

from eventide.errors import PlanError


class WebServer(uvicorn.Server):
    """Serves an application. ``name`` is what messages call it; ``options`` are those of ``uvicorn.Config``."""

    def __init__(self, app: Any, host: str, port: int, *, name: str, scheme: str = "http", **options: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                **options,
            )
        )
        self._socket = _bind(host, port, name)
        bound, number = self._socket.getsockname()[:2]
        self.address = f"{scheme}://{f'[{bound}]' if ':' in bound else bound}:{number}"

    def serve_until_stopped(self) -> None:
        """Serve until SIGTERM, SIGINT, or ``stop()``. Requests in progress are completed."""
        self.run(sockets=[self._socket])

    def stop(self) -> None:
        """Stop, from any thread."""
        self.should_exit = True


def _bind(host: str, port: int, name: str) -> socket.socket:
    # asyncio disables Nagle's algorithm only if TCP is named; otherwise each response is delayed.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)  # who opens the URL at once waits until the server is up
    except (OSError, OverflowError) as cause:
        bound.close()
        raise PlanError(
            f"The {name} cannot listen on {host}:{port}: {cause}. Choose another --port; 0 takes a free port."
        ) from cause
    return bound

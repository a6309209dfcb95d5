"""Who may see a dashboard: a token, and protection against other web pages.

A browser sends requests of any page to any address, including loopback, and by DNS rebinding even as its own origin.
So a request must name a known host, and an ``Origin``, where there is one, must be the dashboard itself.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventide.marks.controller.http_client import is_loopback

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every response."""

_SAME = ("same-origin", "none")


class Access:
    """Checks requests. ``hosts`` are the accepted names of the server besides loopback."""

    def __init__(self, token: str, hosts: Collection[str] = ()) -> None:
        self._token = token
        self._hosts = {name.lower() for name in hosts}
        # The cookie is derived from the token, so that a leaked cookie file does not reveal the token.
        self.cookie_value = hmac.new(token.encode(), b"eventide dashboard", hashlib.sha256).hexdigest()

    def cookie_name(self, request: Request) -> str:
        """Return the name of the cookie. Cookies do not distinguish ports, and several dashboards may run."""
        return f"eventide_dashboard_{request.url.port or 80}"

    def is_token(self, token: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def reject(self, request: Request, *, opens_page: bool = False) -> tuple[int, str] | None:
        """Return the status and the message of a request that is rejected; None if it is accepted.

        ``opens_page``: the request may come from a link of another page, because it changes nothing.
        """
        return self._wrong_sender(request, opens_page) or self._unknown(request)

    def reject_sender(self, request: Request) -> tuple[int, str] | None:
        """Return why any request of its sender is rejected, also for a public file; None if it is accepted."""
        return self._wrong_sender(request, True)

    def _wrong_sender(self, request: Request, opens_page: bool) -> tuple[int, str] | None:
        headers = request.headers
        host = headers.get("host", "").lower()
        name = host_name(host)
        if not (is_loopback(name) or name in self._hosts):
            return 403, f"This dashboard is not {name!r}. Add --allow-host if it is reached by that name."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "Requests of other web pages are rejected."
        if not opens_page and headers.get("sec-fetch-site", "none") not in _SAME:
            return 403, "Requests of other web pages are rejected."
        return None

    def _unknown(self, request: Request) -> tuple[int, str] | None:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(bearer):
            return None
        cookie = request.cookies.get(self.cookie_name(request), "")
        if hmac.compare_digest(cookie.encode(), self.cookie_value.encode()):
            if request.method == "POST" and "origin" not in request.headers:
                return 403, "A command of a browser must name its origin."
            return None
        return 401, "Open the URL that the dashboard printed: it contains the token."


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> [host_name(host) for host in ("localhost:8080", "[::1]:8080", "shop.example", "")]
    ['localhost', '::1', 'shop.example', '']
    """
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


class Guard:
    """Middleware around everything else: it rejects wrong senders, and adds ``HEADERS`` to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        rejection = self._access.reject_sender(Request(scope))
        if rejection is not None:
            status, text = rejection
            await JSONResponse({"message": text}, status_code=status)(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

"""Who may speak to a controller: programs with its token, and no web page.

A browser sends requests of any page to any address, also to loopback: as a simple request without asking, or, if the
page's name suddenly means 127.0.0.1, as its own. So a request names the host that it means, has no origin, and has a
content type that a page may not send elsewhere.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.requests import Request

from eventide.errors import controller as errors
from eventide.errors.kinds import EventideError
from eventide.marks.controller.client import is_loopback
from eventide.marks.controller.wire import CONTENT_TYPE

Refused = tuple[str, int, EventideError]


class Guard:
    """Checks the headers of requests. ``hosts`` are the names that may be asked for; None: any."""

    def __init__(self, token: str, hosts: Collection[str] | None) -> None:
        self._bearer = f"Bearer {token}".encode()
        self._hosts = None if hosts is None else {name.lower() for name in hosts}

    def refused(self, request: Request) -> Refused | None:
        """Why a request is not answered: the code, the status and the message; None, if it is."""
        host = _name(request.headers.get("host", "").lower())
        if self._hosts is not None and not is_loopback(host) and host not in self._hosts:
            return "wrong_host", 421, errors.wrong_host(host)
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") != "none":
            return "from_a_page", 403, errors.from_a_page()
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), self._bearer):
            return "wrong_token", 401, errors.wrong_token()
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and given != CONTENT_TYPE:
            return "wrong_content_type", 415, errors.wrong_content_type(given, CONTENT_TYPE)
        return None


def _name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> [_name(host) for host in ("localhost:8787", "[::1]:8787", "marks.shop", "")]
    ['localhost', '::1', 'marks.shop', '']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]

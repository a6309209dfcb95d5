"""Calls over HTTP: connections, what is repeated when one breaks, and refusals as the exceptions that they were."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from eventide.errors import controller as errors
from eventide.errors.marks import unknown_store
from eventide.marks.controller import wire

_ONCE = {"create_stream", "delete_stream", "scale", "open_writer", "put_mark", "put_group", "delete_group"}
"""Calls whose repetition would be refused, or taken for another's. All others are repeated if a connection breaks."""
_LONGEST_PAUSE = 1.0


class Client:
    """Speaks to one controller, through as many connections as there are calls at the same time. They stay open."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: str | None = None,
        timeout: float = 30.0,
        patience: float = 10.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise unknown_store(url)
        check_token(token)
        if token is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise errors.token_in_the_clear(url)
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": wire.CONTENT_TYPE}
        self._headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connect = _connecting(parts.scheme, parts.hostname, parts.port, timeout, ca)
        self._patience, self._pause = patience, pause
        self._process = os.getpid()
        self._idle: list[http.client.HTTPConnection] = []

    def call(self, call: str, given: dict[str, Any]) -> Any:
        """What a call gives."""
        return wire.unpacked(self._sent(call, wire.packed(given)), wire.answer(call))

    def close(self) -> None:
        """Let go of all connections that no call uses now."""
        idle = self._mine()
        while idle:
            with suppress(IndexError):  # another thread was faster
                idle.pop().close()

    def _sent(self, call: str, body: bytes) -> bytes:
        end = time.monotonic() + self._patience
        wait = 0.0  # a connection that has been idle for long may be gone: another one is tried at once
        while True:
            try:  # what is not repeated must not be lost on that
                connection = self._connect() if call in _ONCE else self._connection()
                return self._asked(connection, f"{self._path}/v1/{call}", body)
            except (OSError, http.client.HTTPException) as cause:
                self.close()  # the others are as old
                over = wait > 0 and time.monotonic() + wait > end
                if over or call in _ONCE or isinstance(cause, ssl.SSLCertVerificationError):
                    raise errors.unreachable(self.url, cause) from cause
            self._pause(wait)
            wait = min(wait * 2 or 0.05, _LONGEST_PAUSE)

    def _asked(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
        try:
            connection.request("POST", path, body, self._headers)
            answer = connection.getresponse()
            found = answer.read()
        except BaseException:  # an answer that was not read would be taken for that of the next call
            connection.close()
            raise
        self._mine().append(connection)
        if answer.status != 200:
            raise self._refusal(answer.status, found)
        return found

    def _refusal(self, status: int, body: bytes) -> Exception:
        try:
            told = json.loads(body)
            return errors.told(told["code"], str(told["message"]))
        except (ValueError, KeyError, TypeError):
            return errors.not_an_answer(self.url, status)

    def _connection(self) -> http.client.HTTPConnection:
        try:
            return self._mine().pop()
        except IndexError:
            return self._connect()

    def _mine(self) -> list[http.client.HTTPConnection]:
        if self._process != os.getpid():  # a fork must not speak on its parent's
            self._idle, self._process = [], os.getpid()
        return self._idle


def check_token(token: str | None) -> None:
    """Refuse what cannot be sent as a token."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise errors.unusable_token()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "marks.shop")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _connecting(
    scheme: str, host: str, port: int | None, timeout: float, ca: str | None
) -> Callable[[], http.client.HTTPConnection]:
    if scheme == "http":
        return lambda: http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        trusted = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as cause:
        raise errors.unreadable("The file of EVENTIDE_CA", ca, cause) from cause
    return lambda: http.client.HTTPSConnection(host, port, timeout=timeout, context=trusted)

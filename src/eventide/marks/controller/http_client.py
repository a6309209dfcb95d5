"""Calls to a controller over HTTP, and the token that authenticates them."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import secrets
import ssl
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eventide._databases import without_password
from eventide.errors import PlanError
from eventide.marks.controller import wire
from eventide.marks.errors import UnreachableError, unknown_store, unreadable

_TOKEN_MODE = 0o600
_MAX_PAUSE = 1.0


class Client:
    """A client of one controller. It keeps one open connection per concurrent call."""

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
            raise PlanError(
                f"{without_password(url)} is not encrypted, so the token would be sent in the clear. Use https."
            )
        self._path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._path}"
        self._headers = {"Content-Type": wire.CONTENT_TYPE}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connect = _connector(parts.scheme, parts.hostname, parts.port, timeout, ca)
        self._patience, self._pause = patience, pause
        self._process = os.getpid()
        self._idle: list[http.client.HTTPConnection] = []

    def call(self, call: str, arguments: dict[str, Any]) -> Any:
        """The result of a call."""
        return wire.decode_result(call, self._send(call, wire.encode(arguments)))

    def close(self) -> None:
        """Close all idle connections."""
        idle = self._local_idle()
        while idle:
            with suppress(IndexError):  # another thread took the last one
                idle.pop().close()

    def _send(self, call: str, body: bytes) -> bytes:
        """Send a request; repeat it if the connection breaks and the call is idempotent."""
        deadline = time.monotonic() + self._patience
        pause = 0.0  # the first retry is immediate: an idle connection may simply be stale
        is_repeatable = call not in wire.NOT_REPEATABLE
        while True:
            try:  # a call that is not repeated must not fail on a stale connection
                connection = self._acquire() if is_repeatable else self._connect()
                return self._post(connection, f"{self._path}/v1/{call}", body)
            except (OSError, http.client.HTTPException) as cause:
                self.close()  # the others are as old
                is_over = pause > 0 and time.monotonic() + pause > deadline
                if is_over or not is_repeatable or isinstance(cause, ssl.SSLCertVerificationError):
                    raise UnreachableError(
                        f"The controller at {without_password(self.url)} does not answer: {cause}. Is it running? Is "
                        "the address right?"
                    ) from cause
            self._pause(pause)
            pause = min(pause * 2 or 0.05, _MAX_PAUSE)

    def _post(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
        try:
            connection.request("POST", path, body, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:  # the next call would read an unread response as its own
            connection.close()
            raise
        self._local_idle().append(connection)
        if response.status != 200:
            raise self._error(response.status, content)
        return content

    def _error(self, status: int, body: bytes) -> Exception:
        try:
            error = json.loads(body)
            return wire.error_from_code(error["code"], str(error["message"]))
        except (ValueError, KeyError, TypeError):
            return UnreachableError(
                f"{without_password(self.url)} answered with status {status}, but not as a controller does. "
                "Is the address right?"
            )

    def _acquire(self) -> http.client.HTTPConnection:
        try:
            return self._local_idle().pop()
        except IndexError:
            return self._connect()

    def _local_idle(self) -> list[http.client.HTTPConnection]:
        if self._process != os.getpid():  # a forked process must not use its parent's connections
            self._idle, self._process = [], os.getpid()
        return self._idle


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "marks.shop")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_token(token: str | None) -> None:
    """Reject a token that cannot be sent in a header."""
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise PlanError(
            "A token must be printable ASCII without surrounding spaces. Create one with: openssl rand -hex 32."
        )


def token_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file of the current user's token.

    >>> str(token_file({"XDG_CONFIG_HOME": "/home/me/.config"}))
    '/home/me/.config/eventide/token'
    """
    home = environment.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "eventide" / "token"


def read_token(path: Path) -> str:
    """Read a token from a file."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise unreadable("The token file", path, cause) from cause
    if not token:
        raise PlanError(f"The token in {path} is empty. Put a long random text into it.")
    return token


def user_token(path: Path | None = None) -> str | None:
    """The token of the current user; None if no controller has created it. Other users must not be able to read it."""
    path = path or token_file()
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_IMODE(mode) & 0o077:
        raise PlanError(f"Other users can read the token in {path}. Run chmod 600, or delete it.")
    return read_token(path)


def create_token(path: Path | None = None) -> str:
    """Return the token of the current user; create it if it does not exist."""
    path = path or token_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The link appears complete, and never replaces a token that another process has just created.
        handle, unfinished = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), _TOKEN_MODE)
                file.write(secrets.token_hex(32) + "\n")
            with suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            os.unlink(unfinished)  # noqa: PTH108 - a name, not a path
    except OSError as cause:
        raise PlanError(
            f"The token cannot be stored in {path}: {cause}. Set EVENTIDE_TOKEN, or pass --token-file."
        ) from cause
    token = user_token(path)
    assert token is not None  # created here or by another process
    return token


def _connector(
    scheme: str, host: str, port: int | None, timeout: float, ca: str | None
) -> Callable[[], http.client.HTTPConnection]:
    if scheme == "http":
        return lambda: http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as cause:
        raise unreadable("The file of EVENTIDE_CA", ca, cause) from cause
    return lambda: http.client.HTTPSConnection(host, port, timeout=timeout, context=context)

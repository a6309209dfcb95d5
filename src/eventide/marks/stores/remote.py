"""A store behind a controller, for writers and readers without access to the database."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from eventide.marks.controller import wire
from eventide.marks.controller.http_client import Client, is_loopback, user_token
from eventide.marks.mark import NoteColumns


def remote_store(url: str, *, token: str | None = None) -> RemoteStore:
    """Open the store behind the controller at a URL.

    The default token is ``EVENTIDE_TOKEN``, or on loopback the token of the current user. ``EVENTIDE_CA`` names a file
    with trusted certificates.
    """
    token = token or os.environ.get("EVENTIDE_TOKEN")
    if token is None and is_loopback(urlsplit(url).hostname or ""):
        token = user_token()
    return RemoteStore(url, token=token, ca=os.environ.get("EVENTIDE_CA"))


class RemoteStore:
    """A ``Store`` over HTTP, with the options of ``Client``. Its methods are the calls of the wire protocol.

    When a connection breaks, idempotent calls are repeated for up to ``patience`` seconds.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)
        self.url = self._client.url

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def note_columns(self, stream: str) -> NoteColumns:
        """Return the notes of a stream in columns, which are not sent over HTTP."""
        return NoteColumns.from_notes(self.notes(stream))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in wire.CALLS:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return partial(self._call, name)

    def _call(self, call: str, *values: Any, **options: Any) -> Any:
        return self._client.call(call, wire.bind_arguments(call, *values, **options))

"""A store behind a controller, for writers and readers without access to the database."""

# ruff: noqa: D102 - ``Store`` documents the methods
# Results are checked when they are decoded:
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlsplit

from eventide.marks.controller.http_client import Client, is_loopback, user_token
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.store import Blob, Config, Lease, Part, StreamInfo, TransactionInfo, WriterHandle


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
    """A ``Store`` over HTTP, with the options of ``Client``.

    When a connection breaks, idempotent calls are repeated for up to ``patience`` seconds.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)
        self.url = self._client.url

    def close(self) -> None:
        self._client.close()

    def _call(self, call: str, **arguments: Any) -> Any:
        return self._client.call(call, arguments)

    # streams and segments

    def create_stream(self, name: str, config: Config) -> StreamInfo:
        return self._call("create_stream", name=name, config=config)

    def stream(self, name: str) -> StreamInfo:
        return self._call("stream", name=name)

    def streams(self) -> list[str]:
        return self._call("streams")

    def delete_stream(self, name: str) -> None:
        self._call("delete_stream", name=name)

    def scale(self, name: str, seal: Sequence[int], ranges: Ranges) -> Segments:
        return self._call("scale", name=name, seal=seal, ranges=ranges)

    def seal(self, name: str) -> Segments:
        return self._call("seal", name=name)

    def truncate(self, name: str, cut: Position) -> None:
        self._call("truncate", name=name, cut=cut)

    def lengths(self, name: str) -> dict[int, int]:
        return self._call("lengths", name=name)

    # events

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> WriterHandle:
        return self._call("open_writer", stream=stream, writer=writer, take_over=take_over)

    def append(
        self, handle: WriterHandle, sequence: int, parts: Sequence[Part], *, note: int | None = None
    ) -> dict[int, int]:
        return self._call("append", handle=handle, sequence=sequence, parts=parts, note=note)

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._call("read", stream=stream, segment=segment, offset=offset, rows=rows, until=until)

    def compact(self, stream: str, segment: int, offset: int) -> int:
        return self._call("compact", stream=stream, segment=segment, offset=offset)

    def close_writer(self, handle: WriterHandle) -> None:
        self._call("close_writer", handle=handle)

    # transactions

    def begin(self, handle: WriterHandle, *, timeout: int) -> TransactionInfo:
        return self._call("begin", handle=handle, timeout=timeout)

    def add(self, handle: WriterHandle, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._call("add", handle=handle, transaction=transaction, number=number, rows=rows, body=body)

    def commit(self, handle: WriterHandle, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._call("commit", handle=handle, transaction=transaction, note=note)

    def commit_batch(
        self, handle: WriterHandle, sequence: int, ids: Sequence[str], *, note: int | None = None
    ) -> dict[int, int]:
        return self._call("commit_batch", handle=handle, sequence=sequence, ids=ids, note=note)

    def abort(self, handle: WriterHandle, transaction: str) -> None:
        self._call("abort", handle=handle, transaction=transaction)

    def transactions(self, stream: str) -> list[TransactionInfo]:
        return self._call("transactions", stream=stream)

    def expire_transactions(self) -> int:
        return self._call("expire_transactions")

    # notes and marks

    def now(self) -> int:
        return self._call("now")

    def note(self, handle: WriterHandle, time: int, position: Position) -> None:
        self._call("note", handle=handle, time=time, position=position)

    def notes(self, stream: str) -> list[Note]:
        return self._call("notes", stream=stream)

    def note_columns(self, stream: str) -> NoteColumns:
        return NoteColumns.from_notes(self.notes(stream))

    def put_mark(self, lease: Lease, mark: Mark, *, obsolete: Collection[tuple[str, int]] = ()) -> None:
        self._call("put_mark", lease=lease, mark=mark, obsolete=obsolete)

    def delete_notes(self, lease: Lease, notes: Collection[tuple[str, int]]) -> None:
        self._call("delete_notes", lease=lease, notes=notes)

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        return self._call("marks", stream=stream, after=after, limit=limit)

    def last_mark(self, stream: str) -> Mark | None:
        return self._call("last_mark", stream=stream)

    # controllers

    def heartbeat(self, controller: str, until: int) -> None:
        self._call("heartbeat", controller=controller, until=until)

    def controllers(self) -> list[str]:
        return self._call("controllers")

    def leave(self, controller: str) -> None:
        self._call("leave", controller=controller)

    def acquire(self, stream: str, controller: str, until: int) -> Lease | None:
        return self._call("acquire", stream=stream, controller=controller, until=until)

    def release(self, lease: Lease) -> None:
        self._call("release", lease=lease)

    def leases(self) -> list[Lease]:
        return self._call("leases")

    # reader groups

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        return self._call("group", stream=stream, name=name)

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        return self._call("put_group", stream=stream, name=name, version=version, state=state)

    def delete_group(self, stream: str, name: str) -> None:
        self._call("delete_group", stream=stream, name=name)

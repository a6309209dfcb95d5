"""A store behind a controller: for writers and readers that do not have the database."""

# ruff: noqa: D102 - ``Store`` says what each of them does
# The types of answers are checked when they come:
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import urlsplit

from eventide.marks.controller.client import Client, is_loopback
from eventide.marks.controller.token_file import own_token
from eventide.marks.mark import Mark, Note, NoteColumns
from eventide.marks.segments import Position, Ranges, Segments
from eventide.marks.stores.store import Blob, Config, Lease, Part, Seat, StreamInfo, Transaction


def remote_store(url: str, *, token: str | None = None) -> RemoteStore:
    """The store behind the controller at an address.

    Without ``token`` it is that of ``EVENTIDE_TOKEN``, or on this machine the one of this user, if there is one;
    ``EVENTIDE_CA`` names a file with the certificates to trust.
    """
    token = token or os.environ.get("EVENTIDE_TOKEN")
    if token is None and is_loopback(urlsplit(url).hostname or ""):
        token = own_token()
    return RemoteStore(url, token=token, ca=os.environ.get("EVENTIDE_CA"))


class RemoteStore:
    """A ``Store`` over HTTP. When a connection breaks, a call that is harmless to repeat is repeated.

    It takes the options of ``Client``: ``patience`` says for how many seconds.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)
        self.url = self._client.url

    def close(self) -> None:
        self._client.close()

    def _call(self, call: str, **given: Any) -> Any:
        return self._client.call(call, given)

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

    def open_writer(self, stream: str, writer: str, *, take_over: bool = False) -> Seat:
        return self._call("open_writer", stream=stream, writer=writer, take_over=take_over)

    def append(self, seat: Seat, sequence: int, parts: Sequence[Part], *, note: int | None = None) -> dict[int, int]:
        return self._call("append", seat=seat, sequence=sequence, parts=parts, note=note)

    def read(self, stream: str, segment: int, offset: int, *, rows: int, until: int | None = None) -> list[Blob]:
        return self._call("read", stream=stream, segment=segment, offset=offset, rows=rows, until=until)

    def pack(self, stream: str, segment: int, offset: int) -> int:
        return self._call("pack", stream=stream, segment=segment, offset=offset)

    def close_writer(self, seat: Seat) -> None:
        self._call("close_writer", seat=seat)

    # transactions

    def begin(self, seat: Seat, *, timeout: int) -> Transaction:
        return self._call("begin", seat=seat, timeout=timeout)

    def add(self, seat: Seat, transaction: str, number: int, rows: int, body: bytes) -> None:
        self._call("add", seat=seat, transaction=transaction, number=number, rows=rows, body=body)

    def commit(self, seat: Seat, transaction: str, *, note: int | None = None) -> dict[int, int]:
        return self._call("commit", seat=seat, transaction=transaction, note=note)

    def commit_batch(self, seat: Seat, sequence: int, ids: Sequence[str], *, note: int | None = None) -> dict[int, int]:
        return self._call("commit_batch", seat=seat, sequence=sequence, ids=ids, note=note)

    def abort(self, seat: Seat, transaction: str) -> None:
        self._call("abort", seat=seat, transaction=transaction)

    def transactions(self, stream: str) -> list[Transaction]:
        return self._call("transactions", stream=stream)

    def expire_transactions(self) -> int:
        return self._call("expire_transactions")

    # notes and marks

    def now(self) -> int:
        return self._call("now")

    def note(self, seat: Seat, time: int, position: Position) -> None:
        self._call("note", seat=seat, time=time, position=position)

    def notes(self, stream: str) -> list[Note]:
        return self._call("notes", stream=stream)

    def note_columns(self, stream: str) -> NoteColumns:
        return NoteColumns.of(self.notes(stream))

    def put_mark(self, lease: Lease, mark: Mark, *, forget: Collection[tuple[str, int]] = ()) -> None:
        self._call("put_mark", lease=lease, mark=mark, forget=forget)

    def forget(self, lease: Lease, writers: Collection[tuple[str, int]]) -> None:
        self._call("forget", lease=lease, writers=writers)

    def marks(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Mark]:
        return self._call("marks", stream=stream, after=after, limit=limit)

    def last_mark(self, stream: str) -> Mark | None:
        return self._call("last_mark", stream=stream)

    # controllers

    def beat(self, controller: str, until: int) -> None:
        self._call("beat", controller=controller, until=until)

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

    # groups of readers

    def group(self, stream: str, name: str) -> tuple[int, bytes] | None:
        return self._call("group", stream=stream, name=name)

    def put_group(self, stream: str, name: str, version: int, state: bytes) -> bool:
        return self._call("put_group", stream=stream, name=name, version=version, state=state)

    def delete_group(self, stream: str, name: str) -> None:
        self._call("delete_group", stream=stream, name=name)

"""A real server on a free port of this machine, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eventide.marks.controller.connections import ConnectionLimits
from eventide.marks.controller.controller import Status
from eventide.marks.controller.http_server import Server, ServerSettings, create_app
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore
from eventide.marks.stores.store import Store

TOKEN = "of-the-tests"


@contextmanager
def serving(
    store: Store, *, status: Callable[[], Status] | None = None, limits: ConnectionLimits | None = None, **settings: Any
) -> Iterator[str]:
    """The address of a server with a store behind it."""
    chosen = ServerSettings(**{"port": 0, "token": TOKEN, **settings})
    ready = threading.Event()
    face = create_app(store, token=chosen.token, hosts=chosen.accepted_hosts, max_body=chosen.max_body, status=status)
    server = Server(face, chosen, lambda url: ready.set(), limits)
    thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
    thread.start()
    try:
        assert ready.wait(30)
        yield server.url
    finally:
        server.stop()
        thread.join(30)


@contextmanager
def remote(clock: Callable[[], int]) -> Iterator[RemoteStore]:
    """An empty store in memory, behind a real server: for all suites that a store must pass."""
    with serving(MemoryStore(clock)) as url:
        store = RemoteStore(url, token=TOKEN)
        try:
            yield store
        finally:
            store.close()

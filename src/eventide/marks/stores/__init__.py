"""Where streams and marks are kept."""

from __future__ import annotations

from eventide.errors import marks as errors
from eventide.marks.stores.store import Store


def connect(url: str, *, token: str | None = None) -> Store:
    """The store at an address: ``sqlite:///shop.db``, ``postgresql://…``, or a controller's ``https://…``."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from eventide.marks.stores.sqlite import sqlite_store

        return sqlite_store(url)
    if scheme in ("postgresql", "postgres"):
        from eventide.marks.stores.postgres import postgres_store

        return postgres_store(url)
    if scheme in ("http", "https"):
        from eventide.marks.remote import remote_store

        return remote_store(url, token=token)
    raise errors.unknown_store(url)

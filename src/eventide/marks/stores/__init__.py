"""Stores of streams and marks: in memory, in a SQL database, or behind a controller."""

from __future__ import annotations

from eventide.marks.errors import unknown_store
from eventide.marks.stores.store import Store


def connect(url: str, *, token: str | None = None) -> Store:
    """Open the store at a URL: ``sqlite:///shop.db``, ``postgresql://…``, or a controller's ``https://…``."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from eventide.marks.stores.sql_dialects import sqlite_store

        return sqlite_store(url)
    if scheme == "postgresql":
        from eventide.marks.stores.sql_dialects import postgres_store

        return postgres_store(url)
    if scheme in ("http", "https"):
        from eventide.marks.stores.remote import remote_store

        return remote_store(url, token=token)
    raise unknown_store(url)

"""Stores of messages, windows and outputs: in memory, or in an SQLite file, with the same contract."""

from eventide.standalone.stores.memory import MemoryStore
from eventide.standalone.stores.sqlite import SqliteStore
from eventide.standalone.stores.store import MessageStore, Range, Store, Windows

__all__ = ["MemoryStore", "MessageStore", "Range", "SqliteStore", "Store", "Windows"]

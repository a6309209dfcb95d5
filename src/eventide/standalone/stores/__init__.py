"""Where messages, windows and outputs rest: in memory, or in a file of SQLite. Both keep the same promises."""

from eventide.standalone.stores.memory import MemoryStore
from eventide.standalone.stores.sqlite import SqliteStore
from eventide.standalone.stores.store import MessageStore, Range, Store, Windows

__all__ = ["MemoryStore", "MessageStore", "Range", "SqliteStore", "Store", "Windows"]

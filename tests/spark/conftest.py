"""The databases that sinks are tested with."""

from tests.sinks.conftest import place, postgres, server, sqlite

__all__ = ["place", "postgres", "server", "sqlite"]

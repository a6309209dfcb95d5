"""The databases that sinks are tested with."""

from tests.sinks.conftest import place, postgres, sqlite

__all__ = ["place", "postgres", "sqlite"]

"""A Spark session, a PostgreSQL and an SQLite for the sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sinks.places import Place


@pytest.fixture
def postgres(postgres_url: str) -> Place:
    """An empty schema of PostgreSQL."""
    return Place("postgres", postgres_url)


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    """A file that does not exist yet."""
    return Place("sqlite", f"sqlite:///{tmp_path}/panes.db")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the databases."""
    opened: Place = request.getfixturevalue(request.param)
    return opened

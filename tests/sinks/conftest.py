"""A Spark session, a PostgreSQL and an SQLite for the sinks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.sinks.places import Place
from tests.sinks.postgres import UnavailableError, cluster

_schemas = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL for all tests."""
    running = cluster()
    try:
        url = running.__enter__()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    yield url
    running.__exit__(None, None, None)


@pytest.fixture
def postgres(server: str) -> Place:
    """An empty schema of PostgreSQL."""
    schema = f"test_{next(_schemas)}"
    with psycopg.connect(server) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return Place("postgres", f"{server}&options=-csearch_path%3D{schema}")


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    """A file that does not exist yet."""
    return Place("sqlite", f"sqlite:///{tmp_path}/panes.db")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each of the databases."""
    found: Place = request.getfixturevalue(request.param)
    return found

"""A Spark session, a PostgreSQL and an SQLite for the sinks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.sinks.places import Place
from tests.sinks.postgres import UnavailableError, cluster

_schemas = count()


@pytest.fixture(scope="session")
def spark() -> Any:
    """A session; the one that runs already, if there is one."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that start a Spark run one after the other: two at once need more than two cores."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("spark"))

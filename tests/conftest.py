"""How random tests run: never against the clock, and in CI always with the same examples. And what tests share: one
Spark session, one PostgreSQL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.effort import examples
from tests.postgres import cluster
from tests.services import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("here", deadline=None, max_examples=examples(60))
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


_schemas = count()

ROOT = Path(__file__).parents[1]
_CACHES = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()}


_before: set[Path] = set()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Look at the repository before all tests; workers of pytest-xdist see files that others still need."""
    if not hasattr(session.config, "workerinput"):
        _before.update(ROOT.iterdir())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test that writes into the working directory would leave files that somebody commits by mistake."""
    if not hasattr(session.config, "workerinput"):
        left = {path.name for path in set(ROOT.iterdir()) - _before} - _CACHES
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print(f"\nThe tests have left files in the repository: {', '.join(sorted(left))}")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL for all tests."""
    yield from running(cluster())


@pytest.fixture
def postgres_url(server: str) -> str:
    """An empty schema of PostgreSQL."""
    import psycopg

    schema = f"test_{next(_schemas)}"
    with psycopg.connect(server) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{server}&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, two state partitions, and nothing left behind."""
    from eventide.spark.session import spark_session

    place = tmp_path_factory.mktemp("spark")
    running = spark_session(
        "eventide tests",
        master="local[2]",
        partitions=2,
        config={
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.streaming.checkpointLocation": str(place / "checkpoints"),
            "spark.local.dir": str(place / "local"),
            # Tests are short: they would spend most of their time in Java's optimising compiler.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield running
    running.stop()

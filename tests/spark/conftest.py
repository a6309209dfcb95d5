"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, two state partitions, and nothing left behind."""
    from eventide.spark.session import session

    place = tmp_path_factory.mktemp("spark")
    running = session(
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests that start a Spark run one after the other: two at once need more than two cores."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("spark"))

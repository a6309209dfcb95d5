"""How random tests run: never against the clock, and in CI always with the same examples. And the one Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("here", deadline=None, max_examples=60)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


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

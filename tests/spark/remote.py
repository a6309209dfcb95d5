"""File systems that are not this machine's disk, or do not look like it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.hdfs import hdfs
from tests.services import running


@contextmanager
def viewfs(spark: SparkSession, place: Path) -> Iterator[str]:
    """Give the address of a directory under another scheme: Hadoop has a file system that is a view of others."""
    name = f"view{uuid.uuid4().hex}"
    setting = f"fs.viewfs.mounttable.{name}.link./data"
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # those of all sessions
    settings.set(setting, place.as_uri())
    yield f"viewfs://{name}/data"
    settings.unset(setting)


@pytest.fixture(scope="session")
def hdfs_address() -> Iterator[str]:
    """A real HDFS for all tests."""
    yield from running(hdfs())


@pytest.fixture(params=["viewfs", pytest.param("hdfs", marks=pytest.mark.long)])
def remote(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The address of an empty directory that is not on this machine's disk."""
    if request.param == "viewfs":
        with viewfs(spark, tmp_path / "remote") as address:
            (tmp_path / "remote").mkdir()
            yield address
    else:
        yield f"{request.getfixturevalue('hdfs_address')}/{uuid.uuid4().hex}"

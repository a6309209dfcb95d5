"""Addresses of files: on this machine's disk, or elsewhere, where Hadoop finds them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_disk(address: str) -> str | None:
    """Return the path of a file of this machine; None for a file elsewhere. As in Spark, nothing is escaped.

    >>> on_disk("file:///tmp/a%20b#c"), on_disk("/tmp/x"), on_disk("s3a://shop/x")
    ('/tmp/a%20b#c', '/tmp/x', None)
    >>> on_disk("dbfs:/shop/x")
    """
    if address.startswith("file:"):
        return "/" + address.removeprefix("file:").lstrip("/")
    return None if re.match(r"[A-Za-z][\w+.-]+:/", address) else address


def local_path(address: str, spark: SparkSession | None) -> Path | None:
    """Return the path on this machine's disk, or None. A path without a scheme is on Spark's default file system."""
    local = on_disk(address)
    if local is None:
        return None
    if not address.startswith("file:") and spark is not None and _default_scheme(spark) != "file":
        return None
    return Path(local)


@lru_cache(maxsize=4)  # the start of a query asks several times, and each time costs a dozen calls of the JVM
def _default_scheme(spark: SparkSession) -> str:
    """Return the scheme of Spark's default file system."""
    java, settings = hadoop(spark)
    return str(java.org.apache.hadoop.fs.FileSystem.getDefaultUri(settings).getScheme())


def hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return the Java classes and the Hadoop settings of a session: those that its checkpoints are opened with."""
    return spark.sparkContext._jvm, spark._jsparkSession.sessionState().newHadoopConf()

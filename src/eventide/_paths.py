"""Paths of files: on this machine's disk, or on another file system that Hadoop resolves."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from eventide._jvm import default_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_disk(address: str) -> str | None:
    """The path of a file on this machine; None for another file system. As in Spark, nothing is unescaped.

    >>> on_disk("file:///tmp/a%20b#c"), on_disk("/tmp/x"), on_disk("s3a://shop/x")
    ('/tmp/a%20b#c', '/tmp/x', None)
    >>> on_disk("dbfs:/shop/x")
    """
    if address.startswith("file:"):
        return "/" + address.removeprefix("file:").lstrip("/")
    return None if re.match(r"[A-Za-z][\w+.-]+:/", address) else address


def local_path(address: str, spark: SparkSession | None) -> Path | None:
    """The path on this machine's disk, or None. A path without a scheme is on Spark's default file system."""
    local = on_disk(address)
    if local is None:
        return None
    if not address.startswith("file:") and spark is not None and default_scheme(spark) != "file":
        return None
    return Path(local)


def absolute_address(address: str, spark: SparkSession | None) -> str:
    """Return an address that does not depend on a working directory: Python and the JVM may have different ones.

    >>> absolute_address("/data/x", None), absolute_address("s3a://shop/x", None)
    ('/data/x', 's3a://shop/x')
    """
    local = local_path(address, spark)
    return address if local is None or local.is_absolute() else os.path.abspath(local)  # noqa: PTH100


def sync(path: Path) -> None:
    """Flush a file to disk, or the entries of a directory: files that were created, renamed or deleted in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_directory(path: Path) -> None:
    """Create a directory and its parents durably."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)

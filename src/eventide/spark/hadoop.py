"""Cheaper files of checkpoints on this machine's disk.

Spark writes each file of a checkpoint under another name and renames it. Its default file manager starts three programs
for each file (``chmod``, twice ``readlink``), some 40 ms per batch and log. Spark's file manager that renames through
Hadoop's ``FileSystem`` starts ``chmod`` only, and ``LocalFiles.java`` does without that one too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BY_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_LOCAL_FILES = "fs.file.impl"
_POSIX = os.name == "posix"  # elsewhere Java has other permissions


def renaming_manager(spark: SparkSession) -> dict[str, str]:
    """Return the setting that makes Spark rename the files of a local checkpoint, if Spark has that class."""
    from py4j.protocol import Py4JError

    java, _ = _both(spark)
    try:
        java.Class.forName(BY_RENAMING, False, java.Thread.currentThread().getContextClassLoader())
    except Py4JError:
        return {}
    return {FILE_MANAGER: BY_RENAMING}


def use_cheap_files(spark: SparkSession) -> None:
    """Let Java itself set the permissions of all local files of this JVM, unless the user named a class for them."""
    java, settings = _both(spark)
    if _POSIX and settings.get(_LOCAL_FILES) is None:
        _replace(java, settings)


def _replace(java: Any, settings: Any) -> None:
    """Replace the one object for local files that all of a JVM share.

    The compiler is the one that Spark has for its queries, so this needs no JDK. If it fails, nothing changes.
    """
    from py4j.protocol import Py4JError

    try:
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(java.Thread.currentThread().getContextClassLoader())
        compiler.cook(Path(__file__).with_name("LocalFiles.java").read_text())
        ours = java.org.apache.hadoop.conf.Configuration(settings)
        ours.setClassLoader(compiler.getClassLoader())
        ours.set(_LOCAL_FILES, "eventide.LocalFiles")
        here = java.java.net.URI("file:///")
        shared = java.org.apache.hadoop.fs.FileSystem
        shared.get(here, ours).close()  # users of the closed object may go on; the next caller gets another
        shared.get(here, ours)
    except Py4JError:
        return


def _both(spark: SparkSession) -> tuple[Any, Any]:
    return spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()

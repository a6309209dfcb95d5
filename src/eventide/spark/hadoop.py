"""What Hadoop costs each batch of a session on this machine, made small: local files, and settings that are sent."""

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


def use_cheap_files(spark: SparkSession) -> None:
    """All local files of this JVM get their permissions from Java itself, and no ``.crc`` beside them.

    Spark writes a checkpoint's file under another name and renames it. Its usual way starts three programs for each
    (chmod, twice readlink), 30 ms for a file of a line; plain renaming still starts one, and a batch writes seven
    files. Plain renaming is as safe, but for the ``.crc``: that is a second file, renamed a moment later, and a crash
    in between would leave one that does not fit.
    """
    java, settings = _both(spark)
    if _POSIX and settings.get(_LOCAL_FILES) is None:
        _replace(java, settings)
    java.org.apache.hadoop.fs.FileSystem.getLocal(settings).setWriteChecksum(False)


def forget_where_settings_came_from(spark: SparkSession) -> None:
    """Hadoop's settings without a note beside each, in which file it stood.

    Spark sends them with each batch, twice: some 1,100, and each note is compressed on its own, which takes 4 of 5 ms.
    Nothing but a listing of settings reads the notes. Where Hadoop has none under that name, all stays as it was.
    """
    from py4j.protocol import Py4JError

    java, settings = _both(spark)
    try:
        notes = java.Class.forName("org.apache.hadoop.conf.Configuration").getDeclaredField("updatingResource")
        notes.setAccessible(True)
        notes.get(settings).clear()
    except Py4JError:
        return


def _replace(java: Any, settings: Any) -> None:
    """Put ours where Hadoop keeps the one object for local files that all of a JVM share.

    The compiler is the one that Spark has for its queries, so this needs no JDK. Where it cannot, all stays as it was.
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
        shared.get(here, ours).close()  # who holds it may go on with it, but the next to ask gets another
        shared.get(here, ours)
    except Py4JError:
        return


def _both(spark: SparkSession) -> tuple[Any, Any]:
    return spark.sparkContext._jvm, spark.sparkContext._jsc.hadoopConfiguration()

"""Local files for a session on this machine, as safe as Spark's and without a program that is started for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
BY_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_SETTING_OF_HADOOP = "fs.file.impl"


def use_cheap_files(spark: SparkSession) -> None:
    """All local files of this JVM get their permissions from Java itself, and no ``.crc`` beside them.

    Spark writes a checkpoint's file under another name and renames it. Its usual way starts three programs for each
    (chmod, twice readlink), 30 ms for a file of a line; plain renaming still starts one, and a batch writes seven
    files. Plain renaming is as safe, but for the ``.crc``: that is a second file, renamed a moment later, and a crash
    in between would leave one that does not fit.
    """
    java: Any = spark.sparkContext._jvm
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    if settings.get(_SETTING_OF_HADOOP) is None:
        _replace(java, settings)
    java.org.apache.hadoop.fs.FileSystem.getLocal(settings).setWriteChecksum(False)


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
        ours.set(_SETTING_OF_HADOOP, "eventide.LocalFiles")
        here = java.java.net.URI("file:///")
        shared = java.org.apache.hadoop.fs.FileSystem
        shared.get(here, ours).close()  # who holds it may go on with it, but the next to ask gets another
        shared.get(here, ours)
    except Py4JError:
        return

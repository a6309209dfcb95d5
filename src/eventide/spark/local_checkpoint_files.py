"""The optional acceleration of ``ev.spark_session(fast_checkpoints=True)``: local checkpoint files without ``chmod``.

Hadoop starts the program ``chmod`` for each local file that it creates, and a micro-batch creates several.
``LocalFiles.java`` sets the permissions in Java instead. This module replaces Hadoop's object for local files in the
JVM of a new local session. Only ``session.py`` imports it, and nothing depends on it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide._jvm import hadoop_of_new_sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IMPLEMENTATION = "fs.file.impl"
_POSIX = os.name == "posix"  # other systems have other permissions


def install(spark: SparkSession) -> None:
    """Replace Hadoop's class for local files in this JVM, unless the user has named a class."""
    jvm, configuration = hadoop_of_new_sessions(spark)
    if _POSIX and configuration.get(_IMPLEMENTATION) is None:
        _replace(jvm, configuration)


def _replace(jvm: Any, configuration: Any) -> None:
    """Replace the object for local files, which the whole JVM shares.

    Spark's own compiler for queries compiles the class, so no JDK is needed. If that fails, nothing changes.
    """
    from py4j.protocol import Py4JError

    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(Path(__file__).with_name("LocalFiles.java").read_text(encoding="utf-8"))
        replacement = jvm.org.apache.hadoop.conf.Configuration(configuration)
        replacement.setClassLoader(compiler.getClassLoader())
        replacement.set(_IMPLEMENTATION, "eventide.LocalFiles")
        root = jvm.java.net.URI("file:///")
        file_systems = jvm.org.apache.hadoop.fs.FileSystem
        file_systems.get(root, replacement).close()  # its users can continue; the next caller gets a new object
        file_systems.get(root, replacement)
    except Py4JError:
        return

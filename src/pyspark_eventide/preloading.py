"""What nearly every Python process of Spark's imports, done before it is forked.

Spark's own daemon imports nothing, because a thread that a package starts at import would be missing in the copies.
All that these packages start is a thread of the memory allocator, which is made for that. Polars is not among them: a
forked Polars does not delete the files that it spills. Modules of ours that need it get it when they first use it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

from pyspark_eventide.later import later

_NEEDED = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.datasource",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_util",
    "eventide.spark.processor",  # imports no other module of Eventide's
)
_NEEDED_BY_SOURCES = ("eventide.marks.spark.source", "eventide.marks.spark.cuts", "eventide.marks.stores.sqlite")


def preload() -> None:
    """Import it, and keep it out of the sight of the garbage collector."""
    _import(_NEEDED)
    with later("polars", "polars.selectors"):
        _import(_NEEDED_BY_SOURCES)
    gc.collect()
    gc.freeze()


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # a process that needs it says so better than we could
            importlib.import_module(name)

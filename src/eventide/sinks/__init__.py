"""Sinks: where panes, late rows and dead letters of a query are written.

``table``, ``delta`` and ``iceberg`` keep a table equal to the sum of the diffs, exactly once. ``files`` appends rows,
exactly once. ``stream`` writes events of a stream and notes their time. ``spark_format`` is any writer of Spark.
``console``, ``memory`` and ``noop`` are for development. An address (``"postgresql://db/shop#revenue"``), a function
``(batch, batch_id)`` and any object with ``open``, ``write`` and ``close`` are sinks, too. Who reads a topic of Kafka
drops repeated messages with ``drop_repeats``, or ``without_repeats`` in a streaming query.
"""

from typing import Never

from eventide._hints import no_attribute
from eventide.sinks.delta_table import delta
from eventide.sinks.development import console, memory
from eventide.sinks.iceberg_table import iceberg
from eventide.sinks.kafka_batches import without_repeats
from eventide.sinks.kafka_repeats import drop_repeats
from eventide.sinks.marks_stream import stream
from eventide.sinks.sink import AnySink, OutputInfo, Sink, as_sink
from eventide.sinks.spark_writers import files, noop, spark_format
from eventide.sinks.table_sink import table

__all__ = [
    "AnySink",
    "OutputInfo",
    "Sink",
    "as_sink",
    "console",
    "delta",
    "drop_repeats",
    "files",
    "iceberg",
    "memory",
    "noop",
    "spark_format",
    "stream",
    "table",
    "without_repeats",
]


def __getattr__(name: str) -> Never:
    raise AttributeError(no_attribute("eventide.sinks", name, __all__))

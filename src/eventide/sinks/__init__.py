"""Where the panes, the late rows and the dead letters of a query go.

``table`` keeps a table equal to the sum of the diffs, exactly once; ``files`` appends, exactly once; ``stream``
writes events of a stream, and notes their time; ``spark_format`` is any writer that Spark has. ``console``, ``memory``
and ``noop`` are for development. A function ``(batch, batch_id)`` is a sink, and so is whatever has ``open``, ``write``
and ``close``.
"""

from eventide.sinks.printing import console
from eventide.sinks.sink import About, Sink, as_sink
from eventide.sinks.streams import stream
from eventide.sinks.tables import table
from eventide.sinks.views import memory
from eventide.sinks.writers import files, noop, spark_format

__all__ = ["About", "Sink", "as_sink", "console", "files", "memory", "noop", "spark_format", "stream", "table"]

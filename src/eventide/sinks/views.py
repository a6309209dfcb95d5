"""The last batches as a view that SQL can query while the query runs: for notebooks and tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from eventide.errors import sinks as errors
from eventide.sinks.sink import About, Output, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from eventide.sinks.batch import SinkBatch


def memory(name: str, *, rows: int = 100_000) -> Sink:
    """A temporary view ``name`` of the session, with the rows of the last batches. A replayed batch replaces itself.

    The rows are kept on the driver, and the view is made anew with each batch. So it is bounded: when there are more
    than ``rows`` rows, the oldest batches go, as whole batches; the newest one always stays.

    >>> memory("panes")
    memory('panes', rows=100000)
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise errors.bad_option("memory", "name", name, "a name as SQL has them: letters, digits and underscores")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise errors.bad_option("memory", "rows", rows, "a number of rows, at least 1")
    return MemorySink(name, rows)


@dataclass
class MemorySink:
    """Keeps the last batches."""

    name: str
    rows: int
    _output: Output | None = field(default=None, repr=False)
    _schema: StructType | None = field(default=None, repr=False)
    _spark: SparkSession | None = field(default=None, repr=False)
    _kept: dict[int, pa.Table] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"memory({self.name!r}, rows={self.rows})"

    def open(self, schema: StructType, about: About) -> None:
        """Make the view, so that it can be queried before the first batch."""
        from pyspark.sql import SparkSession

        if self._output not in (None, about.output):
            raise errors.second_output(repr(self), str(self._output), about.output)
        self._output, self._schema = about.output, schema
        # Spark runs a batch in a session of its own, whose views no one else sees; so the user's session is kept.
        self._spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        self._show()

    def write(self, batch: SinkBatch, batch_id: int, about: About) -> None:
        """Keep the batch, forget the oldest."""
        if self._schema is None:
            raise errors.not_opened(repr(self), about.output)
        self._kept.pop(batch_id, None)
        new = batch.arrow
        if new.num_rows:
            self._kept[batch_id] = new
        while len(self._kept) > 1 and sum(table.num_rows for table in self._kept.values()) > self.rows:
            del self._kept[min(self._kept)]
        self._show()

    def close(self) -> None:
        """The view stays."""

    def _show(self) -> None:
        assert self._spark is not None and self._schema is not None
        if self._kept:
            everything = pa.concat_tables(self._kept[batch_id] for batch_id in sorted(self._kept))
            view = self._spark.createDataFrame(everything, schema=self._schema)
        else:
            view = self._spark.createDataFrame([], schema=self._schema)
        view.createOrReplaceTempView(self.name)

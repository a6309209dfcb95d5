"""``format("eventide")``: a stream of ``eventide.marks`` as a source and a sink of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class EventideSource(DataSource):
    """A stream, by its address: ``load("sqlite:///shop.db#orders")``.

    Spark loads this class in every session, so its methods import the readers and writers only when they need them.

    Options to read: ``rows_per_batch``, ``start`` (``earliest``, ``latest``, or a cut as JSON), ``token``, ``places``
    (``false`` leaves out ``_segment``, ``_offset`` and ``_mark``, which ``ev.noted`` needs, and is faster).
    Options to write: ``writer_id``, ``routing_key``, ``note`` (a column whose highest value is noted with each batch),
    ``token``, and, for a table, ``batch`` and ``query``: a number and a name under which it is written once.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "eventide"

    def schema(self) -> StructType | str:
        """Return the columns of the events and of their position in the stream."""
        from eventide.spark.marks_source import source_schema

        schemas = {"marks": "value string", "ranges": "segment bigint, start bigint, end bigint, mark bigint"}
        return schemas.get(self.options.get("only", "")) or source_schema(self._address(), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all events that exist now."""
        from eventide.spark.marks_source import SnapshotReader

        return SnapshotReader(self._address(), self.options.get("token"), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of existing and new events."""
        from eventide.spark.marks_source import EventsReader, MarksReader, RangesReader

        if self.options.get("only") == "marks":
            return MarksReader(self._address(), self.options.get("token"), self.options["identity"])
        kind = RangesReader if self.options.get("only") == "ranges" else EventsReader
        return kind(self._address(), self.options.get("token"), schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of a table's rows."""
        from eventide.errors import PlanError
        from eventide.spark.marks_sink import BatchWriter

        if overwrite:
            raise PlanError("Events of a stream are not overwritten. Use mode('append').")
        return BatchWriter(self._address(), schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return a writer of a query's rows."""
        from eventide.spark.marks_sink import StreamWriter

        return StreamWriter(self._address(), schema, self.options)

    def _address(self) -> str:
        return self.options.get("path") or ""

"""Rows that leave an operator, as the body of a page: Arrow's stream format, in Spark's own types."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def table_to_bytes(table: pa.Table) -> bytes:
    """The rows as one body."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def batches_of(body: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of a body."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        yield from reader

"""Where the source has a row: columns beside late rows and dead letters, so that the row can be found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from eventide.operators.operator import StreamOperator
from eventide.operators.windowed import WindowedAggregate
from eventide.spark.feeding import Feed
from eventide.spark.scan import Scan
from eventide.spark.types import polars_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_METADATA = "_metadata"
_FILES = (
    {"source_file": "_metadata.file_path", "source_row": "_metadata.row_index"},  # Parquet
    {"source_file": "_metadata.file_path", "source_block": "_metadata.file_block_start"},  # any other file
)
_KAFKA = {"source_topic": "topic", "source_partition": "partition", "source_offset": "offset"}


def with_source_position(feed: Feed, operator: StreamOperator) -> Feed:
    """Return the rows with their position in the source, where the source tells it.

    Joins, processors and calls see all columns of a row, so nothing is added to theirs.
    """
    if type(operator) is not WindowedAggregate or operator.plan.inputs or isinstance(feed.rows, Scan):
        return feed
    position = _position(feed.rows)
    if not position:
        return feed
    from pyspark.sql import functions as F  # noqa: N812

    names = {_free(name, feed.rows): column for name, column in position.items()}
    rows = feed.rows.withColumns({name: F.col(column) for name, column in names.items()})
    schema = polars_schema(rows.select(*names).schema)
    return replace(feed, rows=rows, schema=feed.schema | schema)


def _position(rows: DataFrame) -> Mapping[str, str]:
    """The columns of the source that tell where a row is; none if it has no such columns, or they are gone."""
    from pyspark.errors import AnalysisException

    if set(_KAFKA.values()) <= set(rows.columns):
        return _KAFKA
    if _METADATA in rows.columns:  # a column of the user's
        return {}
    for candidate in _FILES:
        try:
            rows.select(*candidate.values())
        except AnalysisException:
            continue
        return candidate
    return {}


def _free(name: str, rows: DataFrame) -> str:
    """A name that no column has: with underscores behind it, as other columns of late rows."""
    taken = {column.lower() for column in rows.columns}
    while name in taken:
        name += "_"
    return name

"""Rows as messages of Kafka. A message that is written again is recognized by its key and its headers.

- ``key``: the key columns and the window as JSON. Kafka derives the partition from it, so a message that is written
  again is in the same partition.
- ``value``: the complete row as JSON.
- headers, all of them text: ``query``, ``output`` and ``batch``; for panes ``pane_index`` and ``diff``.

Key, window, pane index and diff identify a pane in its batch. Other rows (late rows, dead letters, rows of joins and
processors) have no such columns, and equal rows are legal. They have the header ``row``: a digest of the value, and the
number of the row among equal ones. Equal rows are interchangeable, so a repeated batch has the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.panes import DIFF, PANE_INDEX, WINDOW
from eventide.sinks.batch import JSON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from eventide.sinks.batch import SinkBatch
    from eventide.sinks.sink import OutputInfo

QUERY_HEADER, OUTPUT_HEADER, BATCH_HEADER = "query", "output", "batch"
PANE_INDEX_HEADER, DIFF_HEADER, ROW_HEADER = "pane_index", "diff", "row"

_KEY, _VALUE, _POSITION, _NUMBER = "key", "value", "position", "number"
_DIGEST_LENGTH = 32  # hexadecimal digits, 128 bits


def kafka_messages(batch: SinkBatch, batch_id: int, info: OutputInfo) -> DataFrame:
    """Return the rows of a batch as key, value and headers, in the order of the rows."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = batch.dataframe
    has_windows = info.output == "panes" and info.row_grain != "rows"
    names = [name for name in (*info.key, *(WINDOW if has_windows else ())) if name in rows.columns]
    messages = rows.select(
        (_as_json(names) if names else F.lit(None).cast("string")).alias(_KEY),
        _as_json(rows.columns).alias(_VALUE),
        *(F.col(column).cast("string").alias(header) for header, column in _pane_headers(rows, info).items()),
    )
    headers = {
        QUERY_HEADER: F.lit(info.query),
        OUTPUT_HEADER: F.lit(info.output),
        BATCH_HEADER: F.lit(str(batch_id)),
        **{name: F.col(f"`{name}`") for name in messages.columns[2:]},
    }
    key = F.col(_KEY)
    if not (has_windows and info.row_grain == "windows"):
        messages = _numbered(messages, has_key=bool(names), is_local=batch.is_local)
        digest = F.substring(F.sha2(F.col(_VALUE), 256), 1, _DIGEST_LENGTH)
        headers[ROW_HEADER] = F.concat(digest, F.lit("-"), F.col(_NUMBER))
        # Without a key, Kafka chooses any partition, and another one when the batch is repeated.
        key = key if names else digest
    return messages.select(key.alias(_KEY), _VALUE, _header_column(headers).alias("headers"))


def _pane_headers(rows: DataFrame, info: OutputInfo) -> dict[str, str]:
    """Return the headers about a pane and their columns. Other rows may have columns of these names."""
    if info.output != "panes":
        return {}
    if info.row_grain == "rows":
        return {DIFF_HEADER: DIFF} if dict(rows.dtypes).get(DIFF) == "tinyint" else {}
    return {PANE_INDEX_HEADER: PANE_INDEX, DIFF_HEADER: DIFF}


def _numbered(messages: DataFrame, *, has_key: bool, is_local: bool) -> DataFrame:
    """Return the messages with their number among equal ones, which are counted in one task.

    Messages of one key stay in their order, because a retraction precedes its replacement.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    by = [_KEY, _VALUE] if has_key else [_VALUE]
    messages = messages.withColumn(_POSITION, F.monotonically_increasing_id())
    if not is_local:
        messages = messages.repartition(by[0])
    number = F.row_number().over(Window.partitionBy(*by).orderBy(_POSITION)) - 1
    return messages.withColumn(_NUMBER, number).sortWithinPartitions(_POSITION)


def _as_json(names: list[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.to_json(F.struct(*(f"`{name.replace('`', '``')}`" for name in names)), JSON)


def _header_column(headers: dict[str, Column]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), text.cast("string").cast("binary").alias("value"))
            for name, text in headers.items()
        )
    )

"""``drop_repeats``: the messages of a topic without those that a repeated batch has written again.

The rule: two messages are the same if they agree in topic, partition, query, output, batch, key, pane index, diff and
row. The first one counts.

A batch is written completely before the next one starts. So in a partition, a message with a lower batch than one
before it, of the same query and output, is a repeat. It is enough to remember the messages of the last batch of each
partition, query and output: that is all the state of a reader.
"""

from __future__ import annotations

import polars as pl

from eventide.errors import PlanError
from eventide.sinks.kafka_messages import (
    BATCH_HEADER,
    DIFF_HEADER,
    OUTPUT_HEADER,
    PANE_INDEX_HEADER,
    QUERY_HEADER,
    ROW_HEADER,
)

_HEADERS = {
    "query": QUERY_HEADER,
    "output": OUTPUT_HEADER,
    "batch": BATCH_HEADER,
    "pane_index": PANE_INDEX_HEADER,
    "diff": DIFF_HEADER,
    "row": ROW_HEADER,
}
_HEADERS_TYPE = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))
_WRITER = ["topic", "partition", "query", "output"]  # whose batches ascend
SEEN = pl.Schema(
    {
        "topic": pl.String,
        "partition": pl.Int64,
        "query": pl.String,
        "output": pl.String,
        "batch": pl.Int64,
        "key": pl.Binary,
        "pane_index": pl.String,
        "diff": pl.String,
        "row": pl.String,
    }
)
_READ = ("partition", "offset", "key", "headers")
_ASCII = "^([0-7][0-9a-f])*$"  # bytes as hexadecimal digits
_LINE = "__line"  # the number of a message in its frame; null for a message that was seen before


def drop_repeats(records: pl.DataFrame, seen: pl.DataFrame | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Drop messages of Kafka that a repeated batch has written again. Return the others, and what is seen now.

    ``records`` are messages in the columns of Spark's Kafka source: ``partition``, ``offset``, ``key``, ``headers``
    (a list of key and value), and ``topic`` if there are several topics. Further columns are kept. Pass ``seen`` to the
    next call, and store it together with your results and offsets. It has the messages of the last batch of each
    partition, query and output, so its size does not grow with the topic. A message of another producer, without the
    headers of Eventide, is never dropped.

    >>> import polars as pl
    >>> def record(offset: int, batch: int) -> dict[str, object]:
    ...     texts = {"query": "7f", "output": "panes", "batch": batch, "pane_index": 0, "diff": 1}
    ...     headers = [{"key": name, "value": str(text).encode()} for name, text in texts.items()]
    ...     return {"partition": 0, "offset": offset, "key": b"kiel", "headers": headers}
    >>> fresh, seen = drop_repeats(pl.DataFrame([record(0, batch=4), record(1, batch=4)]))
    >>> fresh["offset"].to_list()
    [0]
    >>> fresh, seen = drop_repeats(pl.DataFrame([record(2, batch=4), record(3, batch=5)]), seen)
    >>> fresh["offset"].to_list(), seen["batch"].to_list()
    ([3], [5])
    """
    arrived = _identities(records)
    known = SEEN.to_frame() if seen is None else seen.select(SEEN.names()).cast(SEEN)
    messages = pl.concat([known.with_columns(pl.lit(None, pl.UInt32).alias(_LINE)), arrived])
    current = messages.filter(pl.col("batch") >= pl.col("batch").cum_max().over(_WRITER)).unique(
        SEEN.names(), keep="first", maintain_order=True
    )
    repeats = arrived[_LINE].filter(~arrived[_LINE].is_in(current[_LINE].drop_nulls().implode()))
    last = current.filter(pl.col("batch") == pl.col("batch").max().over(_WRITER))
    lines = pl.int_range(records.height, dtype=pl.UInt32, eager=True)
    return records.filter(~lines.is_in(repeats.implode())), last.select(SEEN.names())


def _identities(records: pl.DataFrame) -> pl.DataFrame:
    """Return what identifies each message of Eventide, in the order of the partitions, with its line in the frame."""
    missing = [name for name in _READ if name not in records.columns]
    if missing:
        raise _no_column(missing[0])
    topic = pl.col("topic") if "topic" in records.columns else pl.lit("").alias("topic")
    columns = records.lazy().with_row_index(_LINE).sort(topic, "partition", "offset")
    texts = [_header_text(header).alias(name) for name, header in _HEADERS.items()]
    identities = columns.select(topic, "partition", "key", *texts, _LINE).cast(SEEN, strict=False)
    return identities.drop_nulls(["query", "output", "batch"]).select(*SEEN.names(), _LINE).collect()


def _header_text(header: str) -> pl.Expr:
    """Return the text of a header; null if there is none, or if it is not ASCII and so not of Eventide."""
    with_name = pl.element().filter(pl.element().struct.field("key") == header).struct.field("value")
    value = pl.col("headers").cast(_HEADERS_TYPE).list.eval(with_name).list.first()
    return pl.when(value.bin.encode("hex").str.contains(_ASCII)).then(value).cast(pl.String)


def _no_column(name: str) -> PlanError:
    hint = " Read the topic with includeHeaders=True." if name == "headers" else ""
    return PlanError(f"drop_repeats(): the records have no column {name!r}.{hint}")

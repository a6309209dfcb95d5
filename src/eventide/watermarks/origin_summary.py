"""The summary of a task's rows per origin: a few rows with all that watermarks need.

Summaries of tasks are combined by ``pl.concat``, in any order.

A summary row is of one of five types. *Origin* rows (``sequence`` is null): the number of alive rows of an origin, its
highest watermark and, where watermarks are declared, its lowest. *Run* rows: sequences ``sequence`` to ``until`` are
complete, the first of them has watermark ``least``, and in chunks all have the same ``last_chunk``. *Chunk* rows: of
an incomplete sequence, chunks ``chunk`` to ``chunk_until`` were seen, and its last chunk is number ``last_chunk``, if
known. *Offset* rows (only ``until`` is set): the highest offset of an origin. *Position* rows (``chunk_until`` is set
without a chunk): how far a segment, named as origin, was read, and in ``last_chunk`` the highest cut that the source
reports as passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventide._arguments import MAX_SPAN
from eventide.kernels.intervals import Ints, join_runs
from eventide.time import MAX, MIN
from eventide.watermarks.errors import went_back
from eventide.watermarks.options import Options
from eventide.watermarks.origins import label
from eventide.watermarks.sequence_runs import NO_CHUNKS, Chunks, Runs, take

SUMMARY = pl.Schema(
    {
        "origin": pl.String,
        "sequence": pl.Int64,
        "until": pl.Int64,
        "chunk": pl.Int64,
        "chunk_until": pl.Int64,
        "last_chunk": pl.Int64,
        "least": pl.Int64,
        "watermark": pl.Int64,
        "rows": pl.Int64,
    }
)

_NULLS = {name: pl.Series(name, [None], dtype) for name, dtype in SUMMARY.items()}


@dataclass(frozen=True, slots=True)
class RowWatermarks:
    """The watermark that each row implies for its origin; null where it implies none."""

    values: pl.Series
    delay: int = 0
    """How far the watermark is behind the highest value."""
    alive: pl.Series | None = None
    """The rows that show that their origin is active; None: those that have a value."""
    declared: bool = False
    """Whether the producer guarantees the values, so that a decreasing value is an error."""

    def alive_count(self) -> int:
        """The number of rows that show that their origin is active."""
        return int(self.alive.sum() or 0) if self.alive is not None else self.values.count()


def empty_summary() -> pl.DataFrame:
    """The summary of a task that saw nothing.

    >>> empty_summary().height
    0
    """
    return SUMMARY.to_frame()


def summarise(rows: pl.DataFrame, marks: RowWatermarks, options: Options) -> pl.DataFrame:
    """The summary of some rows; rows with an unusable sequence or chunk are left out."""
    if options.sequence is not None:
        return _by_sequence(rows, marks, options)
    if options.origin is not None:
        return _by_origin(rows, marks, options.origin, options.watermark_key)
    return _single(marks, options.watermark_key)


def highest_offsets(rows: pl.DataFrame, options: Options) -> pl.DataFrame:
    """The highest offset of each origin; offsets that are too large to be used are left out."""
    origin = pl.lit(None, pl.String) if options.origin is None else pl.col(options.origin).cast(pl.String)
    offset = pl.col(str(options.offset)).cast(pl.Int64, strict=False).alias("until")
    usable = rows.select(origin.alias("origin"), offset).filter(pl.col("until").is_between(-MAX_SPAN, MAX_SPAN))
    highest = usable.group_by("origin").agg(pl.col("until").max())
    return _frame(highest.height, origin=highest["origin"], until=highest["until"], rows=[0] * highest.height)


def segment_positions(rows: pl.DataFrame, segment: str, offset: str, passed: str) -> pl.DataFrame:
    """How far each segment of a stream was read."""
    read = rows.group_by(pl.col(segment).cast(pl.String).alias("origin")).agg(
        (pl.col(offset).max() + 1).cast(pl.Int64).alias("read"), pl.col(passed).max().cast(pl.Int64).alias("passed")
    )
    read = read.filter(pl.col("origin").is_not_null() & pl.col("read").is_not_null())
    zeros = [0] * read.height
    return _frame(read.height, origin=read["origin"], chunk_until=read["read"], last_chunk=read["passed"], rows=zeros)


def _single(marks: RowWatermarks, key: int) -> pl.DataFrame:
    values = marks.values
    least = None
    if marks.declared:
        _check_order(values, key, "the source")
        least = values.min()
    highest: Any = values.max()
    watermark = None if highest is None else delayed(highest, marks.delay)
    return _frame(1, least=[least], watermark=[watermark], rows=[marks.alive_count()])


def delayed(highest: int, delay: int) -> int:
    """An instant less ``delay``; never MAX, because a row cannot end its stream.

    >>> delayed(10, 3), delayed(MIN, 3) == MIN
    (7, True)
    """
    return min(max(highest, MIN + delay) - delay, MAX - 1)


def _by_origin(rows: pl.DataFrame, marks: RowWatermarks, origin: str, key: int) -> pl.DataFrame:
    value = pl.col("value")
    columns = {"origin": rows[origin], "value": marks.values}
    highest = value.max().clip(MIN + marks.delay) - marks.delay
    results = [highest.clip(upper_bound=MAX - 1).alias("watermark"), value.count().cast(pl.Int64).alias("rows")]
    if marks.alive is not None:
        columns["alive"] = marks.alive
        results[1] = pl.col("alive").sum().cast(pl.Int64).alias("rows")
    if marks.declared:
        results += [value.min().alias("least"), (value.drop_nulls().diff() < 0).any().alias("back")]
    frame = pl.DataFrame(columns)
    by_origin = frame.group_by("origin").agg(results)
    if marks.declared and by_origin["back"].any():
        name = by_origin.filter("back")["origin"].head(1)
        rows_of_origin = frame.filter(pl.col("origin").eq_missing(pl.lit(name).first()))
        _check_order(rows_of_origin["value"], key, label(name.cast(pl.String).item()))
    return _frame(
        by_origin.height,
        origin=by_origin["origin"].cast(pl.String),
        least=by_origin["least"] if marks.declared else None,
        watermark=by_origin["watermark"],
        rows=by_origin["rows"],
    )


def _delayed(highest: Ints, delay: int) -> Ints:
    """``delayed`` for a column."""
    delayed: Ints = np.maximum(highest, MIN + delay) - delay
    return np.minimum(delayed, MAX - 1)


def _check_order(values: pl.Series, key: int, source: str) -> None:
    times = values.drop_nulls()
    if not times.is_sorted():
        row = int((times.diff() < 0).arg_max() or 0)
        raise went_back(key, source, times[row - 1], times[row])


def _by_sequence(rows: pl.DataFrame, marks: RowWatermarks, options: Options) -> pl.DataFrame:
    # The rows of each origin are adjacent, so that numbering the origins needs no lookup.
    parts = _usable(rows, marks, options).group_by("origin").agg(pl.all())
    counts = parts.select(
        pl.col("origin").cast(pl.String),
        pl.col("alive").list.sum().cast(pl.Int64).alias("rows"),
        pl.col("value").list.len().alias("length"),
    )
    names = counts["origin"]
    origin = np.repeat(np.arange(parts.height), counts["length"].to_numpy())
    columns = parts.select(pl.exclude("origin", "alive").explode(empty_as_null=False)).to_dict()
    ints = {name: column.to_numpy() for name, column in columns.items()}
    complete, chunks = _complete_and_partial(origin, ints, options, names)
    runs = complete.runs
    summary = [_frame(parts.height, origin=names, rows=counts["rows"])]
    if len(runs.start):
        summary.append(
            _frame(
                len(runs.start),
                origin=names.gather(runs.origin),
                sequence=runs.start,
                until=runs.end,
                last_chunk=None if complete.last is None else pl.Series(complete.last),
                least=_delayed(complete.first, marks.delay),
                watermark=_delayed(runs.watermark, marks.delay),
                rows=np.zeros_like(runs.start),
            )
        )
    if len(chunks.start):
        summary.append(
            _frame(
                len(chunks.start),
                origin=names.gather(chunks.origin),
                sequence=chunks.sequence,
                until=chunks.sequence,
                chunk=chunks.start,
                chunk_until=chunks.end,
                last_chunk=pl.Series(chunks.last).replace(-1, None),
                watermark=_delayed(chunks.watermark, marks.delay),
                rows=np.zeros_like(chunks.start),
            )
        )
    return pl.concat(summary)


@dataclass(frozen=True, slots=True)
class _Complete:
    """Runs of complete sequences; in chunks, those of a run have the same last chunk."""

    runs: Runs
    first: Ints
    """The watermark of each run's first sequence."""
    last: Ints | None = None

    @staticmethod
    def joined(rows: Runs, last: Ints | None = None) -> _Complete:
        keys = (rows.origin,) if last is None else (rows.origin, last)
        order, heads = join_runs(keys, rows.start, rows.end)
        first = order[heads]
        return _Complete(rows.joined_in(order, heads), rows.watermark[first], None if last is None else last[first])


def _complete_and_partial(
    origin: Ints, ints: dict[str, Ints], options: Options, names: pl.Series
) -> tuple[_Complete, Chunks]:
    sequence, value = ints["sequence"], ints["value"]
    now = np.zeros_like(sequence)
    if options.chunk is None:
        return _Complete.joined(Runs(origin, sequence, sequence, value, now)), NO_CHUNKS
    chunk, last = ints["chunk"], ints["last_chunk"]
    numbered = np.where(last, chunk, -1)
    chunks = Chunks(origin, sequence, chunk, chunk, numbered, value, now)
    chunks = chunks.joined(lambda number: label(names[number]))
    complete = chunks.complete(options.first_chunk)
    whole = take(chunks, complete)
    return _Complete.joined(whole.sequences(), whole.last), take(chunks, ~complete)


def _usable(rows: pl.DataFrame, marks: RowWatermarks, options: Options) -> pl.DataFrame:
    """Origin, sequence, chunk, last chunk and watermark of usable rows, under fixed names."""

    def number(column: str | None, name: str) -> pl.Expr:
        return pl.col(str(column)).cast(pl.Int64, strict=False).alias(name)

    value, alive = pl.lit(marks.values), marks.alive
    columns = [
        (pl.lit(None, pl.String) if options.origin is None else pl.col(options.origin)).alias("origin"),
        number(options.sequence, "sequence") + options.shift,
        value.fill_null(MIN).alias("value"),
        (value.is_not_null() if alive is None else pl.lit(alive)).alias("alive"),
    ]
    if options.chunk is not None:
        columns.append(number(options.chunk, "chunk"))
        columns.append(pl.col(str(options.last_chunk)).fill_null(False).alias("last_chunk"))
    frame = rows.select(columns)
    faults = unusable(rows, options)
    return frame if faults is None else frame.filter(~faults)


def unusable(rows: pl.DataFrame, options: Options) -> pl.Series | None:
    """The rows whose sequence or chunk is missing or below the first; None if there are none."""
    masks = [
        mask
        for column, first in ((options.sequence, options.first_sequence), (options.chunk, options.first_chunk))
        if column is not None and (mask := _below(rows[column], first)) is not None
    ]
    if not masks:
        return None
    return masks[0] if len(masks) == 1 else masks[0] | masks[1]


def _below(numbers: pl.Series, first: int) -> pl.Series | None:
    numbers = numbers.cast(pl.Int64, strict=False)
    least: Any = numbers.min()
    if not numbers.null_count() and (least is None or least >= first):
        return None
    return (numbers < first).fill_null(True)


def _frame(height: int, **columns: Any) -> pl.DataFrame:
    filled = {
        name: _NULLS[name].new_from_index(0, height) if columns.get(name) is None else columns[name] for name in SUMMARY
    }
    return pl.DataFrame(filled, schema=SUMMARY)

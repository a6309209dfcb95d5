"""What one task saw of each origin: a few rows that say all that watermarks need.

Summaries of tasks are combined by ``pl.concat`` and nothing else, in any order.

A row is one of five things. *Origin* rows (``sequence`` is null): how many live rows an origin sent, its highest
watermark and, where watermarks are declared, its lowest. *Run* rows: sequences ``sequence`` to ``until`` are
complete, the first of them has watermark ``least``, and in chunks all have the same ``last_chunk``. *Chunk* rows: of
an incomplete sequence, chunks ``chunk`` to ``chunk_until`` were seen, and its last chunk is number ``last_chunk``, if
known. *Offset* rows (``until`` alone is given): the highest offset of an origin. *Place* rows (``chunk_until`` is
given without a chunk): how far a segment, named as origin, has been read, and in ``last_chunk`` the highest cut that
the source says it has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import watermarks as errors
from eventide.time import MAX, MIN
from eventide.watermarks.intervals import Ints, join_runs
from eventide.watermarks.options import Options
from eventide.watermarks.origins import label
from eventide.watermarks.runs import NO_CHUNKS, Chunks, Runs, take

HIGHEST = 2**61
"""Beside an offset, the end of its window must fit into 64 bits."""

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
class RowMarks:
    """What each row says of its origin's time; null where it says nothing."""

    values: pl.Series
    delay: int = 0
    """How far the watermark stays behind the highest value."""
    alive: pl.Series | None = None
    """The rows that show that their origin is not idle; None: those that have a value."""
    declared: bool = False
    """Values were promised by the producer, so that one that goes back is an error."""

    def live(self) -> int:
        """How many rows show that their origin is not idle."""
        return int(self.alive.sum() or 0) if self.alive is not None else self.values.count()


def empty_summary() -> pl.DataFrame:
    """The summary of a task that saw nothing.

    >>> empty_summary().height
    0
    """
    return SUMMARY.to_frame()


def summarise(rows: pl.DataFrame, marks: RowMarks, options: Options) -> pl.DataFrame:
    """The summary of some rows; rows with an unusable sequence or chunk take no part."""
    if options.sequence is not None:
        return _numbered(rows, marks, options)
    if options.origin is not None:
        return _by_origin(rows, marks, options.origin, options.watermark_key)
    return _single(marks, options.watermark_key)


def highest_offsets(rows: pl.DataFrame, options: Options) -> pl.DataFrame:
    """How far the offsets of each origin go; those that are too large to be used take no part."""
    origin = pl.lit(None, pl.String) if options.origin is None else pl.col(options.origin).cast(pl.String)
    offset = pl.col(str(options.offset)).cast(pl.Int64, strict=False).alias("until")
    usable = rows.select(origin.alias("origin"), offset).filter(pl.col("until").is_between(-HIGHEST, HIGHEST))
    found = usable.group_by("origin").agg(pl.col("until").max())
    return _frame(found.height, origin=found["origin"], until=found["until"], rows=[0] * found.height)


def places(rows: pl.DataFrame, segment: str, offset: str, passed: str) -> pl.DataFrame:
    """How far each segment of a stream has been read."""
    found = rows.group_by(pl.col(segment).cast(pl.String).alias("origin")).agg(
        (pl.col(offset).max() + 1).cast(pl.Int64).alias("read"), pl.col(passed).max().cast(pl.Int64).alias("passed")
    )
    found = found.filter(pl.col("origin").is_not_null() & pl.col("read").is_not_null())
    zeros = [0] * found.height
    return _frame(
        found.height, origin=found["origin"], chunk_until=found["read"], last_chunk=found["passed"], rows=zeros
    )


def _single(marks: RowMarks, key: int) -> pl.DataFrame:
    values = marks.values
    least = None
    if marks.declared:
        _refuse_going_back(values, key, "the source")
        least = values.min()
    highest: Any = values.max()
    watermark = None if highest is None else behind(highest, marks.delay)
    return _frame(1, least=[least], watermark=[watermark], rows=[marks.live()])


def behind(highest: int, delay: int) -> int:
    """``delay`` before an instant; never MAX, because a row cannot end its stream.

    >>> behind(10, 3), behind(MIN, 3) == MIN
    (7, True)
    """
    return min(max(highest, MIN + delay) - delay, MAX - 1)


def _by_origin(rows: pl.DataFrame, marks: RowMarks, origin: str, key: int) -> pl.DataFrame:
    value = pl.col("value")
    columns = {"origin": rows[origin], "value": marks.values}
    highest = value.max().clip(MIN + marks.delay) - marks.delay
    found = [highest.clip(upper_bound=MAX - 1).alias("watermark"), value.count().cast(pl.Int64).alias("rows")]
    if marks.alive is not None:
        columns["alive"] = marks.alive
        found[1] = pl.col("alive").sum().cast(pl.Int64).alias("rows")
    if marks.declared:
        found += [value.min().alias("least"), (value.drop_nulls().diff() < 0).any().alias("back")]
    frame = pl.DataFrame(columns)
    by_origin = frame.group_by("origin").agg(found)
    if marks.declared and by_origin["back"].any():
        name = by_origin.filter("back")["origin"].head(1)
        one = frame.filter(pl.col("origin").eq_missing(pl.lit(name).first()))
        _refuse_going_back(one["value"], key, label(name.cast(pl.String).item()))
    return _frame(
        by_origin.height,
        origin=by_origin["origin"].cast(pl.String),
        least=by_origin["least"] if marks.declared else None,
        watermark=by_origin["watermark"],
        rows=by_origin["rows"],
    )


def _delayed(highest: Ints, delay: int) -> Ints:
    """The same as ``behind``, by column."""
    held: Ints = np.maximum(highest, MIN + delay) - delay
    return np.minimum(held, MAX - 1)


def _refuse_going_back(values: pl.Series, key: int, source: str) -> None:
    said = values.drop_nulls()
    if not said.is_sorted():
        at = int((said.diff() < 0).arg_max() or 0)
        raise errors.went_back(key, source, said[at - 1], said[at])


def _numbered(rows: pl.DataFrame, marks: RowMarks, options: Options) -> pl.DataFrame:
    # Each origin's rows side by side: a number per origin then costs no lookup.
    parts = _usable(rows, marks, options).group_by("origin").agg(pl.all())
    told = parts.select(
        pl.col("origin").cast(pl.String),
        pl.col("alive").list.sum().cast(pl.Int64).alias("rows"),
        pl.col("value").list.len().alias("length"),
    )
    names = told["origin"]
    origin = np.repeat(np.arange(parts.height), told["length"].to_numpy())
    columns = parts.select(pl.exclude("origin", "alive").explode(empty_as_null=False)).to_dict()
    ints = {name: column.to_numpy() for name, column in columns.items()}
    found, chunks = _progress(origin, ints, options, names)
    runs = found.runs
    summary = [_frame(parts.height, origin=names, rows=told["rows"])]
    if len(runs.start):
        summary.append(
            _frame(
                len(runs.start),
                origin=names.gather(runs.origin),
                sequence=runs.start,
                until=runs.end,
                last_chunk=None if found.last is None else pl.Series(found.last),
                least=_delayed(found.first, marks.delay),
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
        at = order[heads]
        return _Complete(rows.joined_in(order, heads), rows.watermark[at], None if last is None else last[at])


def _progress(origin: Ints, ints: dict[str, Ints], options: Options, names: pl.Series) -> tuple[_Complete, Chunks]:
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


def _usable(rows: pl.DataFrame, marks: RowMarks, options: Options) -> pl.DataFrame:
    """Origin, sequence, chunk, last chunk and what is said of time, under fixed names."""

    def number(column: str | None, name: str) -> pl.Expr:
        return pl.col(str(column)).cast(pl.Int64, strict=False).alias(name)

    value, alive = pl.lit(marks.values), marks.alive
    columns = [
        (pl.lit(None, pl.String) if options.origin is None else pl.col(options.origin)).alias("origin"),
        number(options.sequence, "sequence"),
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
    """The rows whose sequence or chunk is missing or below the first; None when there are none."""
    masks = [
        mask
        for column, first in ((options.sequence, 1), (options.chunk, options.first_chunk))
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
    given = {name: column for name, column in columns.items() if column is not None}
    nothing = {name: _NULLS[name].new_from_index(0, height) for name in SUMMARY if name not in given}
    return pl.DataFrame({name: given.get(name, nothing.get(name)) for name in SUMMARY}, schema=SUMMARY)

"""Complete runs of a pipeline in this process: frames cut into bundles, and pushed through a query one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import time_ns
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from eventide._arguments import check_flags, is_integer
from eventide._column_refs import TimeColumn, TimeUnit
from eventide._columns import NOW
from eventide._frames import Frame, as_frame, not_rows
from eventide.errors import PlanError, did_you_mean, shown
from eventide.local.files import read_files
from eventide.local.query import LocalQuery
from eventide.local.result import LocalResult
from eventide.plan.pipeline import Pipeline
from eventide.time import duration, instant, time_column, unit_meant
from eventide.time.units import in_other_unit

Rows: TypeAlias = "Frame | Iterable[Frame] | str"
Clock: TypeAlias = Sequence[int | str | datetime]

_ARRIVED = "__arrived"


def run_local(
    pipeline: Pipeline,
    rows: Rows | Mapping[str, Rows],
    *,
    bundle_by: str | int | None = None,
    every: str | timedelta | None = None,
    clock: Clock | None,
    drain: bool,
) -> LocalResult:
    """Push all bundles through a pipeline and return the result."""
    check_flags("local()", drain=drain)
    timed: Iterator[tuple[pl.DataFrame | dict[str, pl.DataFrame], int | None]]
    if bundle_by is None:
        timed = ((bundle, None) for bundle in _prepared_bundles(pipeline, rows, every, clock))
    else:
        inputs = range(len(pipeline.plan.edges))
        timed = replayed_bundles(rows, bundle_by, every, clock, [pipeline.plan.at(edge).time for edge in inputs])
    if isinstance(rows, (list, tuple)) and not rows:
        raise PlanError(
            f"local({rows!r}): there is no frame, so the columns are not known. Give at least one, which may have no "
            "rows."
        )
    query = LocalQuery(pipeline)
    for number, (bundle, now) in enumerate(timed):
        if clock is not None and number >= len(clock):
            raise PlanError(
                f"clock= has {len(clock)} times, but there is a bundle number {number + 1}. "
                "Give one time for each bundle."
            )
        if now is not None:  # deadlines between bundles pass as they do in a running query
            query.pass_deadlines(now)
        query.push(bundle, now=now if clock is None else _batch_time(clock[number]))
    if drain and query.result.steps:
        query.drain()
    return query.result


def _batch_time(time: int | str | datetime) -> int:
    return time if isinstance(time, int) else instant(time, what="clock")


def bundles_of(
    frames: Mapping[str | None, pl.DataFrame],
    bundle_by: str | int,
    every: str | timedelta | None,
    times: Sequence[object] = (),
) -> Iterator[tuple[dict[str | None, pl.DataFrame], int | None]]:
    """Return the bundles of the frames, each with its batch time; None: the wall clock.

    With an integer, a bundle has that many rows of each frame. With a column of arrival times, rows that arrive at the
    same time, or within the same period of ``every``, are a bundle. Its batch time is that time, or the end of the
    period.

    >>> frame = pl.DataFrame({"n": [1, 2, 3], "at": [5, 12, 7]})
    >>> [(bundle[None]["n"].to_list(), now) for bundle, now in bundles_of({None: frame}, "at", None)]
    [([1], 5), ([3], 7), ([2], 12)]
    >>> [bundle[None]["n"].to_list() for bundle, _ in bundles_of({None: frame}, 2, None)]
    [[1, 2], [3]]
    """
    if isinstance(bundle_by, str):
        period = None if every is None else duration(every, what="every of local()")
        unit = next((time.unit for time in times if isinstance(time, TimeColumn) and time == bundle_by), None)
        return _by_arrival(frames, bundle_by, period, unit)
    if not is_integer(bundle_by, at_least=1):
        raise PlanError(
            f"bundle_by={shown(bundle_by)}: name a column of arrival times, such as bundle_by='arrived_at', "
            "or give a number of rows, such as bundle_by=100."
        )
    if every is not None:
        raise PlanError(f"every= is for bundles by arrival time, and bundle_by={bundle_by} counts rows. Leave it out.")
    return _by_count(frames, bundle_by)


def _prepared_bundles(
    pipeline: Pipeline, rows: Any, every: str | timedelta | None, clock: Clock | None
) -> Iterator[pl.DataFrame] | Iterator[dict[str, pl.DataFrame]]:
    """Return bundles that the caller has cut: each frame is a bundle."""
    if every is not None:
        raise PlanError("every= needs a column of arrival times: local(rows, bundle_by='arrived_at', every=…).")
    if isinstance(rows, Mapping) and not pipeline.plan.inputs:  # a dict of columns
        raise not_rows(rows)
    if clock is not None and (isinstance(clock, str) or not isinstance(clock, Sequence)):
        raise PlanError(f"clock={shown(clock)}: give a list with the batch time of each bundle.")
    return _aligned(rows) if isinstance(rows, Mapping) else _frames(rows)


def replayed_bundles(
    rows: Any,
    bundle_by: str | int,
    every: str | timedelta | None,
    clock: Clock | None,
    times: Sequence[object] = (),
) -> Iterator[tuple[pl.DataFrame | dict[str, pl.DataFrame], int | None]]:
    """Yield the bundles of one frame per input, replayed as a stream. ``times`` are their columns of event times."""
    if clock is not None and isinstance(bundle_by, str):
        raise PlanError(f"clock= has no place here: the clock follows bundle_by={bundle_by!r}. Leave it out.")
    inputs = rows if isinstance(rows, Mapping) else {None: rows}
    frames = {name: _single_frame(frame) for name, frame in inputs.items()}
    for bundle, now in bundles_of(frames, bundle_by, every, times):
        if list(bundle) == [None]:
            yield bundle[None], now
        else:
            yield {str(name): frame for name, frame in bundle.items()}, now


def _by_count(
    frames: Mapping[str | None, pl.DataFrame], size: int
) -> Iterator[tuple[dict[str | None, pl.DataFrame], None]]:
    longest = max(frame.height for frame in frames.values())
    for start in range(0, max(longest, 1), size):
        yield {name: frame.slice(start, size) for name, frame in frames.items()}, None


def _by_arrival(
    frames: Mapping[str | None, pl.DataFrame], column: str, every: int | None, unit: TimeUnit | None
) -> Iterator[tuple[dict[str | None, pl.DataFrame], int]]:
    parts = {name: _parts(frame, column, every, unit) for name, frame in frames.items()}
    for now in sorted({now for by_time in parts.values() for now in by_time}):
        yield {name: parts[name].get(now, frame.clear()) for name, frame in frames.items()}, now


def _parts(frame: pl.DataFrame, column: str, every: int | None, unit: TimeUnit | None) -> dict[int, pl.DataFrame]:
    """Return the rows of each batch time, in the order of their arrival."""
    if column not in frame.columns:
        raise PlanError(f"bundle_by={column!r}: there is no column {column!r}. {did_you_mean(column, frame.columns)}")
    meant = unit_meant(frame[column], time_ns() // 1_000) if unit is None else None
    if meant is not None:
        raise PlanError(
            f"bundle_by={column!r}: the times of arrival {in_other_unit(*meant)} Cast the column to a timestamp: "
            f"rows.with_columns(pl.from_epoch({column!r}, time_unit={meant[0]!r}))."
        )
    arrived, _ = time_column(frame, column, unit)
    if arrived.null_count() and frame[column].null_count() < frame.height == arrived.null_count():
        raise PlanError(
            f"bundle_by={column!r}: the column is {frame.schema[column]} and has no times. Name the column of arrival "
            "times, such as bundle_by='arrived_at', or give a number of rows."
        )
    if arrived.null_count():
        raise PlanError(
            f"{arrived.null_count():,} rows have no time in {column!r}, so their arrival is not known. "
            "Fill the column, or remove them."
        )
    now = arrived if every is None else (arrived // every + 1) * every
    timed = frame.with_columns(now.alias(NOW), arrived.alias(_ARRIVED))
    ordered = timed.sort(_ARRIVED, maintain_order=True).drop(_ARRIVED)
    parts = ordered.partition_by(NOW, as_dict=True, include_key=False, maintain_order=True)
    return {time: part for (time,), part in parts.items()}


def _single_frame(rows: Any) -> pl.DataFrame:
    if isinstance(rows, (list, tuple)):
        raise PlanError(
            "bundle_by= cuts one frame into bundles, but these rows are several frames, each a bundle already. "
            "Leave it out, or concatenate them: polars.concat(rows)."
        )
    return next(_frames(rows))


def _aligned(rows: Mapping[str, Any]) -> Iterator[dict[str, pl.DataFrame]]:
    """Yield bundles of one frame per input."""
    inputs = {name: list(_frames(frames)) for name, frames in rows.items()}
    if len({len(frames) for frames in inputs.values()}) > 1:
        raise PlanError(
            f"The inputs have {', '.join(str(len(frames)) for frames in inputs.values())} bundles. Each bundle takes "
            "one frame of every input: give them equally many; a frame may be empty."
        )
    for frames in zip(*inputs.values(), strict=True):
        yield dict(zip(inputs, frames, strict=True))


def _frames(rows: Frame | Iterable[Frame]) -> Iterator[pl.DataFrame]:
    if isinstance(rows, (pl.DataFrame, pa.Table, pa.RecordBatch)):
        yield as_frame(rows)
    elif isinstance(rows, str):  # the address of files
        yield read_files(rows)
    elif isinstance(rows, (bytes, dict)) or hasattr(type(rows), "columns") or not isinstance(rows, Iterable):
        raise not_rows(rows)
    else:
        for frame in rows:
            yield as_frame(frame)

"""``eventide run --local``: existing files through a pipeline in this process, into sinks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from eventide._addresses import TABLES, Address
from eventide.cli import terminal as screen
from eventide.cli.jobs import Job
from eventide.errors import PlanError

if TYPE_CHECKING:
    from eventide.local import LocalResult
    from eventide.sinks.sink import Output

_SINKS = ("console", "noop", "parquet", *TABLES)
_NESTED = (pl.List, pl.Array, pl.Struct)
_STRUCTS = ("window", "pane")  # of Eventide, which sinks flatten
_OUTPUTS: dict[str, Output] = {"sink": "panes", "late": "late", "dead": "dead"}


def run_local(
    job: Job, sources: Mapping[str | None, Address], outputs: Mapping[str, Address], *, limit: int | None = None
) -> None:
    """Run a job over files, and write its outputs. Late rows and dead letters without a sink are only counted."""
    from eventide.cli.jobs import check_sources
    from eventide.local.files import read_files

    if not sources:
        raise PlanError(
            f"{job.path} has no source without Spark, because rows(spark) needs Spark. Name files, such as "
            "data/orders.parquet."
        )
    known = _SINKS if job.statement is None else tuple(kind for kind in _SINKS if kind not in TABLES)
    for address in outputs.values():
        if address.kind not in known:
            raise PlanError(
                f"{f'{address.kind}:{address.place}'!r} is written by Spark. With --local the sinks are: "
                f"{', '.join(known)}."
            )
    check_sources(job, sources, streaming=False)
    frames = {name: read_files(address) for name, address in sources.items()}
    result = job.local(frames[None] if list(frames) == [None] else frames)
    for end, address in outputs.items():
        _write(end, address, job, result, limit)
    _sum_up(result, outputs)


def _write(end: str, address: Address, job: Job, result: LocalResult, limit: int | None) -> None:
    """Write one output as a single batch of a new query."""
    from eventide.cli.query_runner import sink_of
    from eventide.sinks import OutputInfo
    from eventide.sinks.batch import SinkBatch
    from eventide.spark.types import arrow_schema, spark_schema, to_spark

    plan = job.pipeline.plans[-1 if end == "sink" else 0]
    info = OutputInfo(_OUTPUTS[end], plan.key, plan.mode, plan.row_grain)
    first = result.operators[0]  # late rows and dead letters are those of the first pipeline
    rows = {"sink": result.panes, "late": first.late, "dead": first.dead}[end]
    if address.kind != "parquet":
        rows = _as_text(rows)
    sink = sink_of(address, limit)
    try:
        sink.open(spark_schema(rows.schema), info)
        table = to_spark(rows, arrow_schema(rows.schema))
        # The sinks of a run without Spark do not ask for a session.
        sink.write(SinkBatch(table, None), 0, replace(info, query=uuid.uuid4().hex))  # type: ignore[arg-type]
    finally:
        sink.close()


def _as_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Return nested columns as JSON, because neither tables nor the console can hold them."""
    nested = [name for name, dtype in rows.schema.items() if isinstance(dtype, _NESTED) and name not in _STRUCTS]
    encoded = [pl.struct(pl.col(name).alias("v")).struct.json_encode().str.slice(5) for name in nested]
    return rows.with_columns(
        pl.when(pl.col(name).is_not_null()).then(text.str.head(-1)).alias(name)
        for name, text in zip(nested, encoded, strict=True)
    )


def _sum_up(result: LocalResult, outputs: Mapping[str, Address]) -> None:
    metrics = [operator.metrics for operator in result.operators]
    late, dead = sum(operator.late for operator in metrics), sum(sum(operator.dead.values()) for operator in metrics)
    console = screen.stderr_console()
    console.print(f"{metrics[0].rows:,} rows, {late:,} late, {dead:,} dead letters", soft_wrap=True)
    hidden = [f"--{end} console" for end, count in (("late", late), ("dead", dead)) if count and end not in outputs]
    if hidden:
        console.print(f"To see them, add {' '.join(hidden)}", soft_wrap=True)

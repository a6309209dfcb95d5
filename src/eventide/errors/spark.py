"""Messages about Spark and its DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import DataError, EventideError, PlanError
from eventide.errors.values import shown


def duplicate_columns(names: Sequence[str]) -> PlanError:
    """Two columns of one name."""
    return PlanError(f"The DataFrame has more than one column {names[0]!r}. Rename one of them before the pipeline.")


def cannot_travel(name: str, dtype: str) -> PlanError:
    """A type that does not go through Arrow."""
    return PlanError(
        f"The column {name!r} has the type {dtype}, which cannot be sent to Python. "
        "Cast it, or drop it before the pipeline."
    )


def not_pipelines(given: object) -> PlanError:
    """Something else where a pipeline belongs."""
    return PlanError(f"run() takes a pipeline, or a list of pipelines that follow each other, not {shown(given)}.")


def not_streaming() -> PlanError:
    """A batch DataFrame in run()."""
    return PlanError(
        "run() takes a streaming DataFrame, and this one is not. Read it with spark.readStream, or get the panes "
        "of a batch DataFrame with df.transform(pipeline)."
    )


def other_sources(before: int, now: int) -> PlanError:
    """The checkpoint knows another number of sources."""
    return PlanError(
        f"The query of this checkpoint had {before} sources, and now it has {now}: an input was added or removed, or "
        "an option that needs the clock (idle_after, a processing-time trigger), which is a source of its own. "
        "Run the pipeline as it was, or take a new checkpoint."
    )


def partitioned_scan(columns: list[str]) -> PlanError:
    """Columns that stand in the names of folders."""
    names = ", ".join(map(repr, columns))
    return PlanError(
        f"scan_parquet() reads what is in the files, and {names} only stands in the names of their folders. "
        "Read them with spark.readStream.parquet()."
    )


def scan_scheme(path: str) -> PlanError:
    """A file system that only Spark can reach."""
    return PlanError(f"scan_parquet() cannot open {path!r}. Read it with spark.readStream.parquet().")


def drain_without_end() -> PlanError:
    """drain=True for a query that does not end."""
    return PlanError(
        'drain=True needs trigger="available_now": a query that goes on is drained by query.control.drain().'
    )


def stopped(kind: str, message: str) -> EventideError:
    """An error that came from a task, as it was raised there."""
    return PlanError(message) if kind == "PlanError" else DataError(message)


def workers_lack_eventide(module: str) -> PlanError:
    """A worker has no Eventide, or another project of that name."""
    return PlanError(
        f"The workers cannot import Eventide ({module}): it is not installed there, or the module eventide is another "
        "project. Install pyspark-eventide on them."
    )


def no_session(what: str) -> PlanError:
    """No SparkSession is active."""
    return PlanError(f"{what} needs a SparkSession: make one with ev.session(), or give one as spark=.")


def expression_in_scan(name: str) -> PlanError:
    """A Spark expression over rows that Spark never sees."""
    return PlanError(
        f"The column {name!r} is an expression of Spark's, but the rows of a scan do not go through Spark. "
        "Name a column of the files, or read them with spark.readStream.parquet()."
    )


def no_state(checkpoint: str) -> DataError:
    """A checkpoint without an operator of ours."""
    return DataError(f"The checkpoint {checkpoint!r} holds no state of an Eventide query that has finished a batch.")


def no_prometheus() -> PlanError:
    """The package is not installed."""
    return PlanError(
        "Prometheus metrics need the package prometheus-client. Say: pip install 'pyspark-eventide[prometheus]'"
    )

"""Messages that several modules of this package raise."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors import DataError, PlanError, shown


def bad_file(file: str, batch: int | None, reason: str) -> DataError:
    """A file of a scan cannot be read."""
    prefix = "" if batch is None else f"Batch {batch}: "
    return DataError(
        f"{prefix}{file} cannot be read: {reason}. Replace the file and start the query again, or read it with "
        'scan_parquet(…, on_bad_file="dead"), which makes it a dead letter.'
    )


def unknown_choice(function: str, option: str, value: object, choices: Sequence[str]) -> PlanError:
    """An option has another value than the allowed ones."""
    return PlanError(f"{function}: {option} is one of {', '.join(map(repr, choices))}, not {value!r}.")


def no_session(function: str) -> PlanError:
    """No SparkSession is active."""
    return PlanError(f"{function} needs a SparkSession: create one with ev.spark_session(), or pass one as spark=.")


def not_spark_rows(takes: str, value: object) -> PlanError:
    """Rows are a frame of another library, or no frame at all."""
    kind = type(value).__module__.partition(".")[0], type(value).__name__
    frame = f"a {kind[1]} of {kind[0]}" if kind[0] in ("polars", "pandas", "pyarrow") else shown(value)
    return PlanError(
        f"{takes}, not {frame}. "
        "In this process, without Spark: pipeline.local(rows). On Spark: spark.createDataFrame(…)."
    )


def no_state(checkpoint: str) -> DataError:
    """A checkpoint has no state of Eventide."""
    return DataError(f"The checkpoint {checkpoint!r} holds no state of an Eventide query that has finished a batch.")


def not_started_by_run(checkpoint: str) -> PlanError:
    """A checkpoint belongs to a custom query, whose state cannot be moved."""
    return PlanError(
        f"The checkpoint {checkpoint!r} belongs to a query of df.transform(pipeline) or ev.outputs(), and only the "
        "state of queries that pipeline.run has started can be rescaled: these record their plan in the checkpoint. "
        "Start this query with a new checkpoint, and set the number of buckets there (spark.eventide.buckets)."
    )


def unknown_placement(state: object, call: str = "run(state=") -> PlanError:
    """A placement of state does not exist."""
    return PlanError(f"{call}{state!r}): state is kept in the 'driver' or on the 'executors'.")


def not_exclusive(location: str) -> PlanError:
    """A store does not create files exclusively."""
    return PlanError(
        f"The store of {location} overwrites files that exist, or cannot tell whether they do. State in the driver "
        "relies on it, so that two drivers of one checkpoint never write the same batch. Use another store for the "
        "checkpoint, or give run(storage=) a store of obstore. If only one driver ever runs at a time, say so with "
        "run(single_writer=True)."
    )

"""Messages about Spark and its DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import DataError, EventideError, PlanError

_SHOWN = 10  # files that a message names


def duplicate_columns(names: Sequence[str]) -> PlanError:
    """Two columns of one name."""
    return PlanError(f"The DataFrame has more than one column {names[0]!r}. Rename one of them before the pipeline.")


def cannot_travel(name: str, dtype: str) -> PlanError:
    """A type that does not go through Arrow."""
    return PlanError(
        f"The column {name!r} has the type {dtype}, which cannot be sent to Python. "
        "Cast it, or drop it before the pipeline."
    )


def not_pipelines(function: str, value: object) -> PlanError:
    """Something else where a pipeline belongs."""
    return PlanError(
        f"{function} takes a pipeline, or a list of pipelines that follow each other, not a {type(value).__name__}."
    )


def panes_only() -> str:
    """A warning: the late rows and dead letters of a stream are lost."""
    return (
        "df.transform(pipeline) gives the panes of a stream; its late rows and dead letters are counted and then lost. "
        "ev.run(pipeline, df, …) keeps them, and ev.outputs(pipeline, df) gives all three to a query of your own."
    )


def outputs_of_a_stream(output: str) -> PlanError:
    """A stream has one query, and so one DataFrame."""
    return PlanError(
        f"outputs(): a stream has no separate .{output}, because that would be a query of its own. Write .pages "
        "with writeStream.foreachBatch(write), and in write(batch, batch_id): panes, late, dead = outputs.split(batch)."
    )


def no_such_depth(depth: int, pipelines: int) -> PlanError:
    """A chain is not so long."""
    return PlanError(f"split(depth={depth!r}): the query has {pipelines} pipelines, and they are counted from 0.")


def bad_bucket_count(name: str, value: str, most: int) -> PlanError:
    """A number of buckets that is none."""
    return PlanError(f"{name} is {value!r}. Set it to an integer from 1 to {most}, or unset it.")


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
        "an option that needs the clock (idle_timeout, a processing-time trigger), which is a source of its own. "
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


def bad_file(what: str, batch: int | None, why: str) -> DataError:
    """A file of a scan that cannot be read."""
    where = "" if batch is None else f"Batch {batch}: "
    return DataError(
        f"{where}{what} cannot be read: {why}. Replace the file and start the query again, or read it with "
        'scan_parquet(…, on_bad_file="dead"), which makes it a dead letter.'
    )


def unknown_choice(function: str, option: str, value: object, known: Sequence[str]) -> PlanError:
    """An option that takes one of a few words."""
    return PlanError(f"{function}: {option} is one of {', '.join(map(repr, known))}, not {value!r}.")


def missing_files(batch: int, paths: Sequence[str]) -> DataError:
    """Files of an interrupted batch that do not exist any more."""
    return DataError(
        f"Batch {batch} was interrupted and has to be repeated, but these of its files do not exist any more: "
        f'{_some(paths)}. Restore them, or run with on_missing_file="skip" to go on without them.'
    )


def skipped_files(batch: int, paths: Sequence[str]) -> str:
    """A warning: files of an interrupted batch are gone, and the user has chosen to go on without them."""
    return f"Batch {batch} is repeated without {_some(paths)}: deleted after the batch was interrupted."


def _some(paths: Sequence[str]) -> str:
    """A few paths, and how many there are."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more


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
    return PlanError(f"{what} needs a SparkSession: make one with ev.spark_session(), or give one as spark=.")


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


def checkpoint_drained(checkpoint: str) -> PlanError:
    """A checkpoint whose stream has ended."""
    return PlanError(
        f"The checkpoint {checkpoint!r} was drained: its stream has ended, and every new row would be late. Name "
        "another checkpoint (and another table or directory for its panes)."
    )


def still_running(checkpoint: str) -> PlanError:
    """A repair of a query that is running."""
    return PlanError(f"A query is running on the checkpoint {checkpoint!r}. Stop it, then repair it.")


def no_repair(checkpoint: str, reason: str) -> PlanError:
    """A watermark that cannot be lowered."""
    return PlanError(f"The watermark of the checkpoint {checkpoint!r} cannot be lowered: {reason}.")


def unknown_placement(state: object) -> PlanError:
    """A placement of state that does not exist."""
    return PlanError(f"run(state={state!r}): state is kept in the 'driver' or on the 'executors'.")


def only_in_driver(option: str) -> PlanError:
    """An option of commit records without commit records."""
    return PlanError(f"run({option}=) is for commit records, which only state='driver' has. Leave it out.")


def not_a_size(name: str, value: str) -> PlanError:
    """A size that cannot be read."""
    return PlanError(f"run({name}={value!r}) is not a size. Write '2g', '512m', or a number of bytes.")


def ignored_command(action: str, name: str | None) -> str:
    """The warning of a command that names an origin, an input or a watermark key that the query does not have."""
    return (
        f"The command {action} {name} was ignored: the query knows no such origin, input or watermark key. "
        "The metrics of its batches show the names."
    )

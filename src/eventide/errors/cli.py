"""Messages of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from eventide.errors.addresses import without_password
from eventide.errors.kinds import EventideError, PlanError, did_you_mean
from eventide.errors.values import shown


def no_typer() -> PlanError:
    """The extra is not installed."""
    return PlanError("The command line needs the packages typer and rich. Say: pip install 'pyspark-eventide[cli]'")


def of_spark(text: str) -> EventideError:
    """What Spark says, without its stack."""
    return EventideError(f"Spark says: {text}\nAdd --debug to see all of it.")


def unexpected(kind: str, text: str) -> EventideError:
    """Something that nobody thought of."""
    return EventideError(f"{kind}: {text}\nAdd --debug to see where it happened.")


def no_job(path: str) -> PlanError:
    """A job that is not there."""
    return PlanError(f"There is no file {path!r}. Name a Python file that defines a pipeline, or a file with SQL.")


def job_is_directory(path: str) -> PlanError:
    """A directory, where a file belongs."""
    return PlanError(f"{path!r} is a directory. Name the Python file in it that defines the pipeline.")


def not_text(path: str, position: int) -> PlanError:
    """A file that no text editor has written."""
    return PlanError(f"{path!r} is not UTF-8: the byte at {position:,} does not belong there. Save it as UTF-8 text.")


def not_a_job(path: str) -> PlanError:
    """A file of another kind."""
    return PlanError(f"{path!r} is not a job. It must be a Python file (.py), or one with SQL (.sql).")


def job_failed(path: str, line: int | None, kind: str, text: str) -> PlanError:
    """An error while the job's own code ran."""
    where = path if line is None else f"{path}, line {line}"
    return PlanError(f"{where}: {text if kind in ('PlanError', 'DataError') else f'{kind}: {text}'}")


def no_pipeline(path: str, known: Iterable[str]) -> PlanError:
    """A job without the name that matters."""
    near = difflib.get_close_matches("pipeline", list(known), n=1)
    hint = f" It has the name {near[0]!r}: should that be pipeline?" if near else ""
    return PlanError(
        f"{path} defines no pipeline.{hint} Write: pipeline = ev.stream(…).window(…).agg(…), or pipelines = [first, …] "
        "for a chain."
    )


def not_a_pipeline(path: str, name: str, value: object) -> PlanError:
    """Something else under that name."""
    return PlanError(
        f"{path}: {name} is {shown(value)}, and not {'a list of pipelines' if name == 'pipelines' else 'a pipeline'}. "
        "A pipeline is what .agg(…), .process(…) and the joins give."
    )


def no_rows(path: str) -> PlanError:
    """Nothing to read."""
    return PlanError(
        f"What are the rows of {path}? Give --source (such as --source parquet:/data/orders), or define in the job: "
        "def rows(spark): return spark.readStream…"
    )


def rows_is_no_function(path: str, value: object) -> PlanError:
    """Something else under that name."""
    return PlanError(
        f"{path}: rows is {shown(value)}, and not a function. Write: def rows(spark): return spark.readStream…"
    )


def not_rows(path: str, value: object) -> PlanError:
    """Something else where rows belong."""
    return PlanError(
        f"{path}: rows(spark) gives {shown(value)}, and not a DataFrame. Write: return "
        "spark.readStream…, or for several "
        "inputs a dict of them by their names."
    )


def no_sql() -> PlanError:
    """The extra is not installed."""
    return PlanError(
        "SQL needs the package sqlglot. Say: pip install 'pyspark-eventide[sql]'. Or write the "
        "pipeline in Python (job.py)."
    )


def unnamed_tables(names: Sequence[str]) -> PlanError:
    """A statement over several tables, and rows without a name."""
    sources = " ".join(f"--source {name}=KIND:PLACE" for name in names)
    return PlanError(f"The statement reads {', '.join(map(repr, names))}. Give each its source: {sources}.")


def unnamed_inputs(names: Sequence[str]) -> PlanError:
    """A pipeline with several inputs, and one source without a name."""
    sources = " ".join(f"--source {name}=KIND:PLACE" for name in names)
    return PlanError(f"The pipeline has the inputs {', '.join(map(repr, names))}. Give each its source: {sources}.")


def named_input(name: str) -> PlanError:
    """A name for the source of a pipeline with one input."""
    return PlanError(f"--source {name}=…: the pipeline has one input, which has no name. Write --source KIND:PLACE.")


def unknown_input(name: str, known: Sequence[str]) -> PlanError:
    """A source for an input that does not exist."""
    return PlanError(f"--source {name}=…: there is no input {name!r}. {did_you_mean(name, known)}")


def missing_source(name: str) -> PlanError:
    """An input without a source."""
    return PlanError(f"The input {name!r} has no source. Add --source {name}=KIND:PLACE.")


def replays_python() -> PlanError:
    """A statement, where a pipeline of Python is needed."""
    return PlanError("replay compares what a pipeline in Python (job.py) gives. Write the statement as one.")


def unknown_address(text: str, kind: str, known: Sequence[str]) -> PlanError:
    """An address that begins with nothing we know."""
    word = text.partition(":")[0]
    return PlanError(
        f"--{kind} {without_password(text)!r}: there is no kind {word!r}. {did_you_mean(word, known)} "
        f"All kinds are: {', '.join(known)}."
    )


def not_here(text: str, kind: str, known: Sequence[str]) -> PlanError:
    """A kind that is known, but not for this end of a query."""
    word = text.partition(":")[0]
    return PlanError(f"--{kind} {without_password(text)!r}: {word} is no {kind}. Use one of: {', '.join(known)}.")


def bad_address(text: str, kind: str, form: str) -> PlanError:
    """An address that is not complete."""
    return PlanError(f"--{kind} {without_password(text)!r}: write {form}.")


def unknown_option(text: str, kind: str, option: str, known: Sequence[str]) -> PlanError:
    """An option that a sink does not have."""
    takes = f"Its options are: {', '.join(known)}." if known else "Leave it out."
    return PlanError(f"--{kind} {without_password(text)!r}: there is no option {option!r} here. {takes}")


def source_is_file(kind: str, path: str) -> PlanError:
    """A file, where files are to come."""
    return PlanError(f"--source {kind}:{path} is a file. Name the directory in which files come to lie.")


def two_sources(name: str) -> PlanError:
    """An input that is given twice."""
    return PlanError(f"--source {name}=… is given twice. Each input has one source.")


def unnamed_sources() -> PlanError:
    """Several sources of which some have no name."""
    return PlanError("With several sources each has a name: --source orders=parquet:/a --source payments=parquet:/b.")


def no_files(path: str) -> PlanError:
    """A directory without files: nobody knows the columns."""
    return PlanError(
        f"There are no files in {path!r} yet, so their columns are not known. Create the directory and name the "
        "columns: …?schema=ts timestamp, shop string, price double."
    )


def no_kafka(version: str) -> PlanError:
    """Spark without its Kafka connector, which is a package of its own."""
    return PlanError(
        "This Spark does not have its Kafka connector. Add "
        f"--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{version}, or --conf spark.jars= with "
        "the paths of its jars."
    )


def bad_setting(text: str) -> PlanError:
    """Not NAME=VALUE."""
    return PlanError(f"--conf {text!r}: write NAME=VALUE, such as --conf spark.driver.memory=4g.")


def bad_memory(text: str) -> PlanError:
    """Not an amount of memory."""
    return PlanError(f"--memory {text!r}: write a number and its unit, such as 4g or 512m.")


def no_trace(path: str, why: str) -> PlanError:
    """A history that cannot be written."""
    return PlanError(f"--trace {path!r} cannot be written: {why}. Name a file, such as revenue.jsonl.")


def discard_without_export() -> PlanError:
    """Outputs would be lost."""
    return PlanError("--discard needs --export DIR: outputs are discarded only after they were written to files.")


def no_checkpoint(path: str) -> PlanError:
    """A checkpoint that is not there."""
    return PlanError(
        f"{path!r} is not the checkpoint of an Eventide query: it has no directory eventide/control. Name the "
        "directory that was given as checkpoint= or --checkpoint."
    )


def needs_value(action: str, what: str, example: str) -> PlanError:
    """A command to a query that lacks what it is about."""
    return PlanError(f"control … {action} needs {what}. Example: eventide control checkpoints/shop {action} {example}")


def only_for(action: str, option: str, other: str) -> PlanError:
    """An option that another command has."""
    return PlanError(f"control … {action}: {option} is for {other}. Leave it out.")


def takes_nothing(action: str, value: str) -> PlanError:
    """A command to a query with more than it can use."""
    return PlanError(f"control … {action} takes no {shown(value)}. Say: eventide control CHECKPOINT {action}")


def unknown_origin(action: str, origin: str | None, known: Sequence[str], *, more: int = 0) -> PlanError:
    """A command that names an origin which has never sent a row; ``more`` origins exist than are known here."""
    if origin is None:
        return PlanError(f"control … {action}: this watermark has origins, so name one. {did_you_mean('', known)}")
    if not known:
        return PlanError(f"control … {action} {origin}: there is nothing of this name. Nothing was changed.")
    others = f" There are {more:,} more." if more > 0 else ""
    return PlanError(f"control … {action} {origin}: there is no such origin. {did_you_mean(origin, known)}{others}")


def no_history(path: str) -> PlanError:
    """Nothing was written down."""
    return PlanError(
        f"There is no history in {path!r}. eventide run keeps one beside the checkpoint, and --trace FILE writes one "
        "with the windows of the panes. In Python: ev.run(…, on_batch=eventide.cli.history.History(FILE))."
    )


def not_a_history(path: str, line: int) -> PlanError:
    """A file of another kind."""
    return PlanError(f"{path!r}, line {line}, is not of a history that eventide run writes.")


def drain_needs_end() -> PlanError:
    """--drain for a query that goes on."""
    return PlanError(
        "--drain ends the stream when all that is there was read, so it needs --trigger available_now (the default "
        "is to go on). To drain a query that runs: eventide control CHECKPOINT drain."
    )


def no_windows_of_time(what: str) -> PlanError:
    """A pipeline whose results cannot be compared by time."""
    return PlanError(f"replay compares the windows of a stretch of time, and this pipeline has {what}.")


def parts_of_windows() -> PlanError:
    """Discarding panes of which a window has several."""
    return PlanError(
        "replay cannot compare a discarding pipeline whose windows fire more than once: its table has parts of "
        "windows. Use .accumulating() or .retracting()."
    )


def no_such_table(name: str, url: str) -> PlanError:
    """A table that is not there."""
    return PlanError(f"There is no table {name!r} in {url}. Name it behind #: sqlite:///panes.db#panes.")


def lacks_columns(name: str, missing: Sequence[str]) -> PlanError:
    """A table of another pipeline."""
    return PlanError(
        f"The table {name!r} has no column {', '.join(map(repr, missing))}: it is not the table of this pipeline."
    )


def empty_stretch(start: str, end: str) -> PlanError:
    """A stretch of time that ends before it begins."""
    return PlanError(f"--from {start} --to {end}: the end must be after the start.")


def console_and_json(end: str) -> PlanError:
    """Two things that both want stdout."""
    return PlanError(f"--json prints batches on stdout, where the console sink prints rows. Name another --{end}.")


def no_batch(path: str) -> PlanError:
    """A job that can only read a stream."""
    return PlanError(
        f"What is the input of {path} as a table? Give --source (such as --source parquet:/data/orders): rows(spark) "
        "of the job gives a stream, or there is none."
    )

"""Messages about sinks: where panes, late rows and dead letters go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from eventide.errors.addresses import without_password
from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.values import shown

_KNOWN = (
    "Use one of eventide.sinks (table, files, stream, spark_format, console, memory, noop), or a function "
    "(batch, batch_id)"
)


def not_a_sink(value: object) -> PlanError:
    """Something that rows cannot be written to."""
    return PlanError(f"{shown(value)} ({type(value).__name__}) is not a sink. {_KNOWN}.")


def unknown_sink(name: str) -> PlanError:
    """A string that names no sink."""
    if "://" in name:
        hint = "For a table in a database say sinks.table(url); for files say sinks.files(path)."
    elif "/" in name or "\\" in name:
        hint = f"For files say sinks.files({name!r})."
    else:
        hint = did_you_mean(name, ["console", "noop"])
    return PlanError(f"There is no sink {without_password(name)!r}. {hint}")


def not_called(name: str) -> PlanError:
    """The function that makes a sink, where the sink belongs."""
    return PlanError(f"sinks.{name} makes a sink, but is none itself. Call it: sinks.{name}(…).")


def wrong_arguments(function: object) -> PlanError:
    """A function that cannot be called with a batch and its number."""
    name = getattr(function, "__name__", repr(function))
    return PlanError(
        f"{name} is called as {name}(batch, batch_id), which it does not allow. Let it take two arguments."
    )


def bad_option(sink: str, option: str, value: object, need: str) -> PlanError:
    """An option that is out of its range."""
    return PlanError(f"sinks.{sink}({option}={shown(value)}): it must be {need}.")


def second_output(sink: str, first: str, second: str) -> PlanError:
    """One sink for two outputs, that would overwrite each other."""
    return PlanError(
        f"{sink} has the {first} already; the {second} would overwrite them. Give each output a sink of its own."
    )


def batch_column_taken(column: str) -> PlanError:
    """The directories' own column has the name of one of the rows'."""
    return PlanError(
        f"sinks.files(): the rows have a column {column!r}, and so have the directories batch=0, batch=1, …: reading "
        "them back would be ambiguous. Rename the column."
    )


def unknown_database(url: str) -> PlanError:
    """A URL of another kind of database."""
    scheme = url.partition("://")[0]
    if scheme.startswith("jdbc:") or scheme in {"mysql", "mssql", "oracle", "mariadb", "duckdb", "snowflake"}:
        hint = ' For other databases there is sinks.spark_format("jdbc", url=…, dbtable=…), which appends.'
    else:
        hint = ""
    return PlanError(
        f"sinks.table({without_password(url)!r}): tables are kept in PostgreSQL (postgresql://user:password@host:5432/"
        f"database) or SQLite (sqlite:///path.db).{hint}"
    )


def path_of_database(path: PurePath) -> PlanError:
    """A path where a URL is wanted."""
    return PlanError(f"sinks.table({str(path)!r}) is a path. Write it as a URL: 'sqlite:///{path.as_posix()}'.")


def vanishing_database(url: str) -> PlanError:
    """An SQLite database that no one else can see."""
    return PlanError(
        f"sinks.table({url!r}): this names no file, and a database in memory is gone with its connection. "
        "Name a file: sqlite:///panes.db is relative, sqlite:////var/lib/panes.db absolute."
    )


def bad_table_name(name: object, need: str) -> PlanError:
    """A name that cannot be a table's."""
    return PlanError(f"sinks.table(name={name!r}): the name of a table is {need}.")


def driver_missing() -> PlanError:
    """The optional package is not installed."""
    return PlanError("sinks.table() needs psycopg 3 for PostgreSQL: pip install 'pyspark-eventide[postgres]'")


def old_sqlite(found: str, needed: str) -> PlanError:
    """SQLite without upserts."""
    return PlanError(f"sinks.table(): this Python has SQLite {found}; {needed} or newer is needed. Use a newer Python.")


def no_connection(url: str, cause: BaseException) -> PlanError:
    """The database cannot be reached."""
    return PlanError(
        f"sinks.table(): no connection to {url}: {_first_line(cause)}. Check the address and that the database is up."
    )


def two_columns(name: str) -> PlanError:
    """Two columns of the table would have one name."""
    return PlanError(
        f"sinks.table(): two columns would be called {name!r} (capital or not). Rename the key or the result, or "
        "choose with columns=[…] what is kept."
    )


def unknown_columns(names: Iterable[str], known: Sequence[str]) -> PlanError:
    """Columns to keep that do not exist."""
    name = next(iter(names))
    return PlanError(f"sinks.table(columns=…): there is no column {name!r}. {did_you_mean(name, known)}")


def not_columns(value: object) -> PlanError:
    """Something that is no list of names."""
    return PlanError(f"sinks.table(columns={shown(value)}): give a list of names, such as columns=['n', 'pane_at'].")


def no_columns() -> PlanError:
    """A table without columns."""
    return PlanError("sinks.table(columns=[]): nothing would be kept. Name a column, or leave columns= out.")


def name_too_long(name: str, most: int) -> PlanError:
    """PostgreSQL would cut the name off."""
    return PlanError(
        f"sinks.table(): {name!r} is longer than {most} bytes, which PostgreSQL would cut off. Shorten it."
    )


def system_column(name: str) -> PlanError:
    """A column that every table of PostgreSQL has."""
    return PlanError(f"sinks.table(): {name!r} is a system column of PostgreSQL. Rename this column.")


def rows_without_number(names: Sequence[str]) -> PlanError:
    """SQLite finds the rows of a table by a number that columns hide."""
    return PlanError(f"sinks.table(): SQLite needs one of the names {', '.join(names)}. Rename one of these columns.")


def bad_column_name(ours: str) -> PlanError:
    """A column name that no table can have."""
    return PlanError(f"sinks.table(): a column has a name, without a null character, that is not {ours!r}. Rename it.")


def no_sql_type(column: str, dtype: str) -> PlanError:
    """A type that tables do not have."""
    return PlanError(
        f"sinks.table(): the column {column!r} is {dtype}, which has no type in SQL here. Cast it to another type, or "
        "leave it out: columns=[…] names what is kept."
    )


def no_table(table: str, url: str, statements: Sequence[str]) -> PlanError:
    """The table does not exist, and is not to be made."""
    return PlanError(
        f"sinks.table(create=False): {url} has no table {table!r}. Say create=True, or make it:{_listed(statements)}"
    )


def other_columns(
    table: str,
    url: str,
    *,
    missing: Mapping[str, str],
    extra: Mapping[str, str],
    other: Mapping[str, tuple[str, str]],
) -> PlanError:
    """The table exists, for other rows."""
    lines = [f"{name} is missing ({dtype})" for name, dtype in missing.items()]
    lines += [f"{name} is {was}, and should be {now}" for name, (was, now) in other.items()]
    lines += [f"{name} ({dtype}) is not written, and has no default" for name, dtype in extra.items()]
    return PlanError(
        f"The table {table!r} of {url} has other columns than this output:{_listed(lines)}\n"
        "Give the output a table of its own (name=…), change the table, or choose columns=[…]."
    )


def no_identity(table: str, url: str, statement: str, cause: BaseException) -> PlanError:
    """Nothing says which rows of the table are the same window."""
    return PlanError(
        f"The table {table!r} of {url} does not tell rows apart as this output does: {_first_line(cause)}. If it was "
        "made for another accumulation mode, give this output a table of its own (name=…). If not, make this index:"
        f"{_listed([statement])}"
    )


def not_prepared(table: str, url: str, cause: BaseException) -> PlanError:
    """The database refused to make or to check the table."""
    return PlanError(f"The table {table!r} cannot be prepared in {url}: {_first_line(cause)}.")


def not_written(table: str, url: str, batch_id: int, cause: BaseException) -> DataError:
    """A batch that the database did not take."""
    hint = ""
    if "0x00" in str(cause) or "\\u0000" in str(cause):
        hint = " PostgreSQL's text holds no zero character; remove it from the rows, or keep the table in SQLite."
    return DataError(
        f"Batch {batch_id} was not written into {table!r} of {url}: {_first_line(cause)}.{hint} The table is as it was "
        "before; a restart from the checkpoint writes the batch again."
    )


def no_query() -> DataError:
    """A batch without the name of its query, which could not be told from another one's."""
    return DataError("sinks.table(): About.query is empty. Give Spark's query id, which tells a replayed batch apart.")


def not_opened(sink: str, output: str) -> DataError:
    """write() before open()."""
    return DataError(f"{sink} was not opened for the {output}. Call open(schema, about) before the first write().")


def _listed(lines: Sequence[str]) -> str:
    return "".join(f"\n  {line}" for line in lines)


def _first_line(cause: BaseException) -> str:
    r"""What a driver said, without its repeats and hints.

    >>> _first_line(ValueError("no such host\nIs the server running?"))
    'no such host'
    """
    lines = str(cause).strip().splitlines()
    return (lines[0] if lines else type(cause).__name__).rstrip(".")

"""Messages about whole plans and about rows that do not fit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.values import shown


def no_window() -> PlanError:
    """agg() before window()."""
    return PlanError(
        ".agg() needs a window: call .window(ev.tumbling('1 minute')) before it, or .window(ev.global_window()) "
        "for one window over everything."
    )


def said_twice(method: str) -> PlanError:
    """A setting that was made before."""
    return PlanError(f".{method}() was called before on this stream. Each setting is made once; start from the stream.")


def bad_mode(mode: object, known: Sequence[str]) -> PlanError:
    """A mode that does not exist."""
    return PlanError(f".emit(mode={shown(mode)}): {did_you_mean(str(mode), known)}")


def late_without_lateness() -> PlanError:
    """Late panes of windows that take no late rows."""
    return PlanError(
        ".emit(late=…) emits panes for late rows, but no row may be late. "
        "Add allowed_lateness='1 hour', or remove late=."
    )


def another_mode(mode: str, before: str) -> PlanError:
    """A second accumulation mode."""
    return PlanError(f".{mode}(): this stream is {before} already. Say one accumulation mode, once.")


def bad_key(key: object) -> PlanError:
    """A key that is no column."""
    return PlanError(f"key={shown(key)}: a key is a column name, or a list of column names.")


def bad_time(time: object) -> PlanError:
    """A time that is no column."""
    return PlanError(
        f"time={shown(time)}: name the column of the event time, or say time=ev.ingestion_time() where there is none."
    )


def not_a_watermark(value: object) -> PlanError:
    """Something that is no watermark strategy."""
    return PlanError(f"watermark={shown(value)}: use a strategy such as watermark=ev.bounded_delay('30 seconds').")


def twice_in_key(column: str) -> PlanError:
    """One key column named twice."""
    return PlanError(f"key: the column {column!r} is named twice.")


def key_taken(name: str) -> PlanError:
    """A key column whose name a column of every pane has."""
    return PlanError(f"key: {name!r} is a column that every pane has. Rename the column before it becomes a key.")


def name_taken(name: str, by: str) -> PlanError:
    """A result's name is in use."""
    return PlanError(f".agg({name}=…): {name!r} is {by}. Choose another name for this result.")


def no_name() -> PlanError:
    """A result without a name."""
    return PlanError(".agg(): a result needs a name, as in n=ev.count().")


def bad_output_time(value: object) -> PlanError:
    """output_time= is not known."""
    return PlanError(f".window(output_time={shown(value)}): {did_you_mean(str(value), ['end', 'earliest', 'latest'])}")


def latest_of_nothing() -> PlanError:
    """Early and late refinements of row windows."""
    return PlanError(
        ".lateness() has no meaning for windows counted in rows: rows are counted as they arrive, and none is late. "
        "Remove it, or window by offset: ev.rows(…, by='offset')."
    )


def lateness_in_rows(window: str, *, rows: bool) -> PlanError:
    """A lateness on another axis than the windows'."""
    mend = ".lateness('1 hour')" if rows else ".lateness(rows=100)"
    unit = "rows" if rows else "time"
    return PlanError(f"The lateness is given in {unit}, but the windows ({window}) are not. Use {mend}.")


def one_lateness() -> PlanError:
    """Both or none."""
    return PlanError("lateness() takes a duration, or rows= for windows by offset: .lateness('1 hour'). Give one.")


def offsets_of_many() -> PlanError:
    """Offsets of several inputs."""
    return PlanError(
        "Windows by offset are those of one stream: the offsets of several inputs have nothing to do with each other. "
        "Make one pipeline for each stream."
    )


def missing_column(role: str, column: str, known: Iterable[str]) -> PlanError:
    """A column that the plan names and the rows do not have."""
    return PlanError(f"{role}: there is no column {column!r} in the rows. {did_you_mean(column, known)}")


def internal_name(column: str) -> PlanError:
    """A column whose name Eventide needs."""
    return PlanError(f"The column {column!r} begins with two underscores; such names are Eventide's own. Rename it.")


def not_rows(value: object) -> PlanError:
    """Something that is no frame of rows."""
    package = type(value).__module__.partition(".")[0]
    hint = {
        "pandas": "Convert it with polars.from_pandas(rows).",
        "polars": "Collect a LazyFrame first: rows.collect().",
        "pyspark": "Run it on Spark with ev.run(pipeline, rows, …), or convert it with rows.toArrow().",
    }.get(package, "For a list or a dict use polars.DataFrame(rows).")
    named = type(value).__name__ if package not in ("pandas", "pyspark") else f"a {package} {type(value).__name__}"
    return PlanError(f"rows must be a Polars or Arrow frame (or a list of them, one a bundle), not {named}. {hint}")


def duplicate_columns(names: Sequence[str]) -> PlanError:
    """Arrow frames can have a name twice."""
    return PlanError(f"The rows have more than one column named {', '.join(map(repr, names))}. Rename or drop one.")


def unreadable_type(column: str, dtype: object) -> PlanError:
    """An Arrow type that Polars does not have."""
    return PlanError(f"The column {column!r} is {dtype}, which cannot be read. Drop it, or cast it to another type.")


def bad_clock(value: int) -> PlanError:
    """A batch time outside of what is usable as an instant."""
    return PlanError(f"now={value} is no time of a batch: it must be in microseconds since 1970, within ±2⁶².")


def schema_changed(before: object, after: object) -> DataError:
    """A bundle with other columns than the first."""
    return DataError(
        f"This bundle's columns are {after}, but the query began with {before}. A query has one schema; cast the rows."
    )


def clock_went_back(before: str, after: str) -> DataError:
    """Processing time must not go back."""
    return DataError(f"The batch clock went back from {before} to {after}. Give bundles in the order of their time.")


def retractions_unwindowed() -> PlanError:
    """Diff without a window kind that can take it."""
    return PlanError(
        "inherit() needs the panes of another pipeline: rows with a `window` column (struct of start, end)."
    )


def session_discarding() -> PlanError:
    """max_duration needs the whole session."""
    return PlanError(
        "sessions(max_duration=…) cannot be combined with .discarding(): when a late row moves a session's start, its "
        "pieces are cut anew, which needs the whole content. Use .accumulating() or .retracting()."
    )


def overflow_of_time(what: str, length: int) -> PlanError:
    """Durations that do not fit."""
    return PlanError(f"{what}: {length} µs are beyond what 64 bits can hold beside an instant. Choose a shorter one.")


def clock_too_short(bundles: int, clock: int) -> PlanError:
    """More bundles than batch times."""
    return PlanError(
        f"clock= has {clock} times, but there is a bundle number {bundles}. Give one time for each bundle."
    )


def no_schema() -> PlanError:
    """A bundle without rows before the columns are known."""
    return PlanError("No rows have been seen yet, so the columns are not known. Push a frame first, or open(schema=…).")


def discarding_retractions() -> PlanError:
    """A pane of what is new, over rows that can be taken back."""
    return PlanError(
        "inherit() with .discarding() over panes that carry `diff`: what is new since the last pane may be less than "
        "nothing, which most aggregates cannot say. Use .retracting() or .accumulating()."
    )


def rows_not_inherited() -> PlanError:
    """Windows counted in rows have no place in time."""
    return PlanError(
        "inherit() cannot take windows counted in rows: row numbers of different keys are not the same window, and lie "
        "on no time axis. Window the panes by their time: ev.stream(time='pane.time', …).window(ev.tumbling(…))."
    )


def clock_is_given() -> PlanError:
    """A chained pipeline has the clock of the one before."""
    return PlanError("clock=… has no place here: the panes of another pipeline bring its clock along. Leave it out.")


def clock_is_no_list(value: object) -> PlanError:
    """A clock that is no list."""
    return PlanError(f"clock={shown(value)}: give a list with the batch time of each bundle.")


def no_numbers(watermark: str) -> PlanError:
    """Rows that cannot be told from their repeats."""
    return PlanError(
        f".deduplicate() knows rows by their numbers, but the watermark ({watermark}) names none. Add sequence= (and "
        "origin=, where numbers are per origin): ev.bounded_delay('30 seconds', origin='partition', sequence='offset')."
    )


def deduplicate_apart() -> PlanError:
    """Numbers are those of one stream."""
    return PlanError(
        ".deduplicate() comes before ev.union(): numbers are those of one stream. "
        "Say it of each stream: ev.union(web=web.deduplicate(), tills=tills.deduplicate())."
    )


def nothing_retained() -> PlanError:
    """No bound at all."""
    return PlanError(".retain() needs a bound: time='1 hour', rows=10_000 or bytes=64_000_000, one or more of them.")


def not_a_bound(name: str, value: object) -> PlanError:
    """A bound that is no positive integer."""
    return PlanError(f".retain({name}={shown(value)}): give an integer of at least 1.")


def pieces_not_retained() -> PlanError:
    """Sessions that are cut are put together anew with each row."""
    return PlanError(
        "sessions(max_duration=…) cannot be bounded by .retain(rows=…) or bytes=…: a piece that was closed would be "
        "cut anew when its session's start moves. Use .retain(time=…), or sessions without max_duration."
    )


def no_watermark_on_stream(what: str) -> PlanError:
    """A plan that is applied to a stream and would never emit anything."""
    return PlanError(
        f"{what} has no watermark: on a stream its windows would never be complete, and rows would be kept for ever. "
        'Add watermark= to ev.stream(…): ev.bounded_delay("30 seconds") follows the highest event time, '
        'ev.processing_time("30 seconds") follows the clock, also when no rows arrive. Or state that there is none: '
        "ev.no_watermark(), for a trigger by count or processing time, or a stream that is drained. "
        "In SQL: WATERMARK FOR ts AS ts - INTERVAL '30' SECOND."
    )


def no_reset(reason: str) -> PlanError:
    """A watermark that cannot be lowered."""
    return PlanError(f"The watermark cannot be lowered: {reason}.")

"""Messages about operators that run by themselves, and about their stores."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.errors.kinds import DataError, PlanError, Refused, did_you_mean
from eventide.errors.values import shown


def condition_without_join() -> PlanError:
    """Join conditions of an aggregate."""
    return PlanError(
        "layout_of('aggregate', …): equal= and time_range= are conditions of a join. Leave them out, or say 'join'."
    )


def time_range_of_rows() -> PlanError:
    """A range of time on the row axis."""
    return PlanError(
        "layout_of('rows', …): windows counted in rows have no range of time. Leave time_range= out, or say 'time'."
    )


def not_for_standalone(operator: str, window: str, instead: str) -> PlanError:
    """A window that this operator cannot keep."""
    return PlanError(f"{operator}: the window '{window}' does not fit. Use {instead}.")


def windows_by_offset(operator: str, column: str) -> PlanError:
    """Row windows that are cut by a column of offsets."""
    return PlanError(
        f"{operator}: windows by offset (offset={column!r}) need a pipeline, because offsets belong to an origin. "
        "Leave offset= of the window out: rows are then counted as they arrive."
    )


def no_key(operator: str) -> PlanError:
    """Sessions without a session key."""
    return PlanError(f"{operator} needs key=…, the column or columns that say whose session a message belongs to.")


def bad_column(operator: str, role: str, value: object) -> PlanError:
    """A column that is no name."""
    return PlanError(f"{operator}: {role}={shown(value)} is no column. Give its name.")


def bad_offset_type(column: str, dtype: object) -> PlanError:
    """Offsets that are no integers."""
    return PlanError(f"offset: the column {column!r} is {dtype}; offsets are integers that grow as messages arrive.")


def bad_key_type(column: str, dtype: object) -> PlanError:
    """A nested key."""
    return PlanError(
        f"key: the column {column!r} is {dtype}; a key is a plain value. Name the fields inside it instead."
    )


def duration_key(column: str) -> PlanError:
    """A key that is a length of time."""
    return PlanError(
        f"key: the column {column!r} is a duration, which cannot be a key. Turn it into a number, such as microseconds."
    )


def unknown_retention(name: str) -> PlanError:
    """A retention in an unknown measure."""
    return PlanError(f"retain: there is no {name!r}. {did_you_mean(name, ['time', 'rows'])}")


def bad_retention(value: object) -> PlanError:
    """A retention that is no mapping."""
    return PlanError(f"retain={shown(value)}: say retain={{'time': '1 hour'}}, retain={{'rows': 1000}}, or both.")


def retention_in_time_of_rows() -> PlanError:
    """Windows counted in rows expire by rows."""
    return PlanError(
        "retain: windows counted in rows expire when enough rows have followed, never with time. Say {'rows': …} only."
    )


def name_taken(name: str) -> PlanError:
    """A column that every output has."""
    return PlanError(f"{name!r} is a column that every output has. Rename the column of the messages, or the result.")


def not_messages(value: object) -> PlanError:
    """Something that is no message."""
    return PlanError(f"A message is a dict, a list of dicts, or a Polars or Arrow frame, not {type(value).__name__}.")


def columns_differ(expected: Iterable[str], found: Iterable[str]) -> DataError:
    """Messages with other columns than the first."""
    return DataError(
        f"The messages have the columns {', '.join(map(repr, found))}, but this operator began with "
        f"{', '.join(map(repr, expected))}. An operator has one schema: fill in what is missing, drop what is new."
    )


def types_differ(column: str, expected: object, found: object) -> DataError:
    """Messages with another type than the first."""
    return DataError(
        f"The column {column!r} has a value of type {found}, but in this operator it is {expected}. "
        "Cast the messages, or make the operator with a schema=… that holds all values."
    )


def column_was_null(column: str, found: object) -> DataError:
    """A column that gets its first value when what is kept depends on its type."""
    return DataError(
        f"The column {column!r} has a value of type {found}, but was null in all messages before, and what this "
        "operator keeps depends on its type. Make it anew, with schema=…, and with a new store if it has one."
    )


def no_common_type(cause: str) -> DataError:
    """Values of one column that do not go together."""
    return DataError(f"These messages cannot be columns: {cause}. Give the values of a column one type.")


def no_schema() -> PlanError:
    """Nothing is known of the columns yet."""
    return PlanError("No message has come yet, so the columns are not known. Give schema=… when making the operator.")


def clock_went_back(before: str, after: str) -> DataError:
    """Processing time must not go back."""
    return DataError(f"now went back from {before} to {after}. Give messages and timeouts in the order of their time.")


def delivery_disabled(waiting: int) -> Refused:
    """A message while the one downstream does not take results."""
    return Refused(
        f"This operator takes no messages now: downstream refused a result, and {waiting} are waiting. "
        "Nothing is lost. Call timeout() until it returns True, then add this message again."
    )


def not_a_store(path: str) -> DataError:
    """A file of another kind."""
    return DataError(f"{path!r} is no store of Eventide's. Name a new file, or one that an operator has made.")


def store_in_use(path: str) -> DataError:
    """Two operators on one file."""
    return DataError(f"The store {path!r} is in use by another operator. Close that one, or give each its own file.")


def unknown_store_format(path: str, found: int, known: int) -> DataError:
    """A store of another version."""
    return DataError(
        f"The store {path!r} has format {found}, but this version of Eventide reads format {known}. "
        "Use the version that wrote it, or begin with a new file."
    )


def another_operator(path: str, name: str, was: str, now: str) -> PlanError:
    """The store belongs to an operator that was made otherwise."""
    return PlanError(
        f"The store {path!r} belongs to another operator:\n  {name}: was {was}, is {now}\n"
        "Make the operator as it was, or begin with a new file."
    )


def no_key_given(columns: Iterable[str]) -> PlanError:
    """A key with too few or too many parts."""
    return PlanError(f"key=… must give one value for each of {', '.join(map(repr, columns))}, in this order.")


def no_join_key() -> PlanError:
    """A lookup by key where there is none."""
    return PlanError("key=…: this operator was made without key=…, so it cannot look messages up by it.")


def no_window_key() -> PlanError:
    """A lookup of windows by key where windows have none."""
    return PlanError("key=…: the windows of this operator have no key. Leave key= out.")


def keeps_no_messages(operator: str) -> PlanError:
    """Messages of an operator whose aggregates need none."""
    return PlanError(
        f"This {operator} keeps no messages: its aggregates rest in the windows. Ask get_windows(), or add an "
        "aggregate that needs every value, such as ev.collect_list(…)."
    )


def no_time(operator: str) -> PlanError:
    """Windows in time without a column of times."""
    return PlanError(f"{operator} needs time=…, the column of event times, for windows in time.")


def bad_size(value: object) -> PlanError:
    """A window that is neither small nor large."""
    return PlanError(f"size={shown(value)}: {did_you_mean(str(value), ['small', 'large'])}")

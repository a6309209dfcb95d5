"""What is said about watermarks, origins, sequences and the operators that pass watermarks on."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.errors.addresses import without_password
from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.values import shown
from eventide.time import format_instant


def bad_key(value: object) -> PlanError:
    """A watermark key that does not fit a byte."""
    return PlanError(
        f"watermark_key={shown(value)} is not a watermark key: it must be an integer from 0 to 255. "
        "Streams whose rows share one time column share a key; give every other stream a key of its own."
    )


def bad_time(value: object) -> PlanError:
    """A watermark whose time is no instant."""
    return PlanError(
        f"Watermark time {shown(value)} is not an instant: it must be an integer of microseconds since the epoch, "
        "within 64 bits. eventide.time.instant() reads text and datetimes."
    )


def unknown_option(strategy: str, name: str, known: Iterable[str]) -> PlanError:
    """An option that no strategy has, or that this one cannot use."""
    return PlanError(f"{strategy}() has no option {name!r}. {did_you_mean(name, known)}")


def not_a_column(strategy: str, option: str, value: object) -> PlanError:
    """Something that is no column name where one is needed."""
    return PlanError(
        f"{strategy}(): {option}={shown(value)} is a {type(value).__name__}, not the name of a column. "
        f"Write {option}='some_column'."
    )


def option_needs(strategy: str, option: str, needed: str, why: str) -> PlanError:
    """An option that means nothing without another one."""
    return PlanError(f"{strategy}(): {option} needs {needed}: {why}. Add {needed}=, or leave {option} out.")


def column_used_twice(strategy: str, column: str, options: Iterable[str]) -> PlanError:
    """One column cannot be both origin and sequence."""
    return PlanError(
        f"{strategy}(): column {column!r} is given as {' and as '.join(options)}. "
        "Each of them is a different number; name a column for each."
    )


def unknown_return(strategy: str, value: object) -> PlanError:
    """``on_return`` is neither hold nor catch_up."""
    return PlanError(
        f"{strategy}(): on_return={shown(value)} is not known. {did_you_mean(str(value), ['hold', 'catch_up'])} "
        "'hold': the watermark waits for an origin that returns behind it; "
        "'catch_up': that origin is left out until it has caught up, and its rows may be late."
    )


def bad_first_chunk(strategy: str, value: object) -> PlanError:
    """Chunks are counted from a number, usually 1."""
    return PlanError(
        f"{strategy}(): first_chunk={shown(value)} is not a chunk number: it must be an integer of at least 0. "
        "Write first_chunk=0 if chunks are counted from zero, and leave it out if they are counted from one."
    )


def bad_expected_origins(strategy: str, value: object) -> PlanError:
    """Neither a number nor names."""
    return PlanError(
        f"{strategy}(): expect_origins={shown(value)} is neither a number of origins nor their names. "
        "Write expect_origins=8, or expect_origins=['berlin', 'paris']."
    )


def no_such_column(strategy: str, option: str, column: str, columns: Iterable[str]) -> PlanError:
    """A column of the strategy does not exist in the rows."""
    return PlanError(f"{strategy}(): there is no column {column!r} for {option}. {did_you_mean(column, columns)}")


def no_places(stream: str, column: str, columns: Iterable[str]) -> PlanError:
    """Rows that do not say where in their stream they were."""
    return PlanError(
        f"noted(): there is no column {column!r}, which says where in stream {stream!r} a row was. Load the stream by "
        "format('eventide') or scan_stream(), without option('places', 'false'), and keep its columns. "
        f"{did_you_mean(column, columns)}"
    )


def not_whole_numbers(strategy: str, option: str, column: str, dtype: object) -> PlanError:
    """Sequence and chunk numbers are integers."""
    return PlanError(
        f"{strategy}(): {option} column {column!r} is {dtype}; it must hold whole numbers. Cast it to an integer first."
    )


def not_flags(strategy: str, column: str, dtype: object) -> PlanError:
    """The last chunk is flagged by a boolean."""
    return PlanError(
        f"{strategy}(): last_chunk column {column!r} is {dtype}; it must be a boolean that is true in the rows "
        "of a sequence's last chunk."
    )


def not_an_origin(strategy: str, column: str, dtype: object) -> PlanError:
    """An origin must have a name in text."""
    return PlanError(
        f"{strategy}(): origin column {column!r} is {dtype}, which has no text form to name an origin by. "
        "Cast it to a string first."
    )


def went_back(key: int, source: str, before: int, after: int) -> DataError:
    """A declared watermark below an earlier one."""
    return DataError(
        f"The watermark with key {key} went back on {source}: it was {format_instant(before)} and is now "
        f"{format_instant(after)}. A declared watermark promises that nothing before it follows; mend the "
        "producer, or use bounded_delay() or ascending(), which take the highest time seen."
    )


def spoke_after_done(source: str) -> DataError:
    """An input that ended sends more."""
    return DataError(
        f"Rows or watermarks came on {source} after it was done. Its end made the watermark leave it behind; "
        "report an input as idle, not as done, if it can go on."
    )


def last_chunk_twice(origin: str, sequence: int, one: int, other: int) -> DataError:
    """Two chunks of one sequence both say that they are the last."""
    return DataError(
        f"Sequence {sequence} of {origin} has two last chunks, {one} and {other}. Only one chunk of a "
        "sequence may be flagged as the last; fix the producer that numbers the chunks."
    )


def chunk_beyond_last(origin: str, sequence: int, chunk: int, last: int) -> DataError:
    """A sequence has a chunk after the one that is flagged as its last."""
    return DataError(
        f"Sequence {sequence} of {origin} has chunk {chunk}, although chunk {last} is flagged as its last. Flag the "
        "chunk with the highest number as the last; fix the producer that numbers the chunks."
    )


def unknown_snapshot(version: object, known: int) -> DataError:
    """State of another format."""
    return DataError(
        f"This watermark state has format {version!r}; this Eventide reads format {known}. "
        "Start it with the version that wrote the state, or with a new checkpoint."
    )


def unequal_inputs(name: str, column: str, found: object, expected: object) -> PlanError:
    """The inputs of a union differ in a column."""
    return PlanError(
        f"union: input {name!r} has {found} for column {column!r}, the first input has {expected}. "
        "Select the same columns with the same types on every input."
    )


def too_few_inputs(count: int) -> PlanError:
    """A union of nothing, or of one."""
    return PlanError(f"union of {count} input(s) has nothing to unite. Give it two or more.")


def bad_async_option(name: str, value: object, need: str) -> PlanError:
    """A limit of the async map that limits nothing."""
    return PlanError(f"map_async(): {name}={shown(value)} must be {need}.")


def not_a_stream(value: object) -> PlanError:
    """Something that is no address of a stream."""
    shown = without_password(value) if isinstance(value, str) else value
    return PlanError(
        f"noted({shown!r}): it takes the address of the stream that the rows come from: its store, #, and its name, "
        "such as noted('sqlite:///shop.db#orders')."
    )

"""Messages about marks: streams, writers, controllers and readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eventide.errors.addresses import without_password
from eventide.errors.kinds import DataError, EventideError, PlanError, did_you_mean
from eventide.errors.values import shown
from eventide.time import FIRST, LAST, format_instant


class UnknownStreamError(PlanError):
    """There is no stream of that name."""


class ConflictError(PlanError):
    """The name belongs to another one already."""


class SegmentSealedError(EventideError):
    """An append met a segment that was sealed meanwhile. Nothing was appended; route the events again."""


class SeatTakenError(EventideError):
    """Another writer of the same id has taken over."""


class StoreFailedError(DataError):
    """The database of a store failed. Whether it did what was asked is not known."""


class TransactionOverError(DataError):
    """A transaction has ended, and not as it was asked to."""


class LeaseLostError(EventideError):
    """Another controller makes the marks of this stream now."""


def unknown_stream(name: str, known: Iterable[str]) -> UnknownStreamError:
    """A name that no stream has."""
    return UnknownStreamError(
        f"There is no stream {name!r}. {did_you_mean(name, known)} marks.create_stream() makes one, "
        "in a shell: eventide marks create."
    )


def stream_exists(name: str) -> ConflictError:
    """A stream that is there already."""
    return ConflictError(
        f"There is a stream {name!r} already. Open it (in Python: marks.open_stream()), or choose another name."
    )


def unknown_segment(number: int, known: Sequence[int]) -> PlanError:
    """A number that no segment has."""
    return PlanError(f"There is no segment {number}. Open are: {', '.join(map(str, known))}.")


def segment_is_sealed(number: int, known: Sequence[int]) -> PlanError:
    """A segment that cannot be scaled any more."""
    return PlanError(f"Segment {number} is sealed already. Open are: {', '.join(map(str, known))}.")


def bounds_crossed(number: int, lower: int, upper: int) -> PlanError:
    """A mark whose upper time is below its lower one."""
    return PlanError(
        f"Mark {number} has the upper time {upper}, which is below its lower time {lower}. No writer can have noted a "
        "time that is below what all of them have noted."
    )


def not_a_range(low: float, high: float) -> PlanError:
    """A range outside of the key space, or an empty one."""
    return PlanError(f"({low}, {high}) is not a range of keys. It must hold that 0 <= low < high <= 1.")


def ranges_overlap(one: tuple[float, float]) -> PlanError:
    """Two ranges that share keys."""
    return PlanError(f"The range {one} overlaps another one. Each key belongs to one segment only.")


def ranges_differ(olds: Sequence[tuple[float, float]], news: Sequence[tuple[float, float]]) -> PlanError:
    """New segments over other keys than the old ones."""
    return PlanError(
        f"The new ranges {list(news)} do not cover the same keys as the segments to seal {list(olds)}. They must."
    )


def unknown_columns(names: Sequence[str], known: Sequence[str]) -> PlanError:
    """Events with columns that the stream does not have."""
    return PlanError(f"The stream has no column {names[0]!r}. {did_you_mean(names[0], known)}")


def not_the_schema(schema: Any, cause: object) -> PlanError:
    """Events that do not fit the columns of their stream."""
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return PlanError(f"The events do not fit the stream's columns ({columns}): {str(cause).removesuffix('.')}.")


def fraction(field: Any, value: object) -> PlanError:
    """A number that would lose a part of itself."""
    return PlanError(
        f"Column {field.name!r} ({field.type}) takes whole numbers, not {value}. Round it, or choose another type."
    )


def segment_sealed(stream: str, number: int) -> SegmentSealedError:
    """An append that came after a scale event."""
    return SegmentSealedError(f"Segment {number} of stream {stream!r} is sealed. Route the events again.")


def stream_sealed(stream: str) -> PlanError:
    """An append to a stream that has ended."""
    return PlanError(f"Stream {stream!r} has ended; nothing can be written to it any more.")


def seat_taken(stream: str, writer: str) -> SeatTakenError:
    """A writer that another one of its id has replaced."""
    return SeatTakenError(
        f"Another writer {writer!r} has taken over at stream {stream!r}. This one must stop; each id belongs to one."
    )


def writer_in_use(stream: str, writer: str, until: int) -> ConflictError:
    """An id that another writer holds."""
    return ConflictError(
        f"A writer {writer!r} is at work on stream {stream!r} (until {format_instant(until)}, if it is dead). Choose "
        "another writer_id, or, if you know that it is gone, say take_over=True."
    )


def truncated(stream: str, segment: int, offset: int, start: int) -> DataError:
    """Events that are gone."""
    return DataError(
        f"Segment {segment} of stream {stream!r} was truncated: it begins at offset {start} now, and {offset} was "
        "asked for. Begin at the start of the stream, or at a later position."
    )


def lease_lost(stream: str, owner: str) -> LeaseLostError:
    """A controller that is too late."""
    return LeaseLostError(f"Another controller than {owner!r} makes the marks of stream {stream!r} now.")


def time_goes_back(stream: str, writer: str, before: int, time: int) -> PlanError:
    """A note of a time before the last one."""
    return PlanError(
        f"Writer {writer!r} noted {format_instant(before)} at stream {stream!r} already; {format_instant(time)} is "
        "before that, and noted time does not go back."
    )


def time_beyond(stream: str, writer: str, time: int) -> PlanError:
    """A note of a time that is none."""
    return PlanError(
        f"Writer {writer!r} noted {time} at stream {stream!r}, which is not an instant in microseconds since 1970: it "
        f"must be from {FIRST} to {LAST}. When all is written, say stream.seal(), or close the writer."
    )


def position_goes_back(stream: str, writer: str, segment: int, before: int, offset: int) -> PlanError:
    """A note at a position before the last one."""
    return PlanError(
        f"Writer {writer!r} had come to offset {before} in segment {segment} of stream {stream!r} already; {offset} "
        "is before that, and positions do not go back."
    )


def position_beyond(stream: str, segment: int, offset: int, length: int) -> PlanError:
    """A position where nothing is yet."""
    return PlanError(
        f"Segment {segment} of stream {stream!r} has {length} events; a position at offset {offset} is beyond them."
    )


def transaction_over(id_: str, status: str) -> TransactionOverError:
    """A transaction that cannot be committed, or aborted, any more."""
    if status == "committed":
        return TransactionOverError(
            f"Transaction {id_} was committed: its events are stored for good. Do not write them again."
        )
    ends = {
        "aborted": "was aborted",
        "expired": "was not committed in time and has been aborted",
        "unknown": "is not known",
    }
    return TransactionOverError(f"Transaction {id_} {ends[status]}. Its events must be written again in a new one.")


def not_a_cut(stream: str, position: Any) -> PlanError:
    """A position that does not cover the key space."""
    return PlanError(f"{dict(position)} is not a cut of stream {stream!r}: it must cover all keys, each once.")


def other_format(url: str, found: object, known: int) -> DataError:
    """A store that another version wrote."""
    return DataError(
        f"{url} was written by another version of Eventide (format {found}; this one knows {known}). Use that version, "
        "or another store."
    )


def bad_segments(value: object) -> PlanError:
    """No number of segments."""
    return PlanError(f"create_stream(segments={shown(value)}): it must be a whole number, 1 or more.")


def not_an_address(address: str) -> PlanError:
    """An address without a stream's name."""
    return PlanError(
        f"{without_password(address)!r} is not the address of a stream. Write the store, #, and the name: "
        "sqlite:///shop.db#orders."
    )


def unknown_store(url: str) -> PlanError:
    """An address of another kind."""
    return PlanError(
        f"{without_password(url)!r} is not a store for marks. Use sqlite:///file.db, postgresql://user@host/database, "
        "or the address of a controller (https://…)."
    )


def reserved_column(stream: str, name: str) -> PlanError:
    """A column of the events that the source adds itself."""
    return PlanError(
        f"The events of stream {stream!r} have a column {name!r}, which readers add themselves. Rename it."
    )


def point_column(stream: str, name: str) -> PlanError:
    """A column of the events that transactions add."""
    return PlanError(
        f"The events of stream {stream!r} have a column {name!r}, which transactions add themselves. Rename it."
    )


def column_twice(stream: str, name: str) -> PlanError:
    """Two columns of one name."""
    return PlanError(f"The events of stream {stream!r} have two columns {name!r}. Rename one of them.")


def bad_start(text: str) -> PlanError:
    """No place in a stream."""
    return PlanError(f"option('start', {text!r}): it must be 'earliest', 'latest', or a cut as JSON: '{{\"0\": 100}}'.")


def bad_source_option(name: str, text: str) -> PlanError:
    """An option of the source that is out of its range."""
    return PlanError(f"option({name!r}, {text!r}): it must be a whole number, 1 or more.")


def bad_switch(name: str, text: str) -> PlanError:
    """An option of the source that is on or off."""
    return PlanError(f"option({name!r}, {text!r}): it must be 'true' or 'false'.")


def no_writer_id() -> PlanError:
    """A writer that nothing names, so that a restart would not be the same one."""
    return PlanError("Writing to a stream needs a name that stays the same: option('writer_id', 'orders-job').")


def no_overwriting() -> PlanError:
    """Events cannot be replaced."""
    return PlanError("Events of a stream are not overwritten. Say mode('append').")


def store_failed(url: str, cause: BaseException) -> StoreFailedError:
    """The database of a store did not do what it was asked."""
    reason = str(cause).strip().partition("\n")[0].removesuffix(".") or type(cause).__name__
    return StoreFailedError(
        f"The store {without_password(url)} failed: {without_password(reason)}. What was under way was done "
        "completely or not at all. Check that the database is up, that its disk is not full, and what its log says."
    )


def old_sqlite(found: str, needed: str) -> PlanError:
    """SQLite without RETURNING."""
    return PlanError(f"This Python has SQLite {found}; marks need {needed} or newer. Use a newer Python.")


def no_postgres_driver() -> PlanError:
    """The optional package is not installed."""
    return PlanError("A store for marks in PostgreSQL needs psycopg 3: pip install 'pyspark-eventide[postgres]'")


def no_file(url: str) -> PlanError:
    """An SQLite database that no one else can see."""
    return PlanError(
        f"{url!r} names no file, and a database in memory is gone with its connection. Name a file: sqlite:///shop.db "
        "is relative, sqlite:////var/lib/shop.db absolute."
    )


def not_on_spark(stream: str, column: str, dtype: Any) -> PlanError:
    """A column that Spark has no type for."""
    return PlanError(f"Spark has no type for column {column!r} of stream {stream!r} ({dtype}). Cast it when writing.")


def no_time(column: str, dtype: Any) -> PlanError:
    """A column of times that holds something else."""
    return PlanError(f"option('note', {column!r}): it must be a timestamp or microseconds, not {dtype}.")


def replaced_query(writer: str, stream: str) -> DataError:
    """A query that writes under the id of another one."""
    return DataError(
        f"Another query has written to stream {stream!r} as {writer!r} since. Give each query a writer_id of its own."
    )


def damaged_events(stream: str, segment: int, offset: int, rows: int, cause: str) -> DataError:
    """Stored bytes that are no events."""
    behind = f"{{{segment}: {offset + max(rows, 1)}}}"
    return DataError(
        f"Stream {stream!r}, segment {segment}, offset {offset}: {rows} events cannot be read: {cause}. "
        f"Restore the store from a copy, or go on behind them: ReaderGroup.reset with {behind} among its offsets."
    )

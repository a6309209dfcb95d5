"""Errors of marks, and the messages that several of its modules raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eventide._databases import without_password
from eventide.errors import DataError, EventideError, PlanError, did_you_mean, shown
from eventide.time import format_instant


class UnreachableError(EventideError):
    """A controller does not respond. The call is in doubt: it may have been executed."""


class TooLargeError(PlanError):
    """A request exceeds the size limit of a controller. It had no effect."""


class UnknownStreamError(PlanError):
    """No stream has this name."""


class ConflictError(PlanError):
    """The name or id is already in use."""


class SegmentSealedError(EventideError):
    """A segment was sealed before the append. Nothing was appended; route the events again."""


class WriterFencedError(EventideError):
    """A newer writer with the same id has taken over.

    >>> import pyarrow as pa
    >>> from eventide.marks import Reader, Stream, Writer
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> old = Writer(Stream(store, "orders"), "till-1")
    >>> new = Writer(Stream(store, "orders"), "till-1", take_over=True)
    >>> old.append([{"shop": "kiel"}])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    eventide.marks.errors.WriterFencedError: ...
    """


class StoreFailedError(DataError):
    """The database of a store failed. The call is in doubt: it may have been executed."""


class TransactionEndedError(DataError):
    """A transaction has already ended, with another outcome than requested."""


class LeaseLostError(EventideError):
    """Another controller owns the stream now."""


class SegmentsLostError(EventideError):
    """Segments of this reader were reassigned before it committed what it had read."""


class ReaderReplacedError(EventideError):
    """The reader is no longer a member of its group: its id was taken over, or the group was reset.

    >>> import pyarrow as pa
    >>> from eventide.marks import Reader, Stream, Writer
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()})))
    >>> old = Reader(Stream(store, "orders"), reader_id="reader-1")
    >>> new = Reader(Stream(store, "orders"), reader_id="reader-1")
    >>> old.read()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    eventide.marks.errors.ReaderReplacedError: ...
    """


def wrong_type(what: str, value: object, hint: Any) -> PlanError:
    """An argument of the wrong type."""
    kind = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "").replace("collections.abc.", "")
    return PlanError(f"{what} is {str(value)[:50]!r}, but it must be of type {kind}.")


def unreadable(what: str, path: object, cause: object) -> PlanError:
    """A file that cannot be read."""
    return PlanError(f"{what} {path} cannot be read: {cause}.")


def unknown_stream(name: str, streams: Iterable[str]) -> UnknownStreamError:
    """A name that no stream has."""
    return UnknownStreamError(
        f"There is no stream {name!r}. {did_you_mean(name, streams)} Create it with marks.create_stream(), "
        "or in a shell with: eventide marks create."
    )


def stream_exists(name: str) -> ConflictError:
    """A name that a stream already has."""
    return ConflictError(
        f"There is a stream {name!r} already. Open it (in Python: marks.open_stream()), or choose another name."
    )


def unknown_segment(number: int, open_segments: Sequence[int]) -> PlanError:
    """A number that no segment has."""
    return PlanError(f"There is no segment {number}. Open are: {', '.join(map(str, open_segments))}.")


def unknown_columns(names: Sequence[str], columns: Sequence[str]) -> PlanError:
    """Events with columns that the stream does not have."""
    return PlanError(f"The stream has no column {names[0]!r}. {did_you_mean(names[0], columns)}")


def stream_sealed(stream: str) -> PlanError:
    """An append to a sealed stream."""
    return PlanError(f"Stream {stream!r} has ended; it accepts no more events.")


def writer_fenced(stream: str, writer: str) -> WriterFencedError:
    """A writer that a newer one with the same id has fenced off."""
    return WriterFencedError(
        f"Another writer {writer!r} has taken over at stream {stream!r}. Stop this one: an id belongs to one writer."
    )


def writer_in_use(stream: str, writer: str, until: int) -> ConflictError:
    """A writer id whose lease has not expired."""
    return ConflictError(
        f"Writer id {writer!r} is in use at stream {stream!r}. Its lease expires at {format_instant(until)}. Choose "
        "another writer_id, or pass take_over=True if that writer is gone."
    )


def truncated(stream: str, segment: int, offset: int, start: int) -> DataError:
    """A read of events that were truncated."""
    return DataError(
        f"Segment {segment} of stream {stream!r} was truncated: it begins at offset {start} now, and {offset} was "
        "requested. Start at 'earliest', or at a later position."
    )


def lease_lost(stream: str, owner: str) -> LeaseLostError:
    """A controller that no longer owns a stream."""
    return LeaseLostError(f"Controller {owner!r} has lost its lease on stream {stream!r} to another controller.")


def position_beyond(stream: str, segment: int, offset: int, length: int) -> PlanError:
    """A position beyond the end of a segment."""
    return PlanError(
        f"Segment {segment} of stream {stream!r} has {length} events; a position at offset {offset} is beyond them."
    )


def transaction_ended(id_: str, status: str) -> TransactionEndedError:
    """A transaction that can no longer be committed or aborted."""
    if status == "committed":
        return TransactionEndedError(
            f"Transaction {id_} was committed: its events are stored. Do not write them again."
        )
    reasons = {
        "aborted": "was aborted",
        "expired": "was not committed in time and has been aborted",
        "unknown": "is not known",
    }
    return TransactionEndedError(f"Transaction {id_} {reasons[status]}. Write its events again in a new transaction.")


def not_a_cut(stream: str, position: Mapping[int, int]) -> PlanError:
    """A position that does not cover the key space."""
    return PlanError(f"{dict(position)} is not a cut of stream {stream!r}: it must cover each key exactly once.")


def bad_segments(value: object) -> PlanError:
    """An invalid number of segments."""
    return PlanError(f"create_stream(segments={shown(value)}): it must be a whole number, 1 or more.")


def unknown_store(url: str) -> PlanError:
    """A URL that no store has."""
    return PlanError(
        f"{without_password(url)!r} is not a store for marks. Use sqlite:///file.db, postgresql://user@host/database, "
        "or the address of a controller (https://…)."
    )


def reserved_column(stream: str, name: str) -> PlanError:
    """A column of events that readers add themselves."""
    return PlanError(f"The events of stream {stream!r} have a column {name!r}, which readers add. Rename it.")


def invalid_name(what: str, value: object) -> PlanError:
    """An id that is not a non-empty string."""
    return PlanError(f"{what}={shown(value)}: it must be a non-empty string.")

"""Messages of writers and their transactions."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.controller import TooLargeError
from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.marks import SeatTakenError
from eventide.errors.values import shown


def unknown_noting(value: object) -> PlanError:
    """Neither of the ways to note time."""
    return PlanError(
        f"Writer(note_time={shown(value)}): it must be 'manual' (you call note_time()) or 'auto' (wall clock)."
    )


def not_a_writer_id(value: object) -> PlanError:
    """An id that is no text."""
    return PlanError(
        f"Writer(writer_id={shown(value)}): it must be a text that is not empty, the same after each restart."
    )


def auto_without_id() -> PlanError:
    """Noting by the clock without a name to note under."""
    return PlanError("Writer(note_time='auto') needs a writer_id: time is noted under it, also after a restart.")


def bad_batch_rows(value: object) -> PlanError:
    """No number of rows."""
    return PlanError(f"Writer(batch_rows={shown(value)}): it must be a whole number, 1 or more.")


def unknown_routing_column(name: str, known: Sequence[str]) -> PlanError:
    """A routing key that no event has."""
    return PlanError(f"Writer(routing_key={name!r}): the stream has no such column. {did_you_mean(name, known)}")


def not_a_routing_key(value: object) -> PlanError:
    """A key of one event that is no text."""
    return PlanError(
        f"write(routing_key={shown(value)}): the key of one event must be a text. To route by a "
        "column of another type, "
        "name it once: Writer(…, routing_key='column')."
    )


def not_an_event(value: object) -> PlanError:
    """Something else than a mapping."""
    return PlanError(f"write() takes one event as a dict, not {type(value).__name__}. For many at once use append().")


def bad_event(event: object, kept: int, cause: object) -> PlanError:
    """One event among many that does not fit."""
    return PlanError(f"The event {event!r} was not taken: {cause} The other {kept} that were written are kept.")


def too_large_to_send(count: int, cause: TooLargeError) -> TooLargeError:
    """Events that no request can hold."""
    which = "1 event that was written was" if count == 1 else f"{count} events that were to be stored together were"
    return TooLargeError(f"{which} not taken: {cause} What else was written is kept.")


def time_beyond(time: int) -> PlanError:
    """A number that is no time of an event."""
    return PlanError(
        f"{time} is not a time to note: it is beyond all that events can have. Give microseconds since the epoch; at "
        "the end of a stream, say stream.seal()."
    )


def note_without_id(stream: str) -> PlanError:
    """Time from a writer without a name."""
    return PlanError(
        f"This writer at stream {stream!r} has no writer_id, so it cannot note time: nobody could tell, after a "
        "restart, whose time it was. Make it with Writer(stream, 'some id')."
    )


def note_by_hand(writer: str) -> PlanError:
    """A time given to a writer that notes the clock."""
    return PlanError(
        f"Writer {writer!r} notes the wall clock by itself (note_time='auto'); a time of your own would contradict "
        "it. Leave the time out, or make the writer with note_time='manual'."
    )


def note_without_write(stream: str, writer: str) -> PlanError:
    """A time before any event."""
    return PlanError(
        f"Writer {writer!r} has not written to stream {stream!r} yet, so it has no position that a time could belong "
        "to. Write first; if there really is nothing before that time, say note_time(time, nothing_written=True)."
    )


def mixed_numbering(writer: str, own: bool) -> PlanError:
    """Batches with numbers of the user among batches without."""
    before = "append(…, sequence=…)" if own else "write(), or append() without sequence"
    return PlanError(
        f"Writer {writer!r} has used {before} before. Numbers of yours and automatic ones would get in each other's "
        "way, and batches would be skipped: use one of them only, or two writer ids."
    )


def bad_sequence(value: object) -> PlanError:
    """No number of a batch."""
    return PlanError(f"append(sequence={shown(value)}): it must be a whole number, from 1 to 2**62 - 1, that grows.")


def writer_closed(stream: str, writer: str) -> PlanError:
    """A call after the end."""
    return PlanError(f"Writer {writer!r} at stream {stream!r} is closed. Make a new one.")


def writer_forked(stream: str, writer: str) -> PlanError:
    """A copy of a writer in another process."""
    return PlanError(
        f"Writer {writer!r} at stream {stream!r} was made before this process was forked. Two of it would use the same "
        "numbers, and events would be lost. Make a writer of its own, with another id, in each process."
    )


def unsent(writer: str, count: int) -> str:
    """What has become of events that could not be sent, to be added to the error that prevented it."""
    return (
        f"{count} events of writer {writer!r} are not known to be stored. They are kept, in order, in writer.unsent; "
        "the next flush() sends them again, and none is stored twice. Do not write them again."
    )


def replaced(cause: SeatTakenError, count: int) -> SeatTakenError:
    """A writer that must stop, and what it still holds."""
    held = f"{count} events that it had not sent are in writer.unsent." if count else "Nothing was left unsent."
    return SeatTakenError(f"{cause} {held}")


def transaction_used(id_: str, status: str) -> DataError:
    """A call to a transaction that is over."""
    return DataError(f"Transaction {id_} was {status} already. Begin a new one: writer.begin().")


def unsure_commit(writer: str, id_: str) -> DataError:
    """A time that may, or may not, cover a transaction."""
    return DataError(
        f"Writer {writer!r} cannot note time now: the commit of transaction {id_} was not answered, so nobody knows "
        "whether its events are written. commit() it again, or abort() it, first."
    )


def unsure_append(writer: str, sequence: int) -> DataError:
    """A time that may, or may not, cover a batch."""
    return DataError(
        f"Writer {writer!r} cannot note time now: append(sequence={sequence}) was not answered, so nobody knows "
        "whether its events are written. Send them again under that number first; to give them up, send the next batch."
    )

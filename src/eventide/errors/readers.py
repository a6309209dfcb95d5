"""Messages of readers and groups of them."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import DataError, EventideError, PlanError
from eventide.errors.values import shown


class SegmentsLostError(EventideError):
    """Others read segments now that this reader had read from, before it committed that."""


class ReaderReplacedError(EventideError):
    """The reader is not part of its group any more: another has its id, or the group was set back."""


def segments_lost(group: str, reader: str, segments: Sequence[int]) -> SegmentsLostError:
    """A commit that came too late for some segments."""
    which = f"segment {segments[0]}" if len(segments) == 1 else f"segments {', '.join(map(str, segments))}"
    return SegmentsLostError(
        f"Reader {reader!r} of group {group!r} has lost {which}: its lease ran out before it committed what it had "
        "read there, and that will be read again. Its other segments are committed. Keep what you do with a batch "
        "apart by (_segment, _offset), commit more often, or choose a longer reader_lease."
    )


def reader_replaced(group: str, reader: str) -> ReaderReplacedError:
    """Two readers of the same id."""
    return ReaderReplacedError(
        f"Another reader {reader!r} has joined group {group!r}. This one must stop; each reader_id belongs to one."
    )


def group_was_reset(group: str, reader: str) -> ReaderReplacedError:
    """A reader of the time before ``reset()``."""
    return ReaderReplacedError(
        f"Group {group!r} was reset or deleted. What reader {reader!r} read since is void; open a new one."
    )


def reader_closed(group: str, reader: str) -> PlanError:
    """A call after the end."""
    return PlanError(f"Reader {reader!r} of group {group!r} is closed. Make a new one.")


def reader_forked(group: str, reader: str) -> PlanError:
    """A copy of a reader in another process."""
    return PlanError(
        f"Reader {reader!r} of group {group!r} was made before this process was forked. Two of it would read the same "
        "segments. Make a reader of its own, with another id, in each process."
    )


def unknown_group(stream: str, group: str) -> PlanError:
    """A group that nobody has joined."""
    return PlanError(
        f"There is no group {group!r} at stream {stream!r} yet. Reader(stream, group={group!r}) makes it, and so does "
        "ReaderGroup.reset()."
    )


def unknown_start(value: object) -> PlanError:
    """No place to begin."""
    return PlanError(
        f"{shown(value)} is not a place to begin: say 'earliest', 'latest', or give a cut such as {{0: 120}}."
    )


def bad_rows(value: object) -> PlanError:
    """No number of rows."""
    return PlanError(f"read(rows={shown(value)}): it must be a whole number, 1 or more.")


def not_a_name(what: str, value: object) -> PlanError:
    """An id that is no text."""
    return PlanError(f"{what}={shown(value)}: it must be a text that is not empty.")


def reserved_columns(stream: str, names: Sequence[str]) -> PlanError:
    """Columns of events that a reader adds itself."""
    return PlanError(
        f"Stream {stream!r} has a column {names[0]!r}, which readers add to say where an event lies. Its events can "
        "be read only if it has another name."
    )


def other_group_format(group: str, found: object, known: int) -> DataError:
    """A group that another version keeps."""
    return DataError(
        f"Group {group!r} was written by another version of Eventide (format {found}; this one knows {known}). Use "
        "that version, or another group."
    )

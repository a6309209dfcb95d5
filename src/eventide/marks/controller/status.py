"""What a controller knows of its streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eventide.marks.mark import Mark, NoteColumns
from eventide.marks.merging import alive
from eventide.marks.stores.store import Store


@dataclass(frozen=True)
class StreamStatus:
    """One stream. Writers are by name, sorted; a stream whose ``live`` ones are all ahead of its mark goes on."""

    stream: str
    mark: Mark | None
    lag: int | None
    """How far the lower time of the last mark is behind the store's clock, in microseconds."""
    live: tuple[str, ...]
    silent: tuple[str, ...]
    """Said nothing for the stream's ``writer_timeout``: time goes on without them."""
    closed: tuple[str, ...]
    failure: str | None
    """Why the last round could not make its mark, if it could not."""


@dataclass(frozen=True)
class Status:
    """A controller, all that are alive, and the streams of this one."""

    controller: str
    controllers: tuple[str, ...]
    streams: tuple[StreamStatus, ...]


def stream_status(store: Store, stream: str, failure: str | None) -> StreamStatus:
    """What a store knows of the time of a stream."""
    notes, mark, now = store.note_columns(stream), store.last_mark(stream), store.now()
    live = alive(notes, store.stream(stream).config.writer_timeout, now)
    return StreamStatus(
        stream,
        mark,
        None if mark is None else max(0, now - mark.lower),
        _named(notes, live),
        _named(notes, ~live & ~notes.closed),
        _named(notes, notes.closed),
        failure,
    )


def _named(notes: NoteColumns, which: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted(notes.writers[row] for row in np.flatnonzero(which).tolist()))

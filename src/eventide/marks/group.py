"""Groups of readers: a stream read by several, each event by one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from eventide.errors import marks as stream_errors
from eventide.errors import readers as errors
from eventide.marks.sharing import Sharing, as_bytes, from_bytes
from eventide.marks.streams import Stream, open_stream

Start: TypeAlias = "Literal['earliest', 'latest'] | Mapping[int, int] | Mapping[str, int]"
"""Where to begin: at the first event that is still there, after the last one, or at a cut."""


class ReaderGroup:
    """Readers that share the segments of a stream. Its state is in the store, where all of them change it together.

    >>> import pyarrow as pa
    >>> from eventide.marks import Reader, Stream
    >>> from eventide.marks.stores.memory import MemoryStore
    >>> from eventide.marks.stores.store import Config
    >>> store = MemoryStore()
    >>> _ = store.create_stream("orders", Config(schema=pa.schema({"shop": pa.string()}), segments=2))
    >>> reader = Reader(Stream(store, "orders"), "billing", "one")
    >>> group = ReaderGroup(Stream(store, "orders"), "billing")
    >>> group.checkpoint(), group.readers()
    ({0: 0, 1: 0}, {'one': [0, 1]})
    """

    def __init__(self, stream: str | Stream, name: str = "default", *, token: str | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise errors.not_a_name("group", name)
        self.stream = stream if isinstance(stream, Stream) else open_stream(stream, token=token)
        self.name = name
        self._own_store = isinstance(stream, str)

    def close(self) -> None:
        """Let go of the store, if it was opened for this group."""
        if self._own_store:
            self.stream.store.close()

    def checkpoint(self) -> dict[int, int]:
        """What the whole group has read and committed: a cut, for ``reset()`` or ``Reader(start=)``."""
        return dict(self.state().cut)

    def reset(self, start: Start) -> None:
        """Go on at another place. Readers of the time before are refused when they read or commit next."""
        cut = self.cut_of(start)
        if not self._begun(cut):
            self.change(lambda group: group.reset(cut))

    def readers(self) -> dict[str, list[int]]:
        """Who reads which segments; a reader that is dead is in it until another one has noticed."""
        group = self.state()
        return {member.name: group.holds(number) for number, member in group.members.items()}

    def delete(self) -> None:
        """Forget the group."""
        self.stream.store.delete_group(self.stream.name, self.name)

    def state(self) -> Sharing:
        """What its readers know together. Refused if there is no such group."""
        return self._found()[1]

    def change(self, become: Callable[[Sharing], Sharing]) -> Sharing:
        """What has become of the state. ``become`` is called again if another reader was faster."""
        while True:
            version, before = self._found()
            after = become(before)
            if after == before or self.stream.store.put_group(self.stream.name, self.name, version, as_bytes(after)):
                return after

    def begin(self, start: Start) -> None:
        """Make the group, if there is none."""
        if self.stream.store.group(self.stream.name, self.name) is None:
            self._begun(self.cut_of(start))

    def _begun(self, cut: Mapping[int, int]) -> bool:
        store, now = self.stream.store, self.stream.store.now()
        # Numbers begin at the clock: those of a group that was deleted, or of a stream, are not used again.
        return store.put_group(self.stream.name, self.name, 0, as_bytes(Sharing(cut, last=now, resets=now)))

    def _found(self) -> tuple[int, Sharing]:
        found = self.stream.store.group(self.stream.name, self.name)
        if found is None:
            raise errors.unknown_group(self.stream.name, self.name)
        version, state = found
        return version, from_bytes(self.name, state)

    def cut_of(self, start: Start) -> dict[int, int]:
        """Where that is, in this stream as it is now."""
        info = self.stream.info()
        if start == "earliest":
            return info.segments.least_cut(info.starts)
        lengths = self.stream.store.lengths(self.stream.name)
        if start == "latest":
            return {one.number: lengths[one.number] for one in info.segments.open}
        if not isinstance(start, Mapping):
            raise errors.unknown_start(start)
        try:  # JSON knows keys of text only
            cut = {int(number): int(offset) for number, offset in start.items()}
        except (TypeError, ValueError):
            raise errors.unknown_start(start) from None
        if not info.segments.is_cut(cut):
            raise stream_errors.not_a_cut(self.stream.name, cut)
        for number, offset in cut.items():
            if not 0 <= offset <= lengths[number]:
                raise stream_errors.position_beyond(self.stream.name, number, offset, lengths[number])
        return dict(sorted(cut.items()))

"""The watermarks of an operator with several inputs: one tracker for each, and the time that all of them have reached.

Inputs whose watermarks have the same key are waited for together. An input that is idle is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventide.errors import joins as errors
from eventide.time import MAX, MIN, earliest
from eventide.watermarks.coalescer import ABSENT, DONE, IDLE, Coalescer, Marks
from eventide.watermarks.standing import SHOWN, Metrics, OriginGap, Standing
from eventide.watermarks.strategies import Strategy
from eventide.watermarks.tracker import Tracker
from eventide.watermarks.watermark import InputEnd, InputIdle, InputWatermark, Note, Watermark


class Trackers:
    """The trackers of named inputs. As a ``Tracker``, but ``advance`` takes one summary for each input.

    >>> from eventide.watermarks.strategies import ascending
    >>> strategy = ascending()
    >>> both = Trackers({"orders": strategy, "returns": strategy}, key=0)
    >>> rows = [strategy.summarise(pl.DataFrame({"ts": times}), "ts", now=0) for times in ([30], [10])]
    >>> both.advance(rows, now=0).time, both.times
    (10, (30, 10))
    """

    def __init__(self, strategies: Mapping[str, Strategy], *, key: int) -> None:
        self.names = tuple(strategies)
        self.key = key
        self._inputs = [Tracker(strategy) for strategy in strategies.values()]
        self._all = Coalescer(len(self._inputs), on_back="clamp", name=self.names.__getitem__)

    def advance(
        self, summaries: Sequence[pl.DataFrame], now: int, *, polled: bool = True, notes: Sequence[Note] = ()
    ) -> Standing:
        """Take in what a batch saw of each input at time ``now``.

        A retired input takes part again with its next row; a row of an input that has ended is an error.
        """
        silent = {note.input for note in notes if isinstance(note, InputIdle)}
        idle: list[int] = []
        awake: list[int] = []
        marks: list[Marks] = []
        for edge, (name, tracker, summary) in enumerate(zip(self.names, self._inputs, summaries, strict=True)):
            with errors.naming_input(name):
                standing = tracker.advance(summary, now, polled=polled, notes=_addressed_to(name, tracker.key, notes))
            if self._all.standing()[edge] in (ABSENT, DONE) and not _has_rows(summary):
                continue
            (idle if standing.idle or name in silent else awake).append(edge)
            if standing.time > MIN:
                marks.append(Marks(tracker.key, np.array([edge]), np.array([standing.time])))
        ended = [self.names.index(note.input) for note in notes if isinstance(note, InputEnd)]
        messages = self._all.step(
            events=np.array(awake, np.int64), marks=marks, idle=np.array(idle, np.int64), done=np.array(ended, np.int64)
        )
        for note in notes:  # also where an input has no watermark of this key at all
            messages += self._all.raise_to(note) if isinstance(note, Watermark) else []
        return Standing(self.time, self.idle, tuple(messages))

    @property
    def time(self) -> int:
        """What all inputs have reached."""
        return self._all.time(self.key)

    def time_of(self, key: int) -> int:
        """What all inputs have reached, of another watermark key."""
        return self._all.time(key)

    @property
    def times(self) -> tuple[int, ...]:
        """What each input has reached."""
        return tuple(tracker.time for tracker in self._inputs)

    @property
    def reached(self) -> tuple[int, ...]:
        """What each input has reached; one that is silent is taken as far as the others with the same watermark key."""
        return tuple(max(tracker.time, self._all.time(tracker.key)) for tracker in self._inputs)

    @property
    def keys(self) -> tuple[int, ...]:
        """The watermark key of each input."""
        return tuple(tracker.key for tracker in self._inputs)

    @property
    def idle(self) -> bool:
        """Whether all inputs are silent."""
        return self._all.all_idle()

    def next_deadline(self) -> int | None:
        """The earliest batch time at which silence of an input alone changes something."""
        return earliest(tracker.next_deadline() for tracker in self._inputs)

    @property
    def ended(self) -> tuple[str, ...]:
        """The inputs that have ended."""
        return tuple(self.names[edge] for edge in np.flatnonzero(self._all.standing() == DONE))

    @property
    def silent(self) -> frozenset[str]:
        """The inputs that are not waited for, although they have not ended: idle ones, and those that were retired."""
        return frozenset(self.names[edge] for edge in np.flatnonzero(np.isin(self._all.standing(), (IDLE, ABSENT))))

    def retire(self, origin: object) -> bool:
        """Stop waiting for an origin: of one input (``left: 0``, as metrics name it), or of all that know it.

        The name of an input stands for its rows without an origin, or else for the whole input. False: it is not known.
        """
        if sum(tracker.retire(own) for tracker, own in self._addressed(origin)) > 0:
            return True
        edge = self.names.index(origin) if origin in self.names else None
        if edge is None or self._all.standing()[edge] in (ABSENT, DONE):
            return False
        self._all.leave(edge)
        return True

    def skip(self, origin: object = None, *, up_to: int | None = None) -> bool:
        """Count an origin's missing sequences as seen; of one input, or of all. False: nothing is missing."""
        return sum(tracker.skip(own, up_to=up_to) for tracker, own in self._addressed(origin)) > 0

    def lower(self, mark: Watermark) -> None:
        """Lower the watermark of all inputs with this key, and what they have reached together."""
        for tracker in self._inputs:
            tracker.lower(mark)
        self._all.lower_to(mark)

    def knows(self, origin: object = None) -> bool:
        """Return whether a command may name this origin: of one input, or of any. Inputs may be named too."""
        return origin in self.names or any(tracker.knows(name) for tracker, name in self._addressed(origin))

    def takes(self, to: int | str | None) -> bool:
        """Return whether a watermark may be addressed to this: a key, an input, or (None) what time goes by."""
        return to is None or to in self.names or to in self.keys

    def _addressed(self, origin: object) -> list[tuple[Tracker, object]]:
        """The trackers that are meant, and what they call the origin."""
        for name, tracker in zip(self.names, self._inputs, strict=True):
            if origin == name:
                return [(tracker, None)]
            if str(origin).startswith(f"{name}: "):
                return [(tracker, str(origin).removeprefix(f"{name}: "))]
        return [(tracker, origin) for tracker in self._inputs]

    def at(self, edge: int) -> Tracker:
        """The tracker of one input."""
        return self._inputs[edge]

    def copy(self) -> Trackers:
        """An independent copy."""
        twin = Trackers.__new__(Trackers)
        twin.names, twin.key = self.names, self.key
        twin._inputs = [tracker.copy() for tracker in self._inputs]
        twin._all = self._all.copy()
        return twin

    def metrics(self) -> Metrics:
        """What to show: of all inputs, each origin under its input's name."""
        known = {name: tracker.metrics() for name, tracker in zip(self.names, self._inputs, strict=True)}
        waiting = self._all.waited_for(self.key)
        behind = min(waiting, key=lambda edge: self._inputs[edge].time, default=None)
        name = None if behind is None else self.names[behind]
        return Metrics(
            watermark=self.time,
            least_origin=None if name is None else _within(name, known[name].least_origin),
            origins=sum(one.origins for one in known.values()),
            idle_origins=tuple(
                _within(name, origin)
                for (name, one), tracker in zip(known.items(), self._inputs, strict=True)
                for origin in one.idle_origins or ((None,) if tracker.idle else ())
            ),
            gaps=tuple(
                OriginGap(_within(name, gap.origin), gap.first, gap.last, gap.since)
                for name, one in known.items()
                for gap in one.gaps
            ),
            slowest=_slowest(known),
            renumbered_origins=tuple(
                _within(name, origin) for name, one in known.items() for origin in one.renumbered_origins
            ),
        )

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as plain data."""
        return {"inputs": [tracker.snapshot() for tracker in self._inputs], "all": self._all.snapshot()}

    @classmethod
    def restore(cls, strategies: Mapping[str, Strategy], snapshot: dict[str, Any], *, key: int) -> Trackers:
        """Trackers that go on where the snapshot was taken."""
        trackers = cls(strategies, key=key)
        trackers._inputs = [
            Tracker.restore(strategy, known)
            for strategy, known in zip(strategies.values(), snapshot["inputs"], strict=True)
        ]
        trackers._all.restored(snapshot["all"])
        return trackers


AnyTracker: TypeAlias = Tracker | Trackers


def _has_rows(summary: pl.DataFrame) -> bool:
    """Whether an input has sent rows, or says how far its segments have been read."""
    return bool(summary.select(((pl.col("rows") > 0) | pl.col("chunk_until").is_not_null()).any()).item())


def _addressed_to(name: str, key: int, notes: Sequence[Note]) -> list[Note]:
    """What notes say to one input, in their order."""
    own: list[Note] = []
    for note in notes:
        if isinstance(note, InputWatermark | InputEnd):
            if note.input == name:
                own.append(Watermark(key, note.time if isinstance(note, InputWatermark) else MAX))
        else:
            own.append(note)
    return own


def _within(name: str, origin: str | None) -> str:
    return name if origin is None else f"{name}: {origin}"


def _slowest(known: Mapping[str, Metrics]) -> tuple[tuple[str | None, int], ...]:
    times = [(_within(name, origin), time) for name, one in known.items() for origin, time in one.slowest]
    return tuple(sorted(times, key=lambda one: one[1])[:SHOWN])

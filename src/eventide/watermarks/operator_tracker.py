"""The watermark of an operator with several inputs: a tracker for each input, and the least watermark of all.

Inputs whose watermarks have the same key are waited for together. An idle input is not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from eventide.time import MAX, MIN, earliest
from eventide.watermarks.coalescer import ABSENT, DONE, IDLE, Coalescer, InputWatermarks
from eventide.watermarks.errors import naming_input
from eventide.watermarks.status import SHOWN, OriginGap, WatermarkMetrics, WatermarkStatus
from eventide.watermarks.strategies import Strategy
from eventide.watermarks.tracker import InputTracker
from eventide.watermarks.watermark import CutTracker, InputEnd, InputIdle, InputWatermark, Note, Watermark


class OperatorTracker:
    """The trackers of named inputs. Like ``InputTracker``, but ``advance`` takes a summary for each input.

    >>> from eventide.watermarks import ascending
    >>> strategy = ascending()
    >>> both = OperatorTracker({"orders": strategy, "returns": strategy}, key=0)
    >>> rows = [strategy.summarise(pl.DataFrame({"ts": times}), "ts", now=0) for times in ([30], [10])]
    >>> both.advance(rows, now=0).time, both.times
    (10, (30, 10))
    """

    def __init__(self, strategies: Mapping[str, Strategy], *, key: int) -> None:
        self.names = tuple(strategies)
        self.key = key
        self._inputs = [InputTracker(strategy) for strategy in strategies.values()]
        self._all = Coalescer(len(self._inputs), on_back="clamp", name=self.names.__getitem__)

    def advance(
        self, summaries: Sequence[pl.DataFrame], now: int, *, polled: bool = True, notes: Sequence[Note] = ()
    ) -> WatermarkStatus:
        """Apply the summaries of a batch at time ``now``, one for each input.

        A retired input takes part again with its next row; a row of an input that has ended is an error.
        """
        noted_idle = {note.input for note in notes if isinstance(note, InputIdle)}
        idle: list[int] = []
        awake: list[int] = []
        marks: list[InputWatermarks] = []
        for edge, (name, tracker, summary) in enumerate(zip(self.names, self._inputs, summaries, strict=True)):
            with naming_input(name):
                status = tracker.advance(summary, now, polled=polled, notes=_addressed_to(name, tracker.key, notes))
            if self._all.status()[edge] in (ABSENT, DONE) and not _has_rows(summary):
                continue
            (idle if status.idle or name in noted_idle else awake).append(edge)
            if status.time > MIN:
                marks.append(InputWatermarks(tracker.key, np.array([edge]), np.array([status.time])))
        ended = [self.names.index(note.input) for note in notes if isinstance(note, InputEnd)]
        messages = self._all.step(
            events=np.array(awake, np.int64), marks=marks, idle=np.array(idle, np.int64), done=np.array(ended, np.int64)
        )
        for note in notes:  # also where an input has no watermark of this key at all
            messages += self._all.raise_to(note) if isinstance(note, Watermark) else []
        return WatermarkStatus(self.time, self.idle, tuple(messages))

    @property
    def time(self) -> int:
        """The least watermark of all inputs."""
        return self._all.time(self.key)

    def time_of(self, key: int) -> int:
        """The least watermark of all inputs, of another watermark key."""
        return self._all.time(key)

    @property
    def times(self) -> tuple[int, ...]:
        """The watermark of each input."""
        return tuple(tracker.time for tracker in self._inputs)

    @property
    def effective_times(self) -> tuple[int, ...]:
        """The watermark of each input; that of an idle one is at least the least of the others with the same key."""
        return tuple(max(tracker.time, self._all.time(tracker.key)) for tracker in self._inputs)

    @property
    def keys(self) -> tuple[int, ...]:
        """The watermark key of each input."""
        return tuple(tracker.key for tracker in self._inputs)

    @property
    def idle(self) -> bool:
        """Whether all inputs are idle."""
        return self._all.all_idle()

    def next_deadline(self) -> int | None:
        """The earliest batch time at which the mere absence of rows has an effect."""
        return earliest(tracker.next_deadline() for tracker in self._inputs)

    @property
    def ended_inputs(self) -> tuple[str, ...]:
        """The inputs that have ended."""
        return tuple(self.names[edge] for edge in np.flatnonzero(self._all.status() == DONE))

    @property
    def idle_inputs(self) -> frozenset[str]:
        """The inputs that are not waited for and have not ended: idle and retired ones."""
        return frozenset(self.names[edge] for edge in np.flatnonzero(np.isin(self._all.status(), (IDLE, ABSENT))))

    def retire(self, origin: object) -> bool:
        """Stop waiting for an origin: of one input (``left: 0``, as metrics name it), or of all inputs that have it.

        The name of an input means its rows without an origin, or else the whole input. Return whether it was waited
        for.
        """
        if sum(tracker.retire(name) for tracker, name in self._addressed(origin)) > 0:
            return True
        edge = self.names.index(origin) if origin in self.names else None
        if edge is None or self._all.status()[edge] in (ABSENT, DONE):
            return False
        self._all.leave(edge)
        return True

    def skip_gap(self, origin: object = None, *, up_to: int | None = None) -> bool:
        """Count an origin's missing sequences as seen, of one input or of all. Return whether any was missing."""
        return sum(tracker.skip_gap(name, up_to=up_to) for tracker, name in self._addressed(origin)) > 0

    def lower_to(self, mark: Watermark) -> None:
        """Lower the watermark of all inputs with this key, and their least watermark."""
        for tracker in self._inputs:
            tracker.lower_to(mark)
        self._all.lower_to(mark)

    def has_origin(self, origin: object = None) -> bool:
        """Whether a command may name this origin, of one input or of any, or this input."""
        return origin in self.names or any(tracker.has_origin(name) for tracker, name in self._addressed(origin))

    def accepts(self, to: int | str | None) -> bool:
        """Whether a watermark may be addressed to this operator: by a key, by an input, or without an address."""
        return to is None or to in self.names or to in self.keys

    def _addressed(self, origin: object) -> list[tuple[InputTracker, object]]:
        """The trackers that an origin may belong to, and its name there."""
        for name, tracker in zip(self.names, self._inputs, strict=True):
            if origin == name:
                return [(tracker, None)]
            if str(origin).startswith(f"{name}: "):
                return [(tracker, str(origin).removeprefix(f"{name}: "))]
        return [(tracker, origin) for tracker in self._inputs]

    def input(self, edge: int) -> InputTracker:
        """The tracker of an input."""
        return self._inputs[edge]

    def reached(self) -> dict[str, Any]:
        """The watermarks of all inputs without the origins that they follow from, as plain data for ``at``."""
        whole = self._all.snapshot()
        inputs = [tracker.reached() for tracker in self._inputs]
        return {"inputs": inputs, "all": whole | {"inputs": whole["inputs"].to_dict(as_series=False)}}

    def at(self, reached: Mapping[str, Any]) -> OperatorTracker:
        """A tracker without origins that has reached what another has."""
        tracker = OperatorTracker.__new__(OperatorTracker)
        tracker.names, tracker.key = self.names, self.key
        tracker._inputs = [each.at(part) for each, part in zip(self._inputs, reached["inputs"], strict=True)]
        whole = reached["all"]
        inputs = pl.DataFrame(whole["inputs"], schema_overrides={"status": pl.Int8})
        tracker._all = Coalescer(len(self._inputs), on_back="clamp", name=self.names.__getitem__)
        tracker._all.restore({**whole, "inputs": inputs})
        return tracker

    def copy(self) -> OperatorTracker:
        """An independent copy."""
        twin = OperatorTracker.__new__(OperatorTracker)
        twin.names, twin.key = self.names, self.key
        twin._inputs = [tracker.copy() for tracker in self._inputs]
        twin._all = self._all.copy()
        return twin

    def metrics(self) -> WatermarkMetrics:
        """The metrics of all inputs, each origin under its input's name."""
        by_input = {name: tracker.metrics() for name, tracker in zip(self.names, self._inputs, strict=True)}
        waiting = self._all.waited_for(self.key)
        slowest = min(waiting, key=lambda edge: self._inputs[edge].time, default=None)
        name = None if slowest is None else self.names[slowest]
        holder = None if name is None else _within(name, by_input[name].least_origin)
        return WatermarkMetrics(
            watermark=self.time,
            least_origin=holder,
            origins=sum(metrics.origins for metrics in by_input.values()),
            idle_origins=tuple(
                _within(name, origin)
                for (name, metrics), tracker in zip(by_input.items(), self._inputs, strict=True)
                for origin in metrics.idle_origins or ((None,) if tracker.idle else ())
            ),
            gaps=tuple(
                OriginGap(_within(name, gap.origin), gap.first, gap.last, gap.since)
                for name, metrics in by_input.items()
                for gap in metrics.gaps
            ),
            slowest=_slowest(by_input, name),
            renumbered_origins=tuple(
                _within(name, origin) for name, metrics in by_input.items() for origin in metrics.renumbered_origins
            ),
            forgotten_origins=sum(metrics.forgotten_origins for metrics in by_input.values()),
        )

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {"inputs": [tracker.snapshot() for tracker in self._inputs], "all": self._all.snapshot()}

    @classmethod
    def restore(cls, strategies: Mapping[str, Strategy], snapshot: dict[str, Any], *, key: int) -> OperatorTracker:
        """A tracker that continues from a snapshot."""
        tracker = cls(strategies, key=key)
        tracker._inputs = [
            InputTracker.restore(strategy, part)
            for strategy, part in zip(strategies.values(), snapshot["inputs"], strict=True)
        ]
        tracker._all.restore(snapshot["all"])
        return tracker


AnyTracker: TypeAlias = InputTracker | OperatorTracker


def without_origins(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """A tracker's snapshot without its origins: that of ``tracker.at(tracker.reached())``.

    The strategy is not needed, so state can move without its pipeline.
    """
    if "all" in snapshot:
        return {"inputs": [without_origins(part) for part in snapshot["inputs"]], "all": snapshot["all"]}
    outputs = {key: output for key, output, _ in snapshot["coalescer"]["keys"]}
    coalescer = Coalescer(1)
    for key, output in outputs.items():
        coalescer.raise_to(Watermark(key, output))
    tables = {name: snapshot[name].clear() for name in ("runs", "chunks", "last_chunks")}
    cuts = {"cuts": CutTracker().snapshot()} if "cuts" in snapshot else {}
    return {
        "origins": snapshot["origins"].head(1),
        "active_at": pl.Series("active_at", [MIN]),
        "coalescer": coalescer.snapshot(),
        **tables,
        "clock": None,
        "started": 0,
        "waiting": snapshot["waiting"],
        "retired": [],
        **cuts,
    }


def _has_rows(summary: pl.DataFrame) -> bool:
    """Whether an input has sent rows, or positions of its segments."""
    return bool(summary.select(((pl.col("rows") > 0) | pl.col("chunk_until").is_not_null()).any()).item())


def _addressed_to(name: str, key: int, notes: Sequence[Note]) -> list[Note]:
    """The notes that concern one input, in their order."""
    addressed: list[Note] = []
    for note in notes:
        if isinstance(note, InputWatermark | InputEnd):
            if note.input == name:
                addressed.append(Watermark(key, note.time if isinstance(note, InputWatermark) else MAX))
        else:
            addressed.append(note)
    return addressed


def _within(name: str, origin: str | None) -> str:
    return name if origin is None else f"{name}: {origin}"


def _slowest(by_input: Mapping[str, WatermarkMetrics], waited_for: str | None) -> tuple[tuple[str | None, int], ...]:
    """The slowest origins of all inputs, with the one that holds back the input that is waited for."""
    times = [(_within(name, origin), time) for name, metrics in by_input.items() for origin, time in metrics.slowest]
    slowest = sorted(times, key=itemgetter(1))[:SHOWN]
    if slowest and waited_for is not None:
        metrics = by_input[waited_for]
        holder = _within(waited_for, metrics.least_origin)
        if holder not in (name for name, _ in slowest):  # idle origins are slower, or this input has no origins
            slowest = [*slowest[: SHOWN - 1], (holder, dict(times).get(holder, metrics.watermark))]
    return tuple(sorted(slowest, key=itemgetter(1)))

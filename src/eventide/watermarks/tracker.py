"""The watermark of one stream, batch by batch: the input is summaries of rows, the output the watermark.

Idle time is measured on the clock of the batches, and only while the source is polled. So a query that was stopped
does not find all of its origins idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from eventide.kernels.intervals import NO_INTS, Ints
from eventide.time import MIN, earliest
from eventide.watermarks.coalescer import ABSENT, ACTIVE, IDLE, Coalescer, InputWatermarks, OnBack
from eventide.watermarks.expiry import Activity
from eventide.watermarks.generators import Noted, ProcessingTime
from eventide.watermarks.idleness import PolledClock, idle_origins, next_idle_time
from eventide.watermarks.origin_sequences import OriginSequences
from eventide.watermarks.origin_summary import delayed
from eventide.watermarks.origins import SOURCE, ExpectedOrigins, OriginOffsets, Origins
from eventide.watermarks.status import SHOWN, OriginGap, WatermarkMetrics, WatermarkStatus
from eventide.watermarks.strategies import Strategy
from eventide.watermarks.watermark import Cut, CutTracker, Note, Watermark


class InputTracker:
    """The watermark of one stream. ``advance`` changes it in place; ``copy`` it first to keep the old state.

    >>> from eventide.watermarks import ascending
    >>> strategy = ascending(origin="device")
    >>> tracker = InputTracker(strategy)
    >>> rows = pl.DataFrame({"ts": [10, 30], "device": ["a", "b"]})
    >>> tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
    WatermarkStatus(time=10, idle=False, messages=(Watermark(key=0, time=10),))
    """

    def __init__(self, strategy: Strategy) -> None:
        options = strategy.options
        self.strategy = strategy
        self.key = options.watermark_key
        self._origins = Origins()
        # With sequences a declared value may arrive out of order, and the run's highest one counts.
        on_back: OnBack = "error" if strategy.generator.declared and options.sequence is None else "clamp"
        self._coalescer = Coalescer(1, on_back=on_back, on_return=options.on_return, name=self._origins.label)
        self._sequences = OriginSequences(options, self._origins.label)
        self._offsets = OriginOffsets()
        self._cuts = CutTracker() if isinstance(strategy.generator, Noted) else None
        self._active_at: Ints = np.array([MIN])
        self._activity = Activity(options.forget_after)
        self._forgotten: tuple[str | None, ...] = ()
        self._forgotten_count = 0
        self._clock: PolledClock | None = None
        self._expected = ExpectedOrigins(options.expect_origins, options.origins_timeout)

    def advance(
        self, summary: pl.DataFrame, now: int, *, polled: bool = True, notes: Sequence[Note] = ()
    ) -> WatermarkStatus:
        """Apply the summary of a batch at time ``now``.

        ``polled=False``: the source was not read since the last batch (it waited, or the query was stopped):
        that time makes no origin idle. ``notes`` are watermarks from outside, which raise the result directly (a cut
        does so once it is passed). Notes of other keys, and cuts of other streams, are ignored.
        """
        clock = self._tick(now, polled)
        alive, marks = self._read(summary, clock)
        if self.strategy.options.offset is not None:
            self._read_offsets(summary)
        delay = self.strategy.generator.clock_delay
        clock_time = None if delay is None else delayed(now, delay)
        if clock_time is not None and isinstance(self.strategy.generator, ProcessingTime):
            marks.append(InputWatermarks(self.key, np.array([SOURCE]), np.array([clock_time])))
        self._mark_active(alive, clock)
        present = self._coalescer.status() != ABSENT
        if self._expected.waiting:
            numbers = np.union1d(alive, np.flatnonzero(present))
            self._expected.observe({self._name(number) for number in numbers if number != SOURCE}, clock)
        idle = idle_origins(self._active_at, present, clock, self.strategy.options.idle_timeout)
        messages = self._coalescer.step(events=alive, marks=marks, idle=idle, held=self._expected.waiting)
        if clock_time is not None:
            messages += self._coalescer.raise_to(Watermark(self.key, clock_time))
        for note in notes:
            if isinstance(note, Watermark) and note.key == self.key:
                messages += self._coalescer.raise_to(note)
        if (cut_time := self._pass_cuts(summary, notes)) is not None:
            messages += self._coalescer.raise_to(Watermark(self.key, cut_time))
        self._forget(alive)
        return WatermarkStatus(self.time, self.idle, tuple(messages))

    @property
    def time(self) -> int:
        """The watermark."""
        return self._coalescer.time(self.key)

    @property
    def idle(self) -> bool:
        """Whether all origins are idle, so that others need not wait for this stream."""
        return not self._expected.waiting and self._coalescer.all_idle()

    @property
    def forgotten_origins(self) -> tuple[str | None, ...]:
        """The origins that the last batch forgot."""
        return self._forgotten

    def next_deadline(self) -> int | None:
        """The earliest batch time at which the mere absence of rows has an effect; MIN before the first batch.

        An origin becomes idle, a gap is skipped, or the wait for expected origins ends. The source is assumed to be
        polled until then.

        >>> from eventide.watermarks import ascending
        >>> tracker = InputTracker(ascending(idle_timeout="10 seconds"))
        >>> _ = tracker.advance(tracker.strategy.summarise(pl.DataFrame({"ts": [0]}), "ts", now=5), now=5)
        >>> tracker.next_deadline()
        10000005
        """
        options = self.strategy.options
        if self._clock is None:
            return None if options.idle_timeout is None and options.origins_timeout is None else MIN
        deadlines: list[int | None] = []
        if options.idle_timeout is not None:
            active = self._coalescer.status()[: len(self._active_at)] == ACTIVE
            deadlines.append(next_idle_time(self._active_at, active, self._clock.time, options.idle_timeout))
        if options.gap_timeout is not None and (since := self._sequences.progress.oldest_gap()) is not None:
            deadlines.append(since + options.gap_timeout)
        deadlines.append(self._expected.deadline())
        deadline = earliest(deadlines)
        return None if deadline is None else deadline + self._clock.unpolled

    def retire(self, origin: object) -> bool:
        """Stop waiting for an origin, from the next batch on. Return whether it was waited for.

        With its next row it takes part again, and its sequence continues.
        """
        name = None if origin is None else str(origin)
        self._expected.retired |= {name}
        number = self._origins.find(name)
        if number is None or not self._takes_part(number):
            return False
        self._coalescer.leave(number)
        if np.all(self._coalescer.status() == ABSENT):
            self._active_at[SOURCE] = self._clock.time if self._clock else 0
            self._coalescer.join(SOURCE)
        return True

    def skip_gap(self, origin: object = None, *, up_to: int | None = None) -> bool:
        """Count an origin's missing sequences as seen, from the next batch on. Return whether any was missing.

        By default the first gap; with ``up_to``, everything up to that number.
        """
        number: int | None = SOURCE
        if self.strategy.options.origin is not None:
            number = self._origins.find(None if origin is None else str(origin))
        if number is None:
            return False
        shifted = None if up_to is None else up_to + self.strategy.options.shift
        return self._sequences.progress.skip_gap(number, up_to=shifted)

    def lower_to(self, mark: Watermark) -> None:
        """Lower the watermark, and that of each origin, to ``mark.time``, where they are higher, if it has this key."""
        if mark.key == self.key:
            self._coalescer.lower_to(mark)
            self._sequences.progress.lower_to(mark.time)
            self._activity.lower_to(mark.time)

    def has_origin(self, origin: object = None) -> bool:
        """Whether a command may name this origin: it has sent rows, or is expected.

        >>> from eventide.watermarks import ascending
        >>> tracker = InputTracker(ascending(origin="device", expect_origins=["a"]))
        >>> tracker.has_origin("a"), tracker.has_origin("b")
        (True, False)
        """
        if self.strategy.options.origin is None:
            return origin is None
        name = None if origin is None else str(origin)
        return self._origins.find(name) is not None or self._expected.may_include(name)

    def accepts(self, to: int | str | None) -> bool:
        """Whether a watermark may be addressed to this stream: by its key, or without an address."""
        return to is None or to == self.key

    def input(self, edge: int) -> InputTracker:
        """The tracker of an input: this one, because there is only one input."""
        return self

    def next_offsets(self) -> pl.DataFrame:
        """``origin`` and ``reached``, its next offset, of each origin that has offsets.

        Where the offsets are the strategy's ``sequence=``, gaps are waited for. Otherwise the rows of an origin are
        assumed to arrive in order.

        >>> from eventide.watermarks import ascending
        >>> strategy = ascending().by_offset("n")
        >>> tracker, rows = InputTracker(strategy), pl.DataFrame({"ts": [10, 30], "n": [1, 3]})
        >>> status = tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
        >>> tracker.next_offsets().rows()
        [(None, 4)]
        """
        return self._offsets.frame(self._origins)

    def has_seen(self, numbers: pl.DataFrame) -> pl.Series:
        """Which numbers (``Strategy.identity``) were seen. A number that was only skipped was not.

        >>> from eventide.watermarks import ascending
        >>> strategy = ascending(sequence="n").deduplicating()
        >>> tracker, rows = InputTracker(strategy), pl.DataFrame({"ts": [10, 30], "n": [1, 3]})
        >>> status = tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
        >>> tracker.has_seen(pl.DataFrame({"sequence": [1, 2, 3]})).to_list()
        [True, False, True]
        """
        assert self._sequences.seen is not None
        has_names = self.strategy.options.origin is not None
        origin = self._origins.find_all(numbers["origin"]) if has_names else np.full(numbers.height, SOURCE)
        chunk = numbers["chunk"].fill_null(-1).to_numpy() if "chunk" in numbers.columns else None
        return pl.Series(self._sequences.seen.has_seen(origin, numbers["sequence"].fill_null(-1).to_numpy(), chunk))

    def reached(self) -> dict[str, Any]:
        """The watermark without the origins that it follows from, as plain data for ``at``."""
        return {"time": self.time}

    def at(self, reached: Mapping[str, Any]) -> InputTracker:
        """A tracker without origins that has reached what another has."""
        tracker = InputTracker(self.strategy)
        tracker._coalescer.raise_to(Watermark(self.key, reached["time"]))
        return tracker

    def copy(self) -> InputTracker:
        """An independent copy, cheap enough to make in every step."""
        twin = InputTracker.__new__(InputTracker)
        twin.__dict__.update(self.__dict__)
        twin._origins = self._origins.copy()
        twin._coalescer = self._coalescer.copy(name=twin._origins.label)
        twin._sequences = self._sequences.copy(twin._origins.label)
        twin._expected = self._expected.copy()
        twin._cuts = self._cuts and self._cuts.copy()
        twin._offsets = self._offsets.copy()
        twin._active_at = self._active_at.copy()
        twin._activity = self._activity.copy()
        return twin

    def metrics(self) -> WatermarkMetrics:
        """The watermark, and what holds it back."""
        status = self._coalescer.status()
        present = np.flatnonzero(status != ABSENT)
        waited_for = NO_INTS if self._expected.waiting else self._coalescer.waited_for(self.key)
        times = self._coalescer.times(self.key)
        named = present[present != SOURCE]
        holder = int(waited_for[np.argmin(times[waited_for])]) if len(waited_for) else None
        slowest = named[np.argsort(times[named], kind="stable")[:SHOWN]].tolist()
        if holder not in (None, SOURCE, *slowest):  # idle origins may be slower than the one that is waited for
            slowest[-1] = holder
        unpolled, shift = self._clock.unpolled if self._clock else 0, self.strategy.options.shift
        gaps = [
            OriginGap(self._origins.name(gap.origin), gap.first - shift, gap.last - shift, gap.since + unpolled)
            for gap in self._sequences.progress.gaps()
            if self._takes_part(gap.origin)
        ]
        return WatermarkMetrics(
            watermark=self.time,
            least_origin=None if holder is None else self._name(holder),
            origins=len(named) or int(not self.strategy.options.origin),
            idle_origins=tuple(self._name(number) for number in np.flatnonzero(status == IDLE) if number != SOURCE),
            gaps=tuple(gaps),
            slowest=tuple((self._name(number), int(times[number])) for number in slowest),
            renumbered_origins=tuple(self._name(number) for number in self._sequences.renumbered[:SHOWN]),
            forgotten_origins=len(self._forgotten),
            origin_column=self.strategy.options.origin,
        )

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data: numbers, and small frames."""
        self._make_room()
        snapshot = {
            "origins": self._origins.names(np.arange(len(self._coalescer))),
            "active_at": pl.Series("active_at", self._active_at),
            "coalescer": self._coalescer.snapshot(),
            **self._sequences.snapshot(),
            "clock": [self._clock.now, self._clock.unpolled] if self._clock else None,
            **self._expected.snapshot(),
        }
        if self.strategy.options.offset is not None:
            snapshot["offsets"] = pl.Series("offsets", self._offsets.next_offset)
        if self._cuts is not None:
            snapshot["cuts"] = self._cuts.snapshot()
        if self._forgotten_count:
            snapshot["free"] = pl.Series("free", self._origins.free(), dtype=pl.Int64)
            snapshot["forgotten"] = self._forgotten_count
        if self.strategy.options.forget_after is not None:
            snapshot["activity"] = self._activity.snapshot()
        return snapshot

    @classmethod
    def restore(cls, strategy: Strategy, snapshot: dict[str, Any]) -> InputTracker:
        """A tracker that continues from a snapshot."""
        tracker = cls(strategy)
        origins = Origins.restore(snapshot["origins"], snapshot["free"].to_list() if "free" in snapshot else ())
        tracker._origins = origins
        tracker._coalescer = tracker._coalescer.copy(name=origins.label)
        tracker._coalescer.restore(snapshot["coalescer"])
        tracker._sequences = OriginSequences(strategy.options, origins.label)
        tracker._sequences.restore(snapshot)
        if strategy.options.offset is not None:
            tracker._offsets.next_offset = snapshot["offsets"].to_numpy().copy()
        if tracker._cuts is not None:
            tracker._cuts = CutTracker.restore(snapshot["cuts"])
        tracker._active_at = snapshot["active_at"].to_numpy().copy()
        tracker._activity.grow(len(origins))
        if "activity" in snapshot:  # forget_after= may be new: then activity counts from its first search on
            tracker._activity.restore(snapshot["activity"])
        tracker._forgotten_count = snapshot.get("forgotten", 0)
        tracker._clock = PolledClock(*snapshot["clock"]) if snapshot["clock"] else None
        tracker._expected.restore(snapshot)
        return tracker

    def _tick(self, now: int, polled: bool) -> int:
        if self._clock is None:
            self._clock = PolledClock(now)
            self._expected.started = now
            self._active_at[SOURCE] = now
        else:
            self._clock = self._clock.tick(now, polled=polled)
        return self._clock.time

    def _read(self, summary: pl.DataFrame, clock: int) -> tuple[Ints, list[InputWatermarks]]:
        """The origins that are alive, and their watermarks."""
        if self.strategy.options.sequence is not None:
            return self._read_sequences(summary, clock)
        if not summary.height:
            return NO_INTS, []
        if self.strategy.options.origin is None:
            source = np.array([SOURCE])
            times: list[Any] = [summary["least"].min(), summary["watermark"].max()]
            marks = [InputWatermarks(self.key, source, np.array([time])) for time in times if time is not None]
            return source if summary["rows"].sum() else NO_INTS, marks
        origins = self._numbers(summary["origin"])
        alive = origins[summary["rows"].to_numpy() > 0]
        return alive, [self._marks(origins, summary[name]) for name in ("least", "watermark")]

    def _read_sequences(self, summary: pl.DataFrame, clock: int) -> tuple[Ints, list[InputWatermarks]]:
        origins = self._numbers(summary["origin"])
        alive = origins[summary["sequence"].is_null().to_numpy() & (summary["rows"].to_numpy() > 0)]
        self._sequences.observe(summary, origins, clock)
        # Retired origins, and those that have sent no usable row yet, are remembered but not waited for.
        present = self._coalescer.status() != ABSENT
        present[alive] = True
        origins, times = self._sequences.progress.gap_free_watermarks()
        return alive, [InputWatermarks(self.key, origins[present[origins]], times[present[origins]])]

    def _read_offsets(self, summary: pl.DataFrame) -> None:
        options = self.strategy.options
        if options.offset == options.sequence:
            numbers, highest = self._sequences.progress.gap_free_ends()
            highest = highest - options.shift
        else:
            offsets = summary.filter(pl.col("sequence").is_null() & pl.col("until").is_not_null())
            numbers, highest = self._numbers(offsets["origin"]), offsets["until"].to_numpy()
        self._offsets.observe(numbers, highest, len(self._origins))

    def _pass_cuts(self, summary: pl.DataFrame, notes: Sequence[Note]) -> int | None:
        """The time of the last cut that is passed with these rows."""
        if self._cuts is None:
            return None
        assert isinstance(self.strategy.generator, Noted)
        stream = self.strategy.generator.identity
        self._cuts.add(note for note in notes if isinstance(note, Cut) and note.stream == stream)
        self._cuts.read_summary(summary)
        return self._cuts.pass_cuts()

    def _marks(self, origins: Ints, times: pl.Series) -> InputWatermarks:
        has_time = times.is_not_null().to_numpy()
        return InputWatermarks(self.key, origins[has_time], times.fill_null(MIN).to_numpy()[has_time])

    def _numbers(self, names: pl.Series) -> Ints:
        if self.strategy.options.origin is None:
            return np.full(len(names), SOURCE)
        numbers = self._origins.numbers(names)
        self._make_room()
        return numbers

    def _name(self, number: Any) -> str | None:
        return self._origins.name(int(number))

    def _make_room(self) -> None:
        """Make columns as long as the table of origins, which copies of this tracker may have made longer."""
        missing = len(self._origins) - len(self._active_at)
        if missing > 0:
            self._coalescer.grow(len(self._origins))
            self._active_at = np.append(self._active_at, np.full(missing, MIN))
            self._activity.grow(len(self._origins))

    def _mark_active(self, alive: Ints, clock: int) -> None:
        self._active_at[alive] = clock
        if len(alive) and self.strategy.options.origin is not None:
            self._coalescer.leave(SOURCE)  # the first origin takes the place of the source

    def _forget(self, alive: Ints) -> None:
        """Forget the idle origins whose last activity is ``forget_after`` behind the watermark."""
        self._forgotten = ()
        if self.strategy.options.forget_after is None:
            return
        self._activity.observe(alive, self.time)
        if not self._activity.is_search_due(self.time):
            return
        status = self._coalescer.status()
        if not np.any(status == ACTIVE):  # no new origins arrive, and an idle stream stays idle
            return
        idle = status != ACTIVE
        idle[[SOURCE, *self._origins.free()]] = False
        origins = self._activity.expired(self.time, idle, self._coalescer.times(self.key))
        if not len(origins):
            return
        self._forgotten = tuple(self._origins.names(origins))
        self._forgotten_count += len(origins)
        self._expected.retired -= set(self._forgotten)
        for part in (self._origins, self._coalescer, self._sequences, self._activity, self._offsets):
            part.forget(origins)
        self._active_at[origins] = MIN

    def _takes_part(self, number: int) -> bool:
        status = self._coalescer.status()
        return number < len(status) and bool(status[number] != ABSENT)

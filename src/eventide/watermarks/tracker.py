"""The watermark of one stream: what an operator asks, batch by batch.

Summaries of rows go in, one time comes out. Silence is measured on the clock of the batches, and only while the
source is being polled, so that a query that was stopped does not find all its origins idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from eventide.errors import watermarks as errors
from eventide.time import MIN
from eventide.watermarks.clock import PolledClock
from eventide.watermarks.coalescer import ABSENT, ACTIVE, IDLE, Coalescer, Marks, OnBack
from eventide.watermarks.intervals import NO_INTS, Bools, Ints
from eventide.watermarks.last_chunks import LastChunks
from eventide.watermarks.origins import SOURCE, Origins
from eventide.watermarks.passing import Passing
from eventide.watermarks.progress import Progress
from eventide.watermarks.rules import Noted
from eventide.watermarks.runs import Chunks, Runs, take
from eventide.watermarks.standing import SHOWN, Metrics, OriginGap, Standing
from eventide.watermarks.strategies import Strategy
from eventide.watermarks.watermark import Cut, Note, Watermark

FORMAT = 1
"""The version of ``Tracker.snapshot``."""

_NUMBERS = pl.col("sequence", "until", "chunk", "chunk_until", "last_chunk")


class Tracker:
    """The watermark of one stream. ``advance`` changes it; ``copy`` first to keep what was.

    >>> from eventide.watermarks.strategies import ascending
    >>> strategy = ascending(origin="device")
    >>> tracker = Tracker(strategy)
    >>> rows = pl.DataFrame({"ts": [10, 30], "device": ["a", "b"]})
    >>> tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
    Standing(time=10, idle=False, messages=(Watermark(key=0, time=10),))
    """

    def __init__(self, strategy: Strategy) -> None:
        options = strategy.options
        self.strategy = strategy
        self.key = options.watermark_key
        self._origins = Origins()
        # With sequences a declared value may come out of order, and what counts is the run's highest.
        on_back: OnBack = "error" if strategy.rule.declared and options.sequence is None else "clamp"
        self._coalescer = Coalescer(1, on_back=on_back, on_return=options.on_return, name=self._origins.label)
        self._progress = Progress(first_chunk=options.first_chunk, name=self._origins.label)
        # Beside it, what was really seen: numbers that were skipped may still come.
        self._seen = Progress(first_chunk=options.first_chunk) if options.deduplicate else None
        # Origins that sent a number again in the last batch, with a time beyond all that they had reached.
        self._renumbered: Ints = NO_INTS
        # For windows by offset: the first one of each origin that is still to come, as of the last batch.
        self._offsets: Ints = np.array([MIN])
        # For writers that declare time: how far each segment was read, and the cuts ahead.
        self._passing = Passing() if isinstance(strategy.rule, Noted) else None
        self._active_at: Ints = np.array([MIN])
        self._clock: PolledClock | None = None
        self._started = 0
        self._held = options.expect_origins is not None
        self._excused: frozenset[str | None] = frozenset()

    def advance(self, summary: pl.DataFrame, now: int, *, polled: bool = True, notes: Sequence[Note] = ()) -> Standing:
        """Take in what a batch saw at time ``now``.

        ``polled=False`` says that the source was not read since the last batch (it waited, or the query was stopped):
        that time makes nobody idle. ``notes`` are watermarks from outside, which raise the result directly (a cut does
        so once it is passed); those of other keys, and cuts of other streams, are not for this one.
        """
        clock = self._tick(now, polled)
        alive, marks = self._read(summary, clock)
        if self.strategy.options.offset is not None:
            self._read_offsets(summary)
        given = self.strategy.rule.at(now)
        if given is not None:
            marks.append(Marks(self.key, np.array([SOURCE]), np.array([given])))
        self._welcome(alive, clock)
        self._held = self._held and self._waits(alive, clock)
        messages = self._coalescer.step(events=alive, marks=marks, idle=self._silent(clock), held=self._held)
        for note in notes:
            if isinstance(note, Watermark) and note.key == self.key:
                messages += self._coalescer.raise_to(note)
        passed = self._pass(summary, notes)
        if passed is not None:
            messages += self._coalescer.raise_to(Watermark(self.key, passed))
        return Standing(self.time, self.idle, tuple(messages))

    @property
    def time(self) -> int:
        """The watermark as it stands."""
        return self._coalescer.time(self.key)

    @property
    def idle(self) -> bool:
        """Whether all origins are silent, so that others need not wait for this stream."""
        return not self._held and self._coalescer.all_idle()

    def next_deadline(self) -> int | None:
        """The earliest batch time at which silence alone changes something; MIN: the clock waits for its first batch.

        That is when an origin becomes idle, when a gap is given up, and when the wait for expected origins ends. The
        source is taken to be polled until then.

        >>> from eventide.watermarks.strategies import ascending
        >>> tracker = Tracker(ascending(idle_timeout="10 seconds"))
        >>> _ = tracker.advance(tracker.strategy.summarise(pl.DataFrame({"ts": [0]}), "ts", now=5), now=5)
        >>> tracker.next_deadline()
        10000005
        """
        options = self.strategy.options
        if self._clock is None:
            return None if options.idle_timeout is None and options.origins_timeout is None else MIN
        waits = []
        if options.idle_timeout is not None:
            active = self._active_at[self._coalescer.standing()[: len(self._active_at)] == ACTIVE]
            active = active[active > self._clock.time - options.idle_timeout]
            waits += [int(active.min()) + options.idle_timeout] if len(active) else []
        if options.gap_timeout is not None and (since := self._progress.oldest_gap()) is not None:
            waits.append(since + options.gap_timeout)
        if self._held and options.origins_timeout is not None:
            waits.append(self._started + options.origins_timeout)
        return min(waits) + self._clock.unpolled if waits else None

    def retire(self, origin: object) -> bool:
        """Stop waiting for an origin, from the next batch on. False: it is not known.

        If it speaks again it takes part again, and its sequence goes on where it was.
        """
        name = None if origin is None else str(origin)
        self._excused |= {name}
        number = self._origins.find(name)
        if number is None or not self._takes_part(number):
            return False
        self._coalescer.leave(number)
        if np.all(self._coalescer.standing() == ABSENT):
            self._active_at[SOURCE] = self._clock.time if self._clock else 0
            self._coalescer.join(SOURCE)
        return True

    def skip(self, origin: object = None, *, up_to: int | None = None) -> bool:
        """Count an origin's missing sequences as seen, from the next batch on. False: nothing is missing.

        By default the first gap; with ``up_to``, everything up to that number.
        """
        number = SOURCE
        if self.strategy.options.origin is not None:
            found = self._origins.find(None if origin is None else str(origin))
            if found is None:
                return False
            number = found
        return self._progress.skip(number, up_to=up_to)

    def lower(self, mark: Watermark) -> None:
        """Lower the watermark, and that of each origin, to ``mark.time``, where they are higher, if it has this key."""
        if mark.key == self.key:
            self._coalescer.lower_to(mark)
            self._progress.lower_to(mark.time)

    def knows(self, origin: object = None) -> bool:
        """Return whether a command may name this origin: it has sent rows, or is among those that are expected.

        >>> from eventide.watermarks.strategies import ascending
        >>> tracker = Tracker(ascending(origin="device", expect_origins=["a"]))
        >>> tracker.knows("a"), tracker.knows("b")
        (True, False)
        """
        options = self.strategy.options
        if options.origin is None:
            return origin is None
        name = None if origin is None else str(origin)
        expected = options.expect_origins
        if isinstance(expected, int):
            return self._held or self._origins.find(name) is not None
        return self._origins.find(name) is not None or name in (expected or ())

    def takes(self, to: int | str | None) -> bool:
        """Return whether a watermark may be addressed to this: its key, or None."""
        return to is None or to == self.key

    def at(self, edge: int) -> Tracker:
        """The tracker of one input: of the only one there is."""
        return self

    def offsets(self) -> pl.DataFrame:
        """``reached`` of each ``origin`` that has offsets: the first one that is still to come.

        Where the offsets are the strategy's own ``sequence=``, a gap is waited for. Else an origin's rows are taken to
        come in order, and it has reached what comes after the highest.

        >>> from eventide.watermarks.strategies import ascending
        >>> strategy = ascending().by_offset("n")
        >>> tracker, rows = Tracker(strategy), pl.DataFrame({"ts": [10, 30], "n": [1, 3]})
        >>> standing = tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
        >>> tracker.offsets().rows()
        [(None, 4)]
        """
        origins = np.flatnonzero(self._offsets > MIN)
        return pl.DataFrame({"origin": self._origins.names(origins), "reached": self._offsets[origins]})

    def seen(self, numbers: pl.DataFrame) -> pl.Series:
        """Which numbers (``Strategy.identity``) have come before. Those that were only skipped have not.

        >>> from eventide.watermarks.strategies import ascending
        >>> strategy = ascending(sequence="n").deduplicating()
        >>> tracker, rows = Tracker(strategy), pl.DataFrame({"ts": [10, 30], "n": [1, 3]})
        >>> standing = tracker.advance(strategy.summarise(rows, "ts", now=0), now=0)
        >>> tracker.seen(pl.DataFrame({"sequence": [1, 2, 3]})).to_list()
        [True, False, True]
        """
        assert self._seen is not None
        named = self.strategy.options.origin is not None
        origin = self._origins.known(numbers["origin"]) if named else np.full(numbers.height, SOURCE)
        chunk = numbers["chunk"].fill_null(-1).to_numpy() if "chunk" in numbers.columns else None
        return pl.Series(self._seen.has(origin, numbers["sequence"].fill_null(-1).to_numpy(), chunk))

    def copy(self) -> Tracker:
        """An independent copy, cheap enough to make in every step."""
        twin = Tracker.__new__(Tracker)
        twin.__dict__.update(self.__dict__)
        twin._origins = self._origins.copy()
        twin._coalescer = self._coalescer.copy(name=twin._origins.label)
        twin._progress = self._progress.copy(name=twin._origins.label)
        twin._seen = self._seen and self._seen.copy()
        twin._passing = self._passing and self._passing.copy()
        twin._offsets = self._offsets.copy()
        twin._active_at = self._active_at.copy()
        return twin

    def metrics(self) -> Metrics:
        """What to show of the watermark: where it stands, and what holds it back."""
        standing = self._coalescer.standing()
        taking_part = np.flatnonzero(standing != ABSENT)
        active = NO_INTS if self._held else self._coalescer.waited_for(self.key)
        times = self._coalescer.times(self.key)
        least = self._origins.name(int(active[np.argmin(times[active])])) if len(active) else None
        idle = np.flatnonzero(standing == IDLE)
        named = taking_part[taking_part != SOURCE]
        slowest = named[np.argsort(times[named], kind="stable")[:SHOWN]]
        unpolled = self._clock.unpolled if self._clock else 0
        gaps = [
            OriginGap(self._origins.name(gap.origin), gap.first, gap.last, gap.since + unpolled)
            for gap in self._progress.gaps()
            if self._takes_part(gap.origin)
        ]
        return Metrics(
            watermark=self.time,
            least_origin=least,
            origins=int(np.count_nonzero(taking_part != SOURCE)) or int(not self.strategy.options.origin),
            idle_origins=tuple(self._origins.name(int(number)) for number in idle if number != SOURCE),
            gaps=tuple(gaps),
            slowest=tuple((self._origins.name(int(number)), int(times[number])) for number in slowest),
            renumbered_origins=tuple(self._origins.name(int(number)) for number in self._renumbered[:SHOWN]),
        )

    def snapshot(self) -> dict[str, Any]:
        """All that is known, as plain data: numbers, and small frames."""
        self._make_room()
        own: dict[str, Any] = {} if self._seen is None else {"seen": _saved(self._seen)}
        if self.strategy.options.offset is not None:
            own["offsets"] = pl.Series("offsets", self._offsets)
        if self._passing is not None:
            own["passing"] = self._passing.snapshot()
        return own | {
            "format": FORMAT,
            "origins": self._origins.names(np.arange(len(self._coalescer))),
            "active_at": pl.Series("active_at", self._active_at),
            "coalescer": self._coalescer.snapshot(),
            **_saved(self._progress),
            "clock": [self._clock.now, self._clock.unpolled] if self._clock else None,
            "started": self._started,
            "held": self._held,
            "excused": sorted(self._excused, key=str),
        }

    @classmethod
    def restore(cls, strategy: Strategy, snapshot: dict[str, Any]) -> Tracker:
        """A tracker that goes on where the snapshot was taken."""
        if snapshot.get("format") != FORMAT:
            raise errors.unknown_snapshot(snapshot.get("format"), FORMAT)
        tracker = cls(strategy)
        for name in snapshot["origins"].to_list()[1:]:
            tracker._origins.number(name)
        tracker._active_at = snapshot["active_at"].to_numpy().copy()
        tracker._coalescer.restored(snapshot["coalescer"])
        _restore(tracker._progress, snapshot)
        if tracker._seen is not None:
            _restore(tracker._seen, snapshot["seen"])
        if strategy.options.offset is not None:
            tracker._offsets = snapshot["offsets"].to_numpy().copy()
        if tracker._passing is not None:
            tracker._passing = Passing.restore(snapshot["passing"])
        tracker._clock = PolledClock(*snapshot["clock"]) if snapshot["clock"] else None
        tracker._started = snapshot["started"]
        tracker._held = snapshot["held"]
        tracker._excused = frozenset(snapshot["excused"])
        return tracker

    def _tick(self, now: int, polled: bool) -> int:
        if self._clock is None:
            self._clock = PolledClock(now)
            self._started = now
            self._active_at[SOURCE] = now
        else:
            self._clock = self._clock.ticked(now, polled=polled)
        return self._clock.time

    def _read(self, summary: pl.DataFrame, clock: int) -> tuple[Ints, list[Marks]]:
        """The origins that are alive, and what is known of their time."""
        options = self.strategy.options
        if options.sequence is not None:
            return self._read_numbered(summary, clock)
        if not summary.height:
            return NO_INTS, []
        if options.origin is None:
            return self._read_single(summary)
        origins = self._number(summary["origin"])
        alive = origins[summary["rows"].to_numpy() > 0]
        return alive, [self._marks(origins, summary[name]) for name in ("least", "watermark")]

    def _read_offsets(self, summary: pl.DataFrame) -> None:
        if self.strategy.options.offset == self.strategy.options.sequence:
            origins, highest = self._progress.ends()
        else:
            told = summary.filter(pl.col("sequence").is_null() & pl.col("until").is_not_null())
            origins, highest = self._number(told["origin"]), told["until"].to_numpy()
        more = len(self._origins) - len(self._offsets)
        if more > 0:
            self._offsets = np.append(self._offsets, np.full(more, MIN))
        np.maximum.at(self._offsets, origins, highest + 1)

    def _pass(self, summary: pl.DataFrame, notes: Sequence[Note]) -> int | None:
        """The time of the last cut that has been passed with these rows."""
        if self._passing is None:
            return None
        assert isinstance(self.strategy.rule, Noted)
        stream = self.strategy.rule.identity
        self._passing.add(note for note in notes if isinstance(note, Cut) and note.stream == stream)
        told = summary.filter(pl.col("chunk").is_null() & pl.col("chunk_until").is_not_null())
        if told.height:
            places = told.group_by("origin").agg(pl.col("chunk_until").max())
            passed: Any = told["last_chunk"].max()
            self._passing.read(dict(places.iter_rows()), passed=passed or 0)
        return self._passing.time()

    def _read_single(self, summary: pl.DataFrame) -> tuple[Ints, list[Marks]]:
        source = np.array([SOURCE])
        said: list[Any] = [summary["least"].min(), summary["watermark"].max()]
        marks = [Marks(self.key, source, np.array([time])) for time in said if time is not None]
        return source if summary["rows"].sum() else NO_INTS, marks

    def _read_numbered(self, summary: pl.DataFrame, clock: int) -> tuple[Ints, list[Marks]]:
        summary = summary.with_columns(pl.col("watermark", "least").fill_null(MIN), _NUMBERS.fill_null(-1))
        numbered = summary["sequence"].to_numpy() >= 0
        origins = self._number(summary["origin"])
        alive = origins[~numbered & (summary["rows"].to_numpy() > 0)]
        self._observe(summary, origins, numbered, clock)
        if self.strategy.options.gap_timeout is not None:
            self._progress.give_up(clock - self.strategy.options.gap_timeout)
        # Retired origins, and those that have sent no usable row yet, are remembered but not waited for.
        present = self._coalescer.standing() != ABSENT
        present[alive] = True
        origins, times = self._progress.local()
        return alive, [Marks(self.key, origins[present[origins]], times[present[origins]])]

    def _observe(self, summary: pl.DataFrame, origin: Ints, numbered: Bools, clock: int) -> None:
        sequence, until, chunk, chunk_until, last, watermark, least = (
            summary[name].to_numpy()
            for name in ("sequence", "until", "chunk", "chunk_until", "last_chunk", "watermark", "least")
        )
        since = np.full(summary.height, clock)
        whole = numbered & (chunk < 0)
        runs = take(Runs(origin, sequence, until, watermark, since), whole)
        chunks = take(Chunks(origin, sequence, chunk, chunk_until, last, watermark, since), numbered & (chunk >= 0))
        lasts = take(LastChunks(origin, sequence, until, last), whole & (last >= 0))
        self._renumbered = self._progress.repeated_later(origin[whole], sequence[whole], least[whole])
        self._progress.observe(runs, chunks, lasts)
        if self._seen is not None:
            self._seen.observe(runs, chunks)

    def _marks(self, origins: Ints, times: pl.Series) -> Marks:
        said = times.is_not_null().to_numpy()
        return Marks(self.key, origins[said], times.fill_null(MIN).to_numpy()[said])

    def _number(self, names: pl.Series) -> Ints:
        if self.strategy.options.origin is None:
            return np.full(len(names), SOURCE)
        numbers = self._origins.numbers(names)
        self._make_room()
        return numbers

    def _make_room(self) -> None:
        """Columns as long as the table of origins, which copies of this tracker may have made longer."""
        more = len(self._origins) - len(self._active_at)
        if more > 0:
            self._coalescer.grow(len(self._origins))
            self._active_at = np.append(self._active_at, np.full(more, MIN))

    def _welcome(self, alive: Ints, clock: int) -> None:
        self._active_at[alive] = clock
        if len(alive) and self.strategy.options.origin is not None:
            self._coalescer.leave(SOURCE)  # the first origin takes the place of the source

    def _waits(self, alive: Ints, clock: int) -> bool:
        """Whether expected origins have still not been seen."""
        options = self.strategy.options
        if options.origins_timeout is not None and clock - self._started >= options.origins_timeout:
            return False
        standing = self._coalescer.standing()
        present = np.union1d(alive, np.flatnonzero(standing != ABSENT))
        seen = {self._origins.name(int(number)) for number in present if number != SOURCE} | self._excused
        expected = options.expect_origins
        return len(seen) < expected if isinstance(expected, int) else not seen.issuperset(expected or ())

    def _silent(self, clock: int) -> Ints:
        """The origins that have said nothing for too long."""
        idle_timeout = self.strategy.options.idle_timeout
        if idle_timeout is None:
            return NO_INTS
        waited_for = np.flatnonzero(self._coalescer.standing() != ABSENT)
        return waited_for[clock - self._active_at[waited_for] >= idle_timeout]

    def _takes_part(self, number: int) -> bool:
        standing = self._coalescer.standing()
        return number < len(standing) and bool(standing[number] != ABSENT)


def _saved(progress: Progress) -> dict[str, pl.DataFrame]:
    runs, chunks = progress.runs, progress.chunks
    return {
        "runs": pl.DataFrame({name: getattr(runs, name) for name in Runs.__dataclass_fields__}),
        "chunks": pl.DataFrame({name: getattr(chunks, name) for name in Chunks.__dataclass_fields__}),
        "lasts": pl.DataFrame({name: getattr(progress.lasts, name) for name in LastChunks.__dataclass_fields__}),
    }


def _restore(progress: Progress, saved: dict[str, Any]) -> None:
    progress.runs = Runs(**{column.name: column.to_numpy() for column in saved["runs"]})
    progress.chunks = Chunks(**{column.name: column.to_numpy() for column in saved["chunks"]})
    if "lasts" in saved:  # states of format 1 may lack it
        progress.lasts = LastChunks(**{column.name: column.to_numpy() for column in saved["lasts"]})

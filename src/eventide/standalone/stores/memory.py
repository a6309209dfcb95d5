"""A store in memory: sorted runs of columns, searched by halving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.stores.store import EVERYWHERE, Range
from eventide.standalone.stores.windows import MemoryWindows
from eventide.state.layouts import Layout
from eventide.time import MIN

MANY_RANGES = 8  # from so many on, one pass over all messages costs less than a search for each range
_NAME = [s.ORIGIN, s.OFFSET]
_ROW = "__row"


@dataclass
class MemoryStore:
    """Everything in this process. What is not committed is there just as well; a restart begins anew."""

    layout: Layout
    messages: MemoryMessages = field(init=False)
    windows: MemoryWindows = field(init=False)
    _outputs: dict[int, pl.DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.messages = MemoryMessages(self.layout)
        self.windows = MemoryWindows(by_session=self.layout.session)

    def state(self) -> bytes | None:
        """A new store knows nothing."""
        return None

    def keep(self, number: int, output: pl.DataFrame) -> None:
        """Keep an output until it is taken."""
        self._outputs[number] = output

    def drop(self, up_to: int) -> None:
        """Outputs up to this number were taken."""
        self._outputs = {number: output for number, output in self._outputs.items() if number > up_to}

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        """The outputs that were not taken yet, by number."""
        return sorted(self._outputs.items(), key=lambda item: item[0])

    def commit(self, state: Callable[[], bytes]) -> None:
        """Nothing outlives the process."""

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True)
class _Run:
    """Messages in key order, with the parts of their key as arrays: sessions and join keys by hash, then positions."""

    frame: pl.DataFrame
    levels: dict[str, NDArray[np.uint64] | NDArray[np.int64]]

    @staticmethod
    def of(frame: pl.DataFrame, layout: Layout) -> _Run:
        order = [*([s.SESSION] if layout.session else []), *([s.EQUAL] if layout.equal_first else [])]
        hashed = frame.with_columns(pl.col(name).hash().alias(f"{name}.hash") for name in order)
        by = [*(f"{name}.hash" for name in order), c.AT, *([s.EQUAL] if layout.has_equal else []), s.OFFSET]
        hashed = hashed.sort(by, maintain_order=True).rechunk()
        levels = {name: hashed[f"{name}.hash"].to_numpy() for name in order} | {c.AT: hashed[c.AT].to_numpy()}
        return _Run(hashed.select(frame.columns), levels)

    def slice(self, start: int, end: int) -> _Run:
        """A part of it; nothing is copied."""
        return _Run(self.frame[start:end], {name: level[start:end] for name, level in self.levels.items()})

    def without(self, gone: pl.Series) -> _Run:
        """What is left."""
        keep = (~gone).to_numpy()
        return _Run(self.frame.filter(~gone), {name: level[keep] for name, level in self.levels.items()})

    def inside(self, ranges: pl.DataFrame) -> pl.Series:
        """Whether each message lies in one of these ranges of sessions."""
        rows = self.frame.lazy().select(s.SESSION, c.AT).with_row_index(_ROW)
        within = pl.col(c.AT).is_between(c.START, c.END, closed="left")
        found = rows.join(ranges.lazy(), on=s.SESSION).filter(within).select(_ROW).collect()[_ROW]
        mask = np.zeros(self.frame.height, np.bool_)
        mask[found.to_numpy()] = True
        return pl.Series(mask)

    def bounds(self, within: Range, exact: dict[str, str]) -> tuple[int, int]:
        """Where in the run what is asked for lies: all of it, and perhaps some more."""
        low, high = 0, self.frame.height
        for name, level in self.levels.items():
            part = level[low:high]
            if name == c.AT:
                last = np.searchsorted(part, within.end, "right" if within.end_offset is not None else "left")
                return low + int(np.searchsorted(part, within.start)), low + int(last)
            if name not in exact:
                return low, high
            wanted = np.uint64(pl.Series([exact[name]]).hash().item())
            low, high = low + int(np.searchsorted(part, wanted)), low + int(np.searchsorted(part, wanted, "right"))
        return low, high


class MemoryMessages:
    """Messages as a few sorted runs. A small run is merged into its neighbour as soon as that is not much larger."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._runs: list[_Run] = []
        self._empty: pl.DataFrame | None = None
        self._last: dict[str, int] = {}  # the greatest offset of each origin
        self._floor = MIN

    def put(self, messages: pl.DataFrame) -> int:
        """Add those that are not there yet."""
        self._empty = messages.clear() if self._empty is None else self._empty
        messages = messages.filter(pl.col(c.AT) >= self._floor)
        new = self._unknown(messages.unique(_NAME, keep="first", maintain_order=True))
        if new.is_empty():
            return 0
        for origin, offset in new.group_by(s.ORIGIN).agg(pl.col(s.OFFSET).max()).iter_rows():
            self._last[origin] = max(offset, self._last.get(origin, offset))
        self._runs.append(_Run.of(new, self.layout))
        while len(self._runs) > 1 and self._runs[-2].frame.height < 2 * self._runs[-1].frame.height:
            late, early = self._runs.pop(), self._runs.pop()
            self._runs.append(_Run.of(pl.concat([early.frame, late.frame]), self.layout))
        return new.height

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        """The messages in a range."""
        if self._empty is None:
            return None
        exact = {name: value for name, value in ((s.SESSION, session), (s.EQUAL, equal)) if value is not None}
        if self.layout.equal_first and equal is not None and self._floor > MIN:
            self._delete(Range(end=self._floor), exact)
        found = list(self._parts(within, exact))
        if len(found) == 1 and self._by_position:
            return found[0]
        return pl.concat([self._empty, *found]).sort(c.AT, s.OFFSET)

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        """The messages with these offsets."""
        if self._empty is None:
            return None
        these = (pl.col(s.ORIGIN) == origin) & pl.col(s.OFFSET).is_in(offsets.implode())
        return pl.concat([self._empty, *(run.frame.filter(these) for run in self._runs)]).sort(s.OFFSET)

    def expire(self, before: int) -> int:
        """Drop messages before a position; later, where the join key stands first."""
        self._floor = max(self._floor, before)
        return 0 if self.layout.equal_first else self._delete(Range(end=before), {})

    def retire(self, ranges: pl.DataFrame) -> int:
        """Drop ranges of sessions."""
        asked = ranges.select(s.SESSION, c.START, c.END)
        if asked.height < MANY_RANGES:
            return sum(self._delete(Range(start, end), {s.SESSION: key}) for key, start, end in asked.iter_rows())
        before = self.count()
        left = (run.without(run.inside(asked)) for run in self._runs)
        self._runs = [run for run in left if run.frame.height]
        return before - self.count()

    def count(self) -> int:
        """How many are there."""
        return sum(run.frame.height for run in self._runs)

    def bytes(self) -> int:
        """How much room they take."""
        return int(sum(run.frame.estimated_size() for run in self._runs))

    @property
    def _by_position(self) -> bool:
        return not self.layout.session and not self.layout.has_equal

    def _unknown(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages beyond an origin's greatest offset are new; the others are looked for."""
        last = pl.col(s.ORIGIN).replace_strict(self._last, default=None, return_dtype=pl.Int64)
        known = (pl.col(s.OFFSET) <= last).fill_null(False)
        if not messages.select(known.any()).item():
            return messages
        for run in self._runs:
            messages = messages.join(run.frame, on=_NAME, how="anti", maintain_order="left")
        return messages

    def _parts(self, within: Range, exact: dict[str, str]) -> Iterator[pl.DataFrame]:
        sure = self._by_position and not exact and within.start_offset is None and within.end_offset is None
        for run in self._runs:
            low, high = run.bounds(within, exact)
            if high > low:
                part = run.frame.slice(low, high - low)
                yield part if sure else part.filter(*self._wanted(within, exact))

    def _wanted(self, within: Range, exact: dict[str, str]) -> list[pl.Expr]:
        live = [pl.col(c.AT) >= self._floor] if self._floor > MIN else []
        return [within.holds(), *(pl.col(name) == value for name, value in exact.items()), *live]

    def _delete(self, within: Range, exact: dict[str, str]) -> int:
        before = self.count()
        wanted = pl.all_horizontal(within.holds(), *(pl.col(name) == value for name, value in exact.items()))
        kept = []
        for run in self._runs:
            low, high = run.bounds(within, exact)
            if low == 0 and not exact and next(iter(run.levels)) == c.AT:
                run = run.slice(high, run.frame.height)
            elif high > low:
                inside = run.frame[low:high].select(wanted).to_series()
                around = [pl.repeat(False, n, eager=True) for n in (low, run.frame.height - high)]
                run = run.without(pl.concat([around[0], inside, around[1]]))
            if run.frame.height:
                kept.append(run)
        self._runs = kept
        return before - self.count()

"""A store in memory: windows as one frame, messages as sorted runs with binary search."""

# ruff: noqa: D102 - ``MessageStore`` and ``Store`` and ``Windows`` document the methods

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eventide import _columns as c
from eventide.standalone.stores.store import EVERYWHERE, Range
from eventide.state.message_layout import MessageLayout
from eventide.time import MIN

WINDOW_NAME = [c.SESSION, c.START, c.END]
MANY_RANGES = 8  # from this number on, one pass over all messages costs less than a search for each range

_MESSAGE_NAME = [c.ORIGIN, c.OFFSET]


class MemoryWindows:
    """Windows as one frame, in the order in which they expire. There are few of them, compared with messages."""

    def __init__(self, *, by_session: bool) -> None:
        self._order = [c.SESSION, c.START, c.END] if by_session else [c.START, c.END, c.SESSION]
        self._frame: pl.DataFrame | None = None

    def put(self, windows: pl.DataFrame) -> None:
        frame = windows.lazy()
        if self._frame is not None:
            others = self._frame.lazy().join(frame, on=WINDOW_NAME, how="anti")
            frame = pl.concat([others, frame.select(self._frame.columns)])
        self._frame = frame.sort(self._order).collect(engine="in-memory")

    def delete(self, windows: pl.DataFrame) -> None:
        if self._frame is not None:
            self._frame = self._frame.join(windows, on=WINDOW_NAME, how="anti", maintain_order="left")

    def all(self) -> pl.DataFrame | None:
        return self._frame

    def overlapping(self, start: int, end: int, *, session: str | None = None) -> pl.DataFrame | None:
        if self._frame is None:
            return None
        overlaps = (pl.col(c.START) < end) & (pl.col(c.END) > start)
        return self._frame.filter(overlaps if session is None else overlaps & (pl.col(c.SESSION) == session))


@dataclass
class MemoryStore:
    """Everything in this process. Nothing survives a restart."""

    layout: MessageLayout
    messages: MemoryMessages = field(init=False)
    windows: MemoryWindows = field(init=False)
    _outputs: dict[int, pl.DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.messages = MemoryMessages(self.layout)
        self.windows = MemoryWindows(by_session=self.layout.session)

    def state(self) -> bytes | None:
        """Return None: nothing was committed."""
        return None

    def keep(self, number: int, output: pl.DataFrame) -> None:
        self._outputs[number] = output

    def drop(self, up_to: int) -> None:
        self._outputs = {number: output for number, output in self._outputs.items() if number > up_to}

    def outputs(self) -> list[tuple[int, pl.DataFrame]]:
        return sorted(self._outputs.items(), key=lambda item: item[0])

    def commit(self, state: Callable[[], bytes]) -> None:
        """Do nothing: nothing survives the process."""

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class _Run:
    """Messages in key order, with the levels of their key as arrays: sessions and join keys by hash, then positions."""

    frame: pl.DataFrame
    levels: dict[str, NDArray[np.uint64] | NDArray[np.int64]]

    @staticmethod
    def of(frame: pl.DataFrame, layout: MessageLayout) -> _Run:
        order = [*([c.SESSION] if layout.session else []), *([c.EQUAL] if layout.equal_first else [])]
        hashed = frame.with_columns(pl.col(name).hash().alias(f"{name}.hash") for name in order)
        by = [*(f"{name}.hash" for name in order), c.AT, *([c.EQUAL] if layout.has_equal else []), c.OFFSET]
        hashed = hashed.sort(by, maintain_order=True).rechunk()
        levels = {name: hashed[f"{name}.hash"].to_numpy() for name in order} | {c.AT: hashed[c.AT].to_numpy()}
        return _Run(hashed.select(frame.columns), levels)

    def slice(self, start: int, end: int) -> _Run:
        """Return a part of the run, without a copy."""
        return _Run(self.frame[start:end], {name: level[start:end] for name, level in self.levels.items()})

    def without(self, deleted: pl.Series) -> _Run:
        """Return the messages that are not deleted."""
        keep = (~deleted).to_numpy()
        return _Run(self.frame.filter(~deleted), {name: level[keep] for name, level in self.levels.items()})

    def inside(self, ranges: pl.DataFrame) -> pl.Series:
        """Return whether each message is in one of these ranges of sessions."""
        rows = self.frame.lazy().select(c.SESSION, c.AT).with_row_index(c.ROW)
        within = pl.col(c.AT).is_between(c.START, c.END, closed="left")
        matches = rows.join(ranges.lazy(), on=c.SESSION).filter(within).select(c.ROW).collect()[c.ROW]
        mask = np.zeros(self.frame.height, np.bool_)
        mask[matches.to_numpy()] = True
        return pl.Series(mask)

    def bounds(self, within: Range, exact: dict[str, str]) -> tuple[int, int]:
        """Return bounds in the run around all matching messages, and perhaps others."""
        low, high = 0, self.frame.height
        for name, level in self.levels.items():
            part = level[low:high]
            if name == c.AT:
                last = np.searchsorted(part, within.end, "right" if within.end_offset is not None else "left")
                return low + int(np.searchsorted(part, within.start)), low + int(last)
            if name not in exact:
                return low, high
            value = np.uint64(pl.Series([exact[name]]).hash().item())
            low, high = low + int(np.searchsorted(part, value)), low + int(np.searchsorted(part, value, "right"))
        return low, high


class MemoryMessages:
    """Messages as a few sorted runs. A run is merged with the previous one unless that is much larger."""

    def __init__(self, layout: MessageLayout) -> None:
        self.layout = layout
        self._runs: list[_Run] = []
        self._empty: pl.DataFrame | None = None
        self._last: dict[str, int] = {}  # the greatest offset of each origin
        self._floor = MIN

    def put(self, messages: pl.DataFrame) -> int:
        self._empty = messages.clear() if self._empty is None else self._empty
        messages = messages.filter(EVERYWHERE.above(self._floor).holds())
        new = self._not_stored(messages.unique(_MESSAGE_NAME, keep="first", maintain_order=True))
        if new.is_empty():
            return 0
        for origin, offset in new.group_by(c.ORIGIN).agg(pl.col(c.OFFSET).max()).iter_rows():
            self._last[origin] = max(offset, self._last.get(origin, offset))
        self._runs.append(_Run.of(new, self.layout))
        while len(self._runs) > 1 and self._runs[-2].frame.height < 2 * self._runs[-1].frame.height:
            late, early = self._runs.pop(), self._runs.pop()
            self._runs.append(_Run.of(pl.concat([early.frame, late.frame]), self.layout))
        return new.height

    def read(
        self, within: Range = EVERYWHERE, *, session: str | None = None, equal: str | None = None
    ) -> pl.DataFrame | None:
        if self._empty is None:
            return None
        exact = {name: value for name, value in ((c.SESSION, session), (c.EQUAL, equal)) if value is not None}
        if self.layout.equal_first and equal is not None and self._floor > MIN:
            self._delete(Range(end=self._floor), exact)
        parts = list(self._parts(within.above(self._floor), exact))
        if len(parts) == 1 and self._by_position:
            return parts[0]
        return pl.concat([self._empty, *parts]).sort(c.AT, c.OFFSET)

    def named(self, offsets: pl.Series, origin: str = "") -> pl.DataFrame | None:
        if self._empty is None:
            return None
        matches = (pl.col(c.ORIGIN) == origin) & pl.col(c.OFFSET).is_in(offsets.implode())
        return pl.concat([self._empty, *(run.frame.filter(matches) for run in self._runs)]).sort(c.OFFSET)

    def expire(self, before: int) -> int:
        """Delete messages before a position; lazily, if the join key is the first level."""
        self._floor = max(self._floor, before)
        return 0 if self.layout.equal_first else self._delete(Range(end=before), {})

    def retire(self, ranges: pl.DataFrame) -> int:
        sessions = ranges.select(c.SESSION, c.START, c.END)
        if sessions.height < MANY_RANGES:
            return sum(self._delete(Range(start, end), {c.SESSION: key}) for key, start, end in sessions.iter_rows())
        before = self.count()
        left = (run.without(run.inside(sessions)) for run in self._runs)
        self._runs = [run for run in left if run.frame.height]
        return before - self.count()

    def count(self) -> int:
        return sum(run.frame.height for run in self._runs)

    def bytes(self) -> int:
        return int(sum(run.frame.estimated_size() for run in self._runs))

    @property
    def _by_position(self) -> bool:
        return not self.layout.session and not self.layout.has_equal

    def _not_stored(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the messages that are not stored. Only offsets up to the greatest of their origin are searched for."""
        last = pl.col(c.ORIGIN).replace_strict(self._last, default=None, return_dtype=pl.Int64)
        may_be_stored = (pl.col(c.OFFSET) <= last).fill_null(False)
        if not messages.select(may_be_stored.any()).item():
            return messages
        for run in self._runs:
            messages = messages.join(run.frame, on=_MESSAGE_NAME, how="anti", maintain_order="left")
        return messages

    def _parts(self, within: Range, exact: dict[str, str]) -> Iterator[pl.DataFrame]:
        exact_bounds = self._by_position and not exact and within.start_offset is None and within.end_offset is None
        for run in self._runs:
            low, high = run.bounds(within, exact)
            if high > low:
                part = run.frame.slice(low, high - low)
                yield part if exact_bounds else part.filter(*self._conditions(within, exact))

    def _conditions(self, within: Range, exact: dict[str, str]) -> list[pl.Expr]:
        return [within.holds(), *(pl.col(name) == value for name, value in exact.items())]

    def _delete(self, within: Range, exact: dict[str, str]) -> int:
        before = self.count()
        matches = pl.all_horizontal(within.holds(), *(pl.col(name) == value for name, value in exact.items()))
        runs = []
        for run in self._runs:
            low, high = run.bounds(within, exact)
            if low == 0 and not exact and next(iter(run.levels)) == c.AT:
                run = run.slice(high, run.frame.height)
            elif high > low:
                inside = run.frame[low:high].select(matches).to_series()
                around = [pl.repeat(False, n, eager=True) for n in (low, run.frame.height - high)]
                run = run.without(pl.concat([around[0], inside, around[1]]))
            if run.frame.height:
                runs.append(run)
        self._runs = runs
        return before - self.count()

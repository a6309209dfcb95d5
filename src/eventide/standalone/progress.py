"""How far a stream has progressed: processed offsets, positions on the axis of windows, and the retention floor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import polars as pl

from eventide import _columns as c
from eventide._arguments import is_integer
from eventide.errors import PlanError, shown
from eventide.standalone.offsets import Offsets
from eventide.time import MIN, duration, format_duration
from eventide.windows import Axis
from eventide.windows.lateness import Lateness, is_complete, is_expired
from eventide.windows.rows import row_numbers

T = TypeVar("T", int, pl.Expr)

_KEY_POSITIONS = {c.SESSION: pl.String, c.STREAM_POSITION: pl.Int64, c.RETENTION_FLOOR: pl.Int64}


@dataclass(frozen=True)
class Retention:
    """The age and the number of rows beyond which windows are dropped. None: never."""

    time: int | None = None
    rows: int | None = None

    def floor(self, windows: pl.DataFrame, position: int) -> int:
        """Return the retention floor on the time axis: windows that end there, or before, are dropped."""
        floor = MIN if self.time is None else Lateness(self.time).live_from(position)
        if self.rows is None or windows.is_empty():
            return floor
        # The newest windows within the limit stay, and the newest window in any case.
        sizes = windows.group_by(c.END).agg(pl.col(c.ROWS).sum()).sort(c.END, descending=True)
        older = sizes.filter(pl.col(c.ROWS).cum_sum() > self.rows, pl.int_range(pl.len()) > 0)
        last_end = older[c.END].max()
        return max(floor, last_end) if isinstance(last_end, int) else floor

    def floor_by_count(self, position: T) -> T:
        """Return the retention floor on the row axis by the number of rows; ``position`` is the last row number."""
        assert self.rows is not None
        return position - self.rows + 1

    def row_floors(self, windows: pl.DataFrame, newest: int, by: pl.Expr) -> pl.DataFrame:
        """Return the retention floor on the row axis for each ``by``: the end of the last window that is too old.

        A full window is as old as the latest message in it or in an earlier window, so windows expire in their order.
        """
        if self.time is None:
            return windows.select(by, pl.col(c.END).alias(c.RETENTION_FLOOR)).clear()
        key = by.meta.output_name()
        is_full = is_complete(pl.col(c.END), pl.col(c.STREAM_POSITION))
        full = windows.filter(is_full).select(by, c.END, c.LAST_TIME).sort(c.END)
        old = full.filter(is_expired(pl.col(c.LAST_TIME).cum_max().over(key), newest, self.time))
        return old.group_by(key, maintain_order=True).agg(pl.col(c.END).max().alias(c.RETENTION_FLOOR))

    def describe(self) -> str:
        """One line for ``explain()``."""
        parts = [] if self.time is None else [format_duration(self.time)]
        parts += [] if self.rows is None else [f"{self.rows} rows"]
        return " and at most ".join(parts) or "everything"


def retention(allowed_lateness: str | timedelta | None, limit_rows: object) -> Retention:
    """Return checked bounds.

    >>> retention("1 hour", 1000).describe()
    '1h and at most 1000 rows'
    """
    if limit_rows is not None and not is_integer(limit_rows, at_least=1):
        raise PlanError(f"limit_rows={shown(limit_rows)}: give an integer of at least 1.")
    time = None if allowed_lateness is None else duration(allowed_lateness, what="allowed_lateness")
    return Retention(time, limit_rows)


@dataclass(frozen=True)
class AxisConfig:
    """The axis of windows, whether each key has row numbers of its own, and the retention."""

    axis: Axis
    per_key: bool
    retention: Retention
    knows_next: bool = False
    """A window is full as soon as the next message must be beyond it, not only when one is."""

    @property
    def by_row(self) -> bool:
        """Whether windows are counted in rows."""
        return self.axis == "rows"


@dataclass(frozen=True)
class Progress:
    """The progress of a stream. Methods return a new value."""

    axis_config: AxisConfig
    seen: Offsets = field(default_factory=Offsets)
    position: int = MIN
    """The greatest position of the stream."""
    key_positions: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_KEY_POSITIONS))
    """The greatest position and the retention floor of each key, where keys have row numbers of their own."""
    floor: int = MIN
    newest: int = MIN
    """The greatest event time of the stream."""

    def assign_positions(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Return the messages with their position: their time, or their number in the order of arrival, from 1."""
        if not self.axis_config.by_row:
            return messages.with_columns(pl.col(c.TIME).alias(c.AT))
        if not self.axis_config.per_key:
            return messages.with_columns(row_numbers(max(self.position, 0)).alias(c.AT))
        joined = messages.join(self.key_positions, on=c.SESSION, how="left", maintain_order="left")
        number = row_numbers(pl.col(c.STREAM_POSITION).fill_null(0), by=[c.SESSION])
        return joined.with_columns(number.alias(c.AT)).drop(c.STREAM_POSITION, c.RETENTION_FLOOR)

    def advance(self, messages: pl.DataFrame) -> Progress:
        """Return the progress after these messages, which have positions."""
        if messages.is_empty():
            return self
        position, newest = messages[c.AT].max(), messages[c.TIME].max()
        assert isinstance(position, int) and isinstance(newest, int)
        newest = max(self.newest, newest)
        if self.axis_config.per_key:
            positions = messages.select(c.SESSION, pl.col(c.AT).alias(c.STREAM_POSITION))
            return replace(self, key_positions=self._raised(positions), newest=newest)
        return replace(self, position=max(self.position, position), newest=newest)

    def with_seen(self, offsets: pl.Series) -> Progress:
        """Return the progress after these offsets."""
        return replace(self, seen=self.seen.including(offsets)) if offsets.len() else self

    def with_positions(self, frame: pl.DataFrame, name: str = c.STREAM_POSITION) -> pl.DataFrame:
        """Return messages or windows with the position up to which windows are full, and with the retention floor."""
        if not self.axis_config.per_key:
            ahead = 0 if self.position == MIN else int(self.axis_config.knows_next)
            values = {name: self.position + ahead, c.RETENTION_FLOOR: self.lowest_floor()}
            return frame.with_columns(pl.lit(value, pl.Int64).alias(column) for column, value in values.items())
        joined = frame.join(self.key_positions, on=c.SESSION, how="left", maintain_order="left")
        retention = self.axis_config.retention
        no_count = retention.rows is None
        by_count = pl.lit(None, pl.Int64) if no_count else retention.floor_by_count(pl.col(c.STREAM_POSITION))
        floor = pl.max_horizontal(by_count, c.RETENTION_FLOOR).fill_null(MIN)
        position = pl.col(c.STREAM_POSITION).fill_null(MIN)
        return joined.with_columns(floor.alias(c.RETENTION_FLOOR), position).rename({c.STREAM_POSITION: name})

    def raise_floor(self, windows: pl.DataFrame) -> Progress:
        """Return the progress with the retention floor for these windows."""
        config = self.axis_config
        if config.retention == Retention():
            return self
        if config.by_row:
            by = pl.col(c.SESSION) if config.per_key else pl.lit("").alias(c.SESSION)
            positioned = self.with_positions(windows).drop(c.RETENTION_FLOOR)
            floors = config.retention.row_floors(positioned, self.newest, by)
            if floors.is_empty():
                return self
            if config.per_key:
                return replace(self, key_positions=self._raised(floors))
            return replace(self, floor=max(self.floor, floors[c.RETENTION_FLOOR].item()))
        if self.position == MIN:
            return self
        return replace(self, floor=max(self.floor, config.retention.floor(windows, self.position)))

    def lowest_floor(self) -> int:
        """Return the retention floor of all keys, where they share one axis.

        Windows on the time axis expire by time and rows. Windows on the row axis expire by rows and by their age.
        """
        retention = self.axis_config.retention
        if not self.axis_config.by_row or retention.rows is None or self.position == MIN:
            return self.floor
        return max(self.floor, retention.floor_by_count(self.position))

    def saved(self) -> dict[str, Any]:
        """Return the progress as it is saved."""
        return {
            "seen": self.seen.frame(),
            "forgotten": self.seen.forgotten,
            "position": self.position,
            "key_positions": self.key_positions,
            "floor": self.floor,
            "newest": self.newest,
        }

    def restored(self, saved: dict[str, Any]) -> Progress:
        """Return the progress that was saved."""
        values = {name: saved[name] for name in ("position", "key_positions", "floor", "newest")}
        forgotten = saved["forgotten"]
        seen = Offsets.from_frame(saved["seen"], None if forgotten is None else (forgotten[0], forgotten[1]))
        return replace(self, seen=seen, **values)

    def _raised(self, values: pl.DataFrame) -> pl.DataFrame:
        """Return the positions and floors of each key, raised to new values. Both only grow."""
        both = pl.concat([self.key_positions, values], how="diagonal")
        return both.group_by(c.SESSION, maintain_order=True).agg(pl.col(c.STREAM_POSITION, c.RETENTION_FLOOR).max())

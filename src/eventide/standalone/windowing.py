"""What messages do to windows, as columns: they enter, windows merge, policies tell, retention drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from eventide.operators import columns as c
from eventide.standalone import columns as s
from eventide.standalone.contents import Content
from eventide.standalone.placing import FixedWindows, SessionWindows
from eventide.standalone.policies import FIRES, MOVED, Policies
from eventide.standalone.progress import Progress
from eventide.standalone.stores.windows import NAME
from eventide.triggers.trigger import ADDED

ADDED_ = ADDED.meta.output_name()
_ENTERED = "__entered"  # messages have entered the window
_TELLING, _EXPIRED, _SAME = "__telling", "__expired", "__same"
_OLD_START, _OLD_END = "__old_start", "__old_end"
_OLD = [pl.col(c.START).alias(_OLD_START), pl.col(c.END).alias(_OLD_END)]
_BOUNDS = pl.Struct({"start": pl.Int64(), "end": pl.Int64()})
_FACTS: dict[str, pl.DataType] = {
    s.START_OFFSET: pl.Int64(),
    s.LAST_OFFSET: pl.Int64(),
    s.FIRST_TIME: pl.Int64(),
    s.LAST_TIME: pl.Int64(),
    c.ROWS: pl.Int64(),
    s.PENDING: pl.Int64(),
    s.TOLD: pl.Int64(),
    s.REPLACES: pl.List(_BOUNDS),
}


@dataclass(frozen=True)
class Entered:
    """Windows that messages entered, as they are now; those they have swallowed; and whether any is new."""

    windows: pl.DataFrame
    gone: pl.DataFrame
    opened: bool
    failed: pl.DataFrame | None = None


@dataclass(frozen=True)
class Judged:
    """Windows that policies looked at, as they are afterwards; those to tell, as they were; those out of retention."""

    windows: pl.DataFrame
    told: pl.DataFrame
    expired: pl.DataFrame


class Windowing:
    """Pure: windows go in, windows come out."""

    def __init__(
        self,
        placing: FixedWindows | SessionWindows,
        policies: Policies,
        content: Content,
        key: Sequence[str],
        schema: pl.Schema,
    ) -> None:
        self._placing = placing
        self._policies = policies
        self._content = content
        self._key = list(key)
        names = {s.SESSION: pl.String(), c.START: pl.Int64(), c.END: pl.Int64()}
        own = {name: schema[name] for name in key}
        self.schema = pl.Schema(names | own | _FACTS | dict(content.schema) | policies.schema())
        changes = [
            pl.lit(0, pl.Int64).alias(s.PENDING),
            (pl.col(s.TOLD).fill_null(0) + 1).alias(s.TOLD),
            pl.lit([], pl.List(_BOUNDS)).alias(s.REPLACES),
            *content.afterwards(),
        ]
        self._after_telling = [
            pl.when(_TELLING).then(new).otherwise(pl.col(name).fill_null(0) if name == s.TOLD else name).alias(name)
            for new, name in ((change, change.meta.output_name()) for change in changes)
        ]

    def entered(self, placed: pl.DataFrame, windows: pl.DataFrame) -> Entered:
        """The windows that hold these messages."""
        cells, failed = self._content.started(placed.filter(s.NEW))
        if failed is not None:
            placed = placed.join(failed, on=s.OFFSET, how="anti", maintain_order="left")
        if placed.is_empty():
            none = self.untouched(pl.DataFrame(schema=self.schema))
            return Entered(none, none, False, failed)
        new = self._new(placed, cells)
        by = [s.SESSION] if isinstance(self._placing, SessionWindows) else NAME
        known = windows.join(new, on=by, how="semi", maintain_order="left")
        none_added = pl.lit(0, pl.Int64).alias(ADDED_)
        together = pl.concat([known.with_columns(none_added), new]) if known.height else new
        merged = self._merged(self._placing.target(together.with_columns(_OLD)))
        gone = known.join(merged, on=NAME, how="anti").select(NAME) if known.height else known
        opened = merged.height > known.height - gone.height
        return Entered(merged, gone, opened, failed)

    def untouched(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Windows that no message has entered."""
        return windows.with_columns(pl.lit(0, pl.Int64).alias(ADDED_), pl.lit(False).alias(MOVED))

    def judged(
        self, entered: pl.DataFrame, others: pl.DataFrame, before: Progress, after: Progress, now: int
    ) -> Judged:
        """Which windows are told, and which go. Of the others, only those are looked at for which it is time."""
        windows = entered.with_columns(pl.lit(True).alias(_ENTERED))
        if others.height:
            untouched = self.untouched(others).with_columns(pl.lit(False).alias(_ENTERED))
            windows = pl.concat([windows, untouched.select(windows.columns)])
        windows = after.beside(before.beside(windows, s.WAS_FRONT).drop(s.FLOOR))
        full, expired = self._policies.full, pl.col(c.END) <= pl.col(s.FLOOR)
        filled = ~full.passed(pl.col(s.WAS_FRONT)) & full.passed(pl.col(s.FRONT))
        windows = windows.filter(pl.col(_ENTERED) | filled | expired | self._policies.wakes(now)).drop(_ENTERED)
        telling = ((pl.col(FIRES) | expired) & (pl.col(s.PENDING) > 0)).alias(_TELLING)
        windows = self._policies.evaluated(windows, now).with_columns(telling, expired.alias(_EXPIRED))
        told = windows.filter(_TELLING)
        told = told.sort(c.END, c.START, s.SESSION) if told.height > 1 else told
        gone = windows.filter(_EXPIRED).select(NAME) if windows[_EXPIRED].any() else windows.clear()
        kept = windows.lazy().filter(~pl.col(_EXPIRED)).with_columns(self._after_telling).select(self.schema.names())
        return Judged(kept.collect(engine="in-memory"), told, gone)

    def _new(self, placed: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
        """What the messages bring to each window that they enter."""
        rows, new_rows = pl.len().cast(pl.Int64), pl.col(s.NEW).sum().cast(pl.Int64)
        facts = placed.lazy().group_by(NAME, maintain_order=True)
        blank: dict[str, pl.DataType] = {s.TOLD: pl.Int64(), **self._policies.schema()}
        new = facts.agg(
            *(pl.col(name).first() for name in self._key),
            pl.col(s.OFFSET).min().alias(s.START_OFFSET),
            pl.col(s.OFFSET).max().alias(s.LAST_OFFSET),
            pl.col(c.TIME).min().alias(s.FIRST_TIME),
            pl.col(c.TIME).max().alias(s.LAST_TIME),
            rows.alias(c.ROWS),
            new_rows.alias(s.PENDING),
            new_rows.alias(ADDED_),
        ).with_columns(
            pl.lit([], pl.List(_BOUNDS)).alias(s.REPLACES),
            *(pl.lit(None, dtype).alias(name) for name, dtype in blank.items()),
        )
        whole = new.join(cells.lazy(), on=NAME, how="left", maintain_order="left").select(*self.schema.names(), ADDED_)
        return whole.collect(engine="in-memory")

    def _merged(self, together: pl.DataFrame) -> pl.DataFrame:
        """What is known and what is new of each window, as one."""
        known = pl.col(s.TOLD).is_not_null()
        same = known & (pl.col(c.START) == pl.col(_OLD_START)) & (pl.col(c.END) == pl.col(_OLD_END))
        old = pl.concat_list(pl.struct(start=_OLD_START, end=_OLD_END))
        swallowed = pl.when((pl.col(s.TOLD) > 0) & ~pl.col(_SAME)).then(old).otherwise(pl.lit([], pl.List(_BOUNDS)))
        merging = together.lazy().with_columns(same.alias(_SAME))
        facts = (
            merging.with_columns(pl.concat_list(s.REPLACES, swallowed).alias(s.REPLACES))
            .group_by(NAME, maintain_order=True)
            .agg(
                *(pl.col(name).first() for name in self._key),
                pl.col(s.START_OFFSET).min(),
                pl.col(s.LAST_OFFSET).max(),
                pl.col(s.FIRST_TIME).min(),
                pl.col(s.LAST_TIME).max(),
                pl.col(c.ROWS, s.PENDING, ADDED_).sum(),
                # A window whose bounds are new has told nothing yet.
                pl.when(pl.col(_SAME).any()).then(pl.col(s.TOLD).max()).when(known.any()).then(0).alias(s.TOLD),
                pl.col(s.REPLACES).list.explode(keep_nulls=False, empty_as_null=False),
                (~pl.col(_SAME).any()).alias(MOVED),
                *self._policies.merging(),
            )
        )
        content = self._content.merged(together).lazy()
        whole = facts.join(content, on=NAME, how="left", maintain_order="left")
        return whole.select(*self.schema.names(), ADDED_, MOVED).collect(engine="in-memory")

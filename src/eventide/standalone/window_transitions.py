"""What messages do to windows, as pure functions of frames: windows receive messages, merge, emit panes and expire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from eventide import _columns as c
from eventide.operators.emission import FIRST_INDEX, new_window, next_index
from eventide.standalone.assignment import FixedAssigner, SessionAssigner
from eventide.standalone.policies import Policies
from eventide.standalone.progress import Progress
from eventide.standalone.stores.memory import WINDOW_NAME
from eventide.standalone.window_contents import Content
from eventide.triggers.evaluation import FIRES, MOVED
from eventide.triggers.trigger import ADDED
from eventide.windows.lateness import is_expired

_ADDED = ADDED.meta.output_name()
_TOUCHED = "__touched"  # messages were added to the window
_UNCHANGED = "__unchanged"
_OLD_BOUNDS = [pl.col(c.START).alias(c.OLD_START), pl.col(c.END).alias(c.OLD_END)]
_BOUNDS = pl.Struct({"start": pl.Int64(), "end": pl.Int64()})
_NOTHING_REPLACED = pl.lit([], pl.List(_BOUNDS))
_FIELDS: dict[str, pl.DataType] = {
    c.START_OFFSET: pl.Int64(),
    c.LAST_OFFSET: pl.Int64(),
    c.FIRST_TIME: pl.Int64(),
    c.LAST_TIME: pl.Int64(),
    c.ROWS: pl.Int64(),
    c.PENDING: pl.Int64(),
    c.EMITTED_PANES: pl.Int64(),
    c.REPLACED: pl.List(_BOUNDS),
}


@dataclass(frozen=True)
class TouchedWindows:
    """Windows with new messages, the windows that were merged into them, and whether any window is new."""

    windows: pl.DataFrame
    merged_away: pl.DataFrame
    opened: bool
    failed: pl.DataFrame | None = None


@dataclass(frozen=True)
class EvaluatedWindows:
    """Windows after their policies were evaluated, the windows to emit as they were before, and expired windows."""

    windows: pl.DataFrame
    emitted: pl.DataFrame
    expired: pl.DataFrame


class WindowTransitions:
    """The transitions of windows. ``schema`` has the columns of a stored window."""

    def __init__(
        self,
        assigner: FixedAssigner | SessionAssigner,
        policies: Policies,
        content: Content,
        key: Sequence[str],
        schema: pl.Schema,
    ) -> None:
        self._assigner = assigner
        self._policies = policies
        self._content = content
        self._key = list(key)
        name = {c.SESSION: pl.String(), c.START: pl.Int64(), c.END: pl.Int64()}
        keys = {column: schema[column] for column in key}
        self.schema = pl.Schema(name | keys | _FIELDS | dict(content.schema) | policies.trigger.schema())
        emitted = pl.col(c.EMIT)
        reset = [
            pl.lit(0, pl.Int64).alias(c.PENDING),
            _NOTHING_REPLACED.alias(c.REPLACED),
            *content.after_emission(),
        ]
        self._after_emission = [
            next_index(pl.col(c.EMITTED_PANES).fill_null(FIRST_INDEX), emitted).alias(c.EMITTED_PANES),
            *(
                pl.when(emitted).then(value).otherwise(name).alias(name)
                for value, name in ((value, value.meta.output_name()) for value in reset)
            ),
        ]

    def add(self, assigned: pl.DataFrame, windows: pl.DataFrame) -> TouchedWindows:
        """Add messages to the windows that they are assigned to."""
        cells, failed = self._content.start(assigned.filter(c.CONTRIBUTES))
        if failed is not None:
            assigned = assigned.join(failed, on=c.OFFSET, how="anti", maintain_order="left")
        if assigned.is_empty():
            nothing = self.untouched(pl.DataFrame(schema=self.schema))
            return TouchedWindows(nothing, nothing, False, failed)
        new = self._new(assigned, cells)
        by = [c.SESSION] if isinstance(self._assigner, SessionAssigner) else WINDOW_NAME
        stored = windows.join(new, on=by, how="semi", maintain_order="left")
        none_added = pl.lit(0, pl.Int64).alias(_ADDED)
        together = pl.concat([stored.with_columns(none_added), new]) if stored.height else new
        merged = self._merge(self._assigner.merge(together.with_columns(_OLD_BOUNDS)))
        merged_away = stored.join(merged, on=WINDOW_NAME, how="anti").select(WINDOW_NAME) if stored.height else stored
        opened = merged.height > stored.height - merged_away.height
        return TouchedWindows(merged, merged_away, opened, failed)

    def untouched(self, windows: pl.DataFrame) -> pl.DataFrame:
        """Return windows without new messages, with the columns of touched windows."""
        return windows.with_columns(pl.lit(0, pl.Int64).alias(_ADDED), pl.lit(False).alias(MOVED))

    def evaluate(
        self, touched: pl.DataFrame, others: pl.DataFrame, before: Progress, after: Progress, now: int
    ) -> EvaluatedWindows:
        """Evaluate the policies of touched windows, and of others that are full, expired or due in this step."""
        windows = touched.with_columns(pl.lit(True).alias(_TOUCHED))
        if others.height:
            untouched = self.untouched(others).with_columns(pl.lit(False).alias(_TOUCHED))
            windows = pl.concat([windows, untouched.select(windows.columns)])
        before_step = before.with_positions(windows, c.PREVIOUS_STREAM_POSITION).drop(c.RETENTION_FLOOR)
        windows = after.with_positions(before_step)
        full, expired = self._policies.full, is_expired(pl.col(c.END), pl.col(c.RETENTION_FLOOR))
        fills = ~full.is_passed(pl.col(c.PREVIOUS_STREAM_POSITION)) & full.is_passed(pl.col(c.STREAM_POSITION))
        windows = windows.filter(pl.col(_TOUCHED) | fills | expired | self._policies.is_due(now)).drop(_TOUCHED)
        emit = ((pl.col(FIRES) | expired) & (pl.col(c.PENDING) > 0)).alias(c.EMIT)
        windows = self._policies.evaluate(windows, now).with_columns(emit, expired.alias(c.EXPIRED))
        emitted = windows.filter(c.EMIT)
        emitted = emitted.sort(c.END, c.START, c.SESSION) if emitted.height > 1 else emitted
        removed = windows.filter(c.EXPIRED).select(WINDOW_NAME) if windows[c.EXPIRED].any() else windows.clear()
        live = windows.lazy().filter(~pl.col(c.EXPIRED)).with_columns(self._after_emission).select(self.schema.names())
        return EvaluatedWindows(live.collect(engine="in-memory"), emitted, removed)

    def _new(self, assigned: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
        """Return the messages of each window as a new window."""
        contributing = pl.col(c.CONTRIBUTES).sum().cast(pl.Int64)
        unset: dict[str, pl.DataType] = {c.EMITTED_PANES: pl.Int64(), **self._policies.trigger.schema()}
        new = (
            assigned.lazy()
            .group_by(WINDOW_NAME, maintain_order=True)
            .agg(
                *(pl.col(name).first() for name in self._key),
                pl.col(c.OFFSET).min().alias(c.START_OFFSET),
                pl.col(c.OFFSET).max().alias(c.LAST_OFFSET),
                pl.col(c.TIME).min().alias(c.FIRST_TIME),
                pl.col(c.TIME).max().alias(c.LAST_TIME),
                pl.len().cast(pl.Int64).alias(c.ROWS),
                contributing.alias(c.PENDING),
                contributing.alias(_ADDED),
            )
            .with_columns(
                _NOTHING_REPLACED.alias(c.REPLACED),
                *(pl.lit(None, dtype).alias(name) for name, dtype in unset.items()),
            )
            .join(cells.lazy(), on=WINDOW_NAME, how="left", maintain_order="left")
        )
        return new.select(*self.schema.names(), _ADDED).collect(engine="in-memory")

    def _merge(self, together: pl.DataFrame) -> pl.DataFrame:
        """Merge stored and new windows of the same name."""
        stored = pl.col(c.EMITTED_PANES).is_not_null()
        unchanged = stored & (pl.col(c.START) == pl.col(c.OLD_START)) & (pl.col(c.END) == pl.col(c.OLD_END))
        old_bounds = pl.concat_list(pl.struct(start=c.OLD_START, end=c.OLD_END))
        was_emitted = (pl.col(c.EMITTED_PANES) > FIRST_INDEX) & ~pl.col(_UNCHANGED)
        replaced = pl.when(was_emitted).then(old_bounds).otherwise(_NOTHING_REPLACED)
        windows = (
            together.lazy()
            .with_columns(unchanged.alias(_UNCHANGED))
            .with_columns(pl.concat_list(c.REPLACED, replaced).alias(c.REPLACED))
            .group_by(WINDOW_NAME, maintain_order=True)
            .agg(
                *(pl.col(name).first() for name in self._key),
                pl.col(c.START_OFFSET).min(),
                pl.col(c.LAST_OFFSET).max(),
                pl.col(c.FIRST_TIME).min(),
                pl.col(c.LAST_TIME).max(),
                pl.col(c.ROWS, c.PENDING, _ADDED).sum(),
                pl.col(c.EMITTED_PANES).max(),
                pl.col(c.REPLACED).list.explode(keep_nulls=False, empty_as_null=False),
                (~pl.col(_UNCHANGED).any()).alias(MOVED),
                *self._policies.trigger.merged(),
            )
            .with_columns(new_window(stored & pl.col(MOVED), [c.EMITTED_PANES]))
            .join(self._content.merge(together).lazy(), on=WINDOW_NAME, how="left", maintain_order="left")
        )
        return windows.select(*self.schema.names(), _ADDED, MOVED).collect(engine="in-memory")

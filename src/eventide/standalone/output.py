"""Output rows, and the outbox: it numbers outputs, stores them until downstream accepts them, and sends them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

import polars as pl

from eventide import _columns as c
from eventide.errors import Rejected
from eventide.operators.emission import FIRST_INDEX
from eventide.panes import (
    EMITTED_AT,
    INSTANT,
    PANE_INDEX,
    PANE_TIMING,
    REASON,
    ROW_EMITTED_AT,
    TIMING,
    window_bounds,
)
from eventide.standalone.config import OperatorConfig
from eventide.standalone.stores import Store
from eventide.standalone.stores.memory import WINDOW_NAME

Downstream: TypeAlias = Callable[[pl.DataFrame], object]

_log = logging.getLogger("eventide.standalone")


def output_rows(emitted: pl.DataFrame, content: pl.DataFrame, config: OperatorConfig, now: int) -> pl.DataFrame:
    """Return the outputs of windows with the columns of panes; sessions also name the windows that they replace."""
    timing = pl.col(c.TIMING) if c.TIMING in emitted.columns else pl.lit(None, TIMING).alias(c.TIMING)
    panes = emitted.select(*WINDOW_NAME, c.REPLACED, timing, pl.col(c.EMITTED_PANES).fill_null(FIRST_INDEX))
    visible = [name for name in content.columns if name not in WINDOW_NAME]
    pane_columns = [
        pl.col(c.TIMING).alias(PANE_TIMING),
        pl.col(c.EMITTED_PANES).alias(PANE_INDEX),
        pl.lit(now, pl.Int64).cast(INSTANT).alias(EMITTED_AT),
        pl.lit(None, pl.Int64).alias(c.PANE_NUMBER),  # the outbox numbers outputs
    ]
    by_row = config.axis_config.by_row
    start, end = (pl.element().struct.field(name) for name in ("start", "end"))
    bounds = pl.struct(window_bounds(start, end, by_row=by_row))
    replaces = [pl.col(c.REPLACED).list.eval(bounds).alias(c.REPLACED_WINDOWS)] if config.shows_replaced else []
    rows = content.lazy().join(panes.lazy(), on=WINDOW_NAME, how="left", maintain_order="left")
    return rows.select(*visible, *window_bounds(by_row=by_row), *replaces, *pane_columns).collect(engine="in-memory")


def window_rows(windows: pl.DataFrame, content: pl.DataFrame, *, by_row: bool, has_time: bool) -> pl.DataFrame:
    """Return windows with their offsets, times and sizes. Without a time column the times are null."""
    if not has_time:
        windows = windows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in (c.FIRST_TIME, c.LAST_TIME))
    facts = windows.select(
        *WINDOW_NAME,
        pl.col(c.START_OFFSET).alias("window_start_offset"),
        pl.col(c.LAST_OFFSET).alias("window_last_offset"),
        pl.col(c.FIRST_TIME).cast(INSTANT).alias("window_first_time"),
        pl.col(c.LAST_TIME).cast(INSTANT).alias("window_last_time"),
        pl.col(c.ROWS).alias("window_rows"),
        pl.col(c.PENDING).alias("window_pending"),
    )
    visible = [name for name in content.columns if name not in WINDOW_NAME]
    rows = content.join(facts, on=WINDOW_NAME, how="left", maintain_order="left")
    return rows.select(*visible, *window_bounds(by_row=by_row), *c.WINDOW_FACTS)


def message_rows(messages: pl.DataFrame, windows: pl.DataFrame | None) -> pl.DataFrame:
    """Return messages, without those that are pending in ``windows``."""
    if windows is None or c.PENDING_OFFSETS not in windows.columns:
        return messages
    pending = windows.select(
        pl.col(c.PENDING_OFFSETS).list.explode(keep_nulls=False, empty_as_null=False).alias(c.OFFSET)
    )
    return messages.join(pending, on=c.OFFSET, how="anti", maintain_order="left")


def dead_letters(messages: pl.DataFrame, reason: str | None, schema: pl.Schema, now: int) -> pl.DataFrame:
    """Return the original messages, with the reason and the time."""
    reasons = pl.col(c.REASON) if reason is None else pl.lit(reason)
    at = pl.lit(now, pl.Int64).cast(INSTANT)
    return messages.select(*schema.names(), reasons.alias(REASON), at.alias(ROW_EMITTED_AT))


class Outbox:
    """The pending outputs of an operator, each with a unique number."""

    def __init__(self, store: Store, downstream: Downstream | None, last: int) -> None:
        self._store = store
        self._downstream = downstream
        self.last = last
        self._pending = store.outputs()
        self.blocked = downstream is not None and bool(self._pending)

    @property
    def pending(self) -> list[pl.DataFrame]:
        """The outputs that were not accepted yet."""
        return [output for _, output in self._pending]

    @property
    def automatic(self) -> bool:
        """Whether outputs are sent downstream."""
        return self._downstream is not None

    def add(self, outputs: Sequence[pl.DataFrame]) -> None:
        """Add outputs, with their number in ``pane_number``."""
        for output in outputs:
            self.last += 1
            numbered = output.with_columns(pl.lit(self.last, pl.Int64).alias(c.PANE_NUMBER))
            self._store.keep(self.last, numbered)
            self._pending.append((self.last, numbered))

    def send(self) -> bool:
        """Send the pending outputs in order. False: one was rejected, and it stays pending with all after it."""
        if self._downstream is None:
            return True
        sent = 0
        try:
            for _, output in self._pending:
                if self._downstream(output) is False:
                    break
                sent += 1
        except Rejected as rejection:
            _log.info("downstream rejected an output: %s", rejection)
        finally:  # accepted outputs are not sent again, even if a later one fails
            self._remove(sent)
            self.blocked = bool(self._pending)
        if self.blocked:
            _log.warning(
                "downstream rejected an output; %d are pending, and no messages are accepted", len(self._pending)
            )
        return not self.blocked

    def clear(self) -> None:
        """Mark all pending outputs as accepted."""
        self._remove(len(self._pending))

    def _remove(self, count: int) -> None:
        if count:
            self._store.drop(self._pending[count - 1][0])
            del self._pending[:count]

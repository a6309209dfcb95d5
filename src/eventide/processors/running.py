"""One bundle of a processor: whom it is told what, in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import polars as pl

from eventide.errors import EventideError
from eventide.errors import processing as errors
from eventide.processors.context import ROW, Context
from eventide.processors.processor import Processor
from eventide.processors.timers import AT
from eventide.time import MAX, format_instant
from eventide.watermarks import Watermark

_ROUNDS = 100  # of timers that set timers, without coming any further

T = TypeVar("T")


class Running:
    """A fresh copy of a processor at work on one bundle. ``sent`` are the watermarks that it has sent on so far."""

    def __init__(self, processor: Processor, context: Context, sent: Mapping[int, int], *, on_error: str) -> None:
        self._processor = deepcopy(processor)
        self._context = context
        self.sent = dict(sent)
        object.__setattr__(self._processor, "context", context)  # a frozen dataclass may be a processor too
        if hasattr(self._processor, "on_error"):
            object.__setattr__(self._processor, "on_error", on_error)
        self._call("open", None, self._processor.open, context)

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        """The rows of an input."""
        if rows.height:
            self._context.given(edge, rows.height)
            self._call(
                "process", rows, self._processor.process, edge, rows.with_columns(pl.int_range(pl.len()).alias(ROW))
            )
            self._context.given(None)

    def edge_watermark(self, edge: str, watermark: Watermark) -> None:
        """An input has come this far."""
        told = self._call("on_edge_watermark", None, self._processor.on_edge_watermark, edge, watermark)
        self._send("on_edge_watermark", told)

    def watermark(self, watermark: Watermark) -> None:
        """All inputs have come this far."""
        self._send("on_watermark", self._call("on_watermark", None, self._processor.on_watermark, watermark))

    def timers(self) -> None:
        """All timers that are due, and those that are set and due meanwhile."""
        rounds, furthest = 0, None
        while (due := self._context.timers.due()).height:
            self._call("on_timer", due, self._processor.on_timer, due)
            if self._context.watermark == MAX:  # everything is due, and what repeats would do so for ever
                self._context.timers.due()
                return
            at: Any = due[AT].to_physical().min()
            rounds, furthest = (rounds + 1, furthest) if furthest is not None and at <= furthest else (0, at)
            if rounds >= _ROUNDS:
                raise errors.timers_never_end(self._context.who, rounds)

    def _send(self, method: str, told: Any) -> None:
        who = self._context.who
        if told is None or isinstance(told, Watermark):
            told = () if told is None else (told,)
        if not isinstance(told, Sequence) or not all(isinstance(one, Watermark) for one in told):
            raise errors.not_a_mark(who, method, told)
        for one in told:
            before = self.sent.get(one.key)
            if before is not None and one.time < before:
                raise errors.mark_went_back(who, one.key, format_instant(before), format_instant(one.time))
            self.sent[one.key] = one.time

    def _call(self, method: str, rows: pl.DataFrame | None, call: Callable[..., T], *given: Any) -> T:
        try:
            return call(*given)
        except EventideError as cause:
            located = errors.misused(self._context.who, method, cause)
            if located is cause:
                raise
            raise located from cause
        except Exception as cause:
            row = None if rows is None else rows.select(pl.exclude(r"^__.*$")).row(0, named=True)
            raise errors.processor_failed(self._context.who, method, row, cause) from cause

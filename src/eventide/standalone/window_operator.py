"""The standalone window operator: the procedure that all of its kinds share.

1. While downstream rejects outputs, no message is accepted.
2. A message whose offset was processed before is a replay, and changes nothing.
3. A message whose windows have all expired is a dead letter.
4. Other messages are added to their windows, which are created if needed.
5. The policies decide which windows emit a pane: early, when a window is full, or late.
6. Outputs are committed together with all other state, then sent.
7. Expired windows are dropped.

Window kinds, aggregates, triggers (``triggers.evaluation``), pane timing and pane index (``operators.emission``),
session merging (``windows.sessions``), row numbers (``windows.rows``), expiry (``windows.lateness``) and window bounds
(``panes``) are those of pipelines. The differences are deliberate:

- Time advances with the messages, not with a watermark. An operator reads one stream, so a window is full when a
  message reaches its end; ``full=`` adds a delay or a number of messages. ``timeout()`` only passes deadlines of
  processing time.
- A pane is late after the full pane was emitted, not after the watermark has passed: a window that is full by its
  number of messages may still be ahead of the stream.
- Windows expire by retention (``allowed_lateness``, ``limit_rows``), measured from the newest message. Both are
  optional: a caller that reads windows back may want all of them. A message for expired windows is a dead letter
  instead of a late row, because there is no late output.
- A pane is emitted only if messages are pending. There are no empty panes, since no caller waits for a watermark.
- Merged sessions name the windows that they replace instead of retracting them: downstream stores results by window.
- Messages have offsets, and are deduplicated by them, because a caller replays messages after a crash.
- Outputs have a number and no ``diff``: delivery is at least once, and the number identifies a repeated output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import polars as pl

from eventide import _columns as c
from eventide.errors import DataError, PlanError, Rejected
from eventide.panes import WINDOW
from eventide.standalone.config import OperatorConfig
from eventide.standalone.intake import ArrivalClock, Instant, Rows, admit, frame_of
from eventide.standalone.lookup import Lookup
from eventide.standalone.output import Downstream, Outbox, dead_letters, message_rows, output_rows, window_rows
from eventide.standalone.progress import Progress
from eventide.standalone.recovery import MessageRecovery
from eventide.standalone.stores import MemoryStore, SqliteStore
from eventide.standalone.stores.memory import WINDOW_NAME
from eventide.standalone.window_contents import Content
from eventide.standalone.window_transitions import WindowTransitions
from eventide.state.format import dump, load
from eventide.time import MIN

Dead: TypeAlias = Callable[[pl.DataFrame], object]


class WindowOperator:
    """The base of all standalone operators. Use one of its kinds, such as ``WindowAggregator``."""

    def __init__(
        self,
        config: OperatorConfig,
        *,
        store: str | Path | None,
        downstream: Downstream | None,
        dead: Dead | None,
        schema: Mapping[str, Any] | None,
    ) -> None:
        self._config = config
        self._dead = dead
        self._dead_letters: list[pl.DataFrame] = []
        self._store = MemoryStore(config.layout) if store is None else SqliteStore(store, config.layout)
        self._progress = Progress(config.axis_config)
        self._clock = ArrivalClock()
        self._schema: pl.Schema | None = None
        self._content: Content | None = None
        self._transitions: WindowTransitions | None = None
        self._recovery: MessageRecovery | None = None
        try:
            saved = self._store.state()
            last = 0 if saved is None else self._restore(load(saved), str(store))
            if schema is not None and self._schema is None:
                self._bind(pl.Schema(schema))
        except BaseException:
            self._store.close()
            raise
        self._outbox = Outbox(self._store, downstream, last)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._config.assigner.kind.describe()}>"

    def add_message(self, message: Rows, *, now: Instant | None = None) -> None:
        """Process a message (a dict) or several (a list of dicts, or a frame), at the time ``now``.

        Several messages are one step: policies are evaluated once, after the last of them.
        """
        if self._outbox.blocked:
            raise Rejected(
                f"This operator accepts no messages now: downstream rejected a result, and {len(self._outbox.pending)} "
                "are pending. Nothing is lost. Call timeout() until it returns True, then add this message again."
            )
        frame = frame_of(message, self._schema)
        self._bind(frame.schema)
        arrival = self._clock.advance(now)
        messages, unusable = admit(frame, self._config.roles)
        self._deliver(self._process(messages, unusable, arrival))

    def timeout(self, *, now: Instant | None = None) -> bool:
        """Advance to ``now``: send rejected outputs again, then emit what is due. False: downstream rejects again."""
        arrival = self._clock.advance(now)
        if self._outbox.blocked and not self._send():
            return False
        if self._transitions is not None:
            self._deliver(self._evaluate(None, self._progress, arrival))
        return not self._outbox.blocked

    def get_result(self) -> pl.DataFrame:
        """Return a copy of the pending outputs: those not flushed, or not accepted by downstream."""
        pending = self._outbox.pending
        if pending:
            return pl.concat(pending)
        return pl.DataFrame() if self._transitions is None else self._outputs(self._no_windows(), self._clock.now)

    def flush(self) -> None:
        """Commit all state. Without ``downstream``, the pending outputs count as accepted."""
        if not self._outbox.automatic:
            self._outbox.clear()
        self._commit()

    def get_windows(
        self, start: Instant | None = None, end: Instant | None = None, *, key: object = None
    ) -> pl.DataFrame:
        """Return the windows that overlap ``[start, end)``, in the order in which they expire.

        Windows counted in rows are found by the offsets of their messages: those that hold one in ``[start, end)``.
        """
        if self._content is None:
            raise _no_schema()
        windows = self._lookup().windows(start, end, key)
        content = self._content.inspect(windows, self._store.messages)
        by_row, has_time = self._config.axis_config.by_row, self._config.roles.time is not None
        return window_rows(windows, content, by_row=by_row, has_time=has_time)

    def get_messages(
        self,
        start: Instant | None = None,
        end: Instant | None = None,
        *,
        key: object = None,
        on: object = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
        emitted_only: bool = False,
    ) -> pl.DataFrame:
        """Return the stored messages in ``[start, end)``, all of them or those of a key, by time and offset.

        Offsets refine the ends: messages at ``start`` count from ``start_offset`` on, and those at ``end`` itself up to
        ``end_offset``. Without ``start`` or ``end``, offsets are bounds by themselves. Where windows are counted in
        rows, ``start`` and ``end`` are offsets, too. ``emitted_only`` leaves out messages that were not
        emitted yet.
        """
        if self._content is None:
            raise _no_schema()
        if not self._content.needs_messages:
            raise PlanError(
                f"This {self._config.roles.operator} stores no messages: its windows store the aggregates. Call "
                "get_windows(), or add an aggregate that needs every value, such as ev.collect_list(…)."
            )
        messages = self._lookup().messages(start, end, key=key, on=on, start_offset=start_offset, end_offset=end_offset)
        if messages is None:
            return pl.DataFrame(schema=self._columns)
        windows = self._store.windows.all() if emitted_only else None
        return message_rows(messages, windows).select(self._columns.names())

    @property
    def dead(self) -> pl.DataFrame:
        """The dead letters so far, with a reason; none if ``dead=`` receives them."""
        return pl.concat(self._dead_letters, how="vertical_relaxed") if self._dead_letters else pl.DataFrame()

    @property
    def checkpoint(self) -> int | None:
        """The greatest processed offset. Messages up to it may be replayed without effect."""
        return self._progress.seen.last

    def recover_from(self) -> int | None:
        """Return the offset from which the stream must be read (again) to continue; None: from its beginning.

        That is the offset after the checkpoint. If messages were lost but windows were not, it is the first offset of
        the earliest window: replayed messages are stored again, and emit nothing.
        """
        if self._recovery is not None:
            return self._recovery.first
        return None if self.checkpoint is None else self.checkpoint + 1

    def explain(self) -> str:
        """Return the configuration of the operator as text."""
        return self._config.explain(None if self._content is None else self._content.needs_messages)

    def close(self) -> None:
        """Close the store. Messages since the last flush must be read again from the stream."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _process(self, messages: pl.DataFrame, unusable: pl.DataFrame, now: int) -> bool:
        """Add messages to windows. True: something must be committed."""
        assert self._transitions is not None and self._content is not None
        before = self._progress
        replays, new = self._without_replays(messages)
        if self._recovery is not None and replays.height:
            self._recovery = self._recovery.store(self._store.messages, replays)
        new = before.assign_positions(new)
        after = before.advance(new)
        dead_replays, unusable = self._without_replays(unusable)
        if self._recovery is not None:
            self._recovery = self._recovery.with_replayed(dead_replays[c.OFFSET].drop_nulls())
        else:
            replays = pl.concat([replays, dead_replays])
            in_gap = pl.Series(before.seen.in_forgotten_gap(replays[c.OFFSET]))
            self._add_dead_letters({"gap_forgotten": replays.filter(in_gap)}, now)
        offsets = pl.concat([new[c.OFFSET], unusable[c.OFFSET].drop_nulls()])
        windows = self._store.windows.all()
        assigned = self._config.assigner.assign(before.with_positions(new), windows)
        touched = self._transitions.add(assigned.rows, self._no_windows() if windows is None else windows)
        failed = assigned.rows.clear() if touched.failed is None else touched.failed
        if self._content.needs_messages:
            stored = new.join(assigned.rows, on=c.OFFSET, how="semi", maintain_order="left")
            self._store.messages.put(stored.join(failed, on=c.OFFSET, how="anti", maintain_order="left"))
        letters = {None: unusable, "out_of_retention": assigned.expired, "no_window": assigned.without_window}
        self._add_dead_letters(letters | {"failed": failed}, now)
        if touched.merged_away.height:
            self._store.windows.delete(touched.merged_away)
        self._progress = after.with_seen(offsets)
        recovered = self._recovery is not None and (new.height > 0 or self._recovery.is_complete)
        if recovered:
            self._recovery = None
        if new.height == assigned.expired.height and not recovered:  # nothing but replays and dead letters
            return False
        # After a crash, offsets below the checkpoint are not read again.
        out_of_order = before.seen.exceed(offsets)
        return self._evaluate(touched.windows, before, now) or touched.opened or out_of_order

    def _without_replays(self, messages: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return replays and new messages."""
        offsets = messages[c.OFFSET]
        if offsets.null_count():
            offsets = offsets.fill_null(MIN)  # which no message has
        seen = self._progress.seen.contain(offsets)
        if not seen.any() and offsets.n_unique() == offsets.len():
            return messages.clear(), messages
        first = (offsets.is_first_distinct() | messages[c.OFFSET].is_null()).to_numpy()
        return messages.filter(pl.Series(seen)), messages.filter(pl.Series(~seen & first))

    def _evaluate(self, touched: pl.DataFrame | None, before: Progress, now: int) -> bool:
        """Emit panes and drop expired windows. True: something must be committed."""
        assert self._transitions is not None
        if self._recovery is not None:  # a pane emitted now would lack the missing messages
            return False
        windows = self._store.windows.all()
        stored = self._no_windows() if windows is None else windows
        touched = self._transitions.untouched(stored.clear()) if touched is None else touched
        others = stored.join(touched, on=WINDOW_NAME, how="anti")
        self._progress = self._progress.raise_floor(pl.concat([others, touched.select(others.columns)]))
        evaluated = self._transitions.evaluate(touched, others, before, self._progress, now)
        if evaluated.emitted.height:
            rows = self._outputs(evaluated.emitted, now)
            self._outbox.add(rows.partition_by(*WINDOW, *self._config.roles.window_key, maintain_order=True))
        if evaluated.windows.height:
            self._store.windows.put(evaluated.windows)
        if evaluated.expired.height:
            self._store.windows.delete(evaluated.expired)
        self._expire_messages(evaluated.expired)
        return evaluated.emitted.height > 0 or evaluated.expired.height > 0

    def _expire_messages(self, windows: pl.DataFrame) -> None:
        """Drop the messages of expired windows that no other window needs."""
        if windows.is_empty() or self._content is None or not self._content.needs_messages:
            return
        if self._config.layout.session:
            self._store.messages.retire(windows)
        elif self._config.axis_config.per_key:  # row numbers of different keys are unrelated
            self._store.messages.retire(self._config.unneeded_ranges(self._progress.with_positions(windows)))
        else:
            self._store.messages.expire(self._config.needed_from(self._progress.lowest_floor()))

    def _deliver(self, commit: bool) -> None:
        """Commit outputs with their numbers before they are sent: a crash sends the same outputs again."""
        if commit:
            self._commit()
        if self._outbox.automatic and self._outbox.pending:
            self._send()

    def _send(self) -> bool:
        try:
            return self._outbox.send()
        finally:
            self._commit()

    def _outputs(self, windows: pl.DataFrame, now: int) -> pl.DataFrame:
        assert self._content is not None
        return output_rows(windows, self._content.output(windows, self._store.messages), self._config, now)

    def _add_dead_letters(self, messages_by_reason: Mapping[str | None, pl.DataFrame], now: int) -> None:
        """Add dead letters. Under None are messages with a column for the reason."""
        for reason, messages in messages_by_reason.items():
            if messages.height:
                letters = dead_letters(messages, reason, self._columns, now)
                if self._dead is None:
                    self._dead_letters.append(letters)
                else:
                    self._dead(letters)

    @property
    def _columns(self) -> pl.Schema:
        assert self._schema is not None
        return self._schema

    def _no_windows(self) -> pl.DataFrame:
        assert self._transitions is not None
        return pl.DataFrame(schema=self._transitions.schema)

    def _lookup(self) -> Lookup:
        return Lookup(self._config, self._store, self._columns, self._no_windows())

    def _bind(self, schema: pl.Schema) -> None:
        if schema == self._schema:
            return
        config = self._config
        config.roles.check(schema)
        content = config.content(schema)
        transitions = WindowTransitions(config.assigner, config.policies, content, config.roles.window_key, schema)
        if self._transitions is not None and (content.needs_messages or transitions.schema != self._transitions.schema):
            name = next(name for name, dtype in schema.items() if dtype != self._columns[name])
            raise DataError(
                f"The column {name!r} has a value of type {schema[name]}, but was null in all messages before, and the "
                "state of this operator depends on its type. Create it again with schema=…, and with a new store if it "
                "has one."
            )
        self._schema, self._content, self._transitions = schema, content, transitions

    def _commit(self) -> None:
        state = {
            "config": self._config.fingerprint(),
            "last_output": self._outbox.last,
            "now": self._clock.now,
            "schema": None if self._schema is None else pl.DataFrame(schema=self._schema),
        }
        self._store.commit(lambda: dump(state | self._progress.saved()))

    def _restore(self, saved: dict[str, Any], path: str) -> int:
        """Restore the saved state, and return the number of the last output."""
        for name, text in self._config.fingerprint().items():
            if saved["config"].get(name) != text:
                raise PlanError(
                    f"The store {path!r} belongs to another operator:\n  {name}: was "
                    f"{saved['config'].get(name, 'nothing')}, is {text}\n"
                    "Create the operator with its previous settings, or use a new file."
                )
        if saved["schema"] is not None:
            self._bind(saved["schema"].schema)
        self._progress = self._progress.restored(saved)
        self._clock.now = saved["now"]
        windows = self._store.windows.all()
        needs_messages = self._content is not None and self._content.needs_messages
        if windows is not None and windows.height and needs_messages and self._store.messages.count() == 0:
            self._recovery = MessageRecovery.of(windows, self._config.axis_config, self._progress.seen)
        last_output: int = saved["last_output"]
        return last_output


def _no_schema() -> PlanError:
    return PlanError("No message has arrived yet, so the columns are not known. Give schema=… to the operator.")

"""``EMIT``: when panes are emitted, how long windows are kept, and how the panes of a window relate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from eventide import triggers
from eventide.errors import sql as errors
from eventide.plan import Stream
from eventide.plan.plan import Window
from eventide.streamsql import nodes
from eventide.streamsql.catalogue import TRIGGERS
from eventide.streamsql.places import At, said_at
from eventide.streamsql.reading import constant, length, number
from eventide.triggers import Trigger


@dataclass(frozen=True)
class Emitted:
    """An ``EMIT`` clause as the steps of the builder, or what is said where there is none."""

    trigger: Trigger | None = None
    lateness: dict[str, Any] = field(default_factory=dict)
    mode: str | None = None
    only_updated: bool = False
    at: Any = "end"
    may_lose_data: bool = False

    def on(self, stream: Stream, window: Window) -> Stream:
        """The stream, cut into windows and ready to be aggregated."""
        said = stream.window(window, output_time=self.at)
        said = said if self.trigger is None else said.trigger(self.trigger, may_lose_data=self.may_lose_data)
        if "time" in self.lateness:
            said = said.lateness(self.lateness["time"])
        if "rows" in self.lateness:
            said = said.lateness(rows=self.lateness["rows"])
        if self.mode is None and not self.only_updated:
            return said
        accumulate: Any = getattr(said, self.mode or "retracting")
        made: Stream = accumulate(skip_unchanged=self.only_updated)
        return made


def emitted(node: nodes.Emit | None) -> Emitted:
    """What an ``EMIT`` clause says."""
    if node is None:
        return Emitted()
    said = node.args
    early, late, when = said.get("early"), said.get("late"), said.get("when")
    if when is not None and (early is not None or late is not None or said.get("close")):
        raise At(when, errors.when_or_phases())
    trigger: Trigger | None = None
    if when is not None:
        trigger = _trigger(when)
    elif early is not None or late is not None:
        trigger = triggers.after_watermark(
            early=None if early is None else _trigger(early), late=None if late is None else _trigger(late)
        )
    kept = said.get("lateness")
    lateness = {} if kept is None else {kept.this: _kept(kept)}
    return Emitted(
        trigger,
        lateness,
        said.get("mode"),
        bool(said.get("only_updated")),
        said.get("at") or "end",
        bool(said.get("may_lose_data")),
    )


def _kept(option: nodes.Option) -> Any:
    value = option.args["value"]
    return length(value) if option.this == "time" else number(value)


def _trigger(node: nodes.When) -> Trigger:
    with said_at(node):
        return _built(node, node.args.get("value"))


def _built(node: nodes.When, value: Any) -> Trigger:
    match node.args["kind"]:
        case "every":
            return triggers.every(length(value), aligned=bool(node.args.get("aligned")))
        case "on_update":
            return triggers.on_update()
        case "never":
            return triggers.never()
        case "count":
            return triggers.after_count(number(value))
        case "after":
            return triggers.after_processing_time(length(value))
        case _:
            return _call(value)


def _call(node: Any) -> Trigger:
    """A call of the algebra, by Python's names."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in TRIGGERS:
        raise At(node, errors.no_such_function(node.name or node.sql(), TRIGGERS))
    positional = [_argument(one) for one in node.expressions if not isinstance(one, exp.Kwarg)]
    by_name = {
        one.this.name.lower(): _argument(one.expression) for one in node.expressions if isinstance(one, exp.Kwarg)
    }
    build: Any = getattr(triggers, node.name.lower())
    try:
        made: Trigger = build(*positional, **by_name)
    except TypeError as cause:
        raise At(node, errors.window_arguments(node.name.upper(), f"it as in Python ({cause})")) from None
    return made


def _argument(node: Any) -> Any:
    if isinstance(node, exp.Interval | exp.Add):
        return length(node)
    return constant(node, "EMIT") if isinstance(node, exp.Literal | exp.Boolean) else _call(node)

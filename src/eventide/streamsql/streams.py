"""``CREATE STREAM``: a stream's event times, its watermark, and what of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from eventide import watermarks
from eventide.errors import sql as errors
from eventide.plan import IngestionTime, Stream, ingestion_time, stream
from eventide.streamsql import nodes
from eventide.streamsql.names import Names
from eventide.streamsql.places import At, said_at
from eventide.streamsql.reading import column, constant, length, number
from eventide.watermarks import Strategy

Time = str | IngestionTime


@dataclass(frozen=True)
class Declared:
    """What is known of a stream. One that nobody declared has no times, and its columns are those of its rows."""

    name: str
    columns: tuple[str, ...] | None = None
    watermarks: Mapping[Time, Strategy | None] = field(default_factory=dict)
    retain: Mapping[str, Any] = field(default_factory=dict)
    deduplicate: bool = False

    def needs(self) -> set[str]:
        """The columns that watermarks read, beside times."""
        return {name for one in self.watermarks.values() if one is not None for name in one.columns()}

    def counted(self) -> str | None:
        """What the watermark counts of rows, so that none may be missing; nothing, if it does not count."""
        for one in self.watermarks.values():
            if one is not None and one.options.sequence is not None:
                return "SEQUENCE"
            if one is not None and one.rule.name == "noted":
                return "position"
        return None

    def stream(self, time: Time, key: tuple[str, ...]) -> Stream:
        """The start of a pipeline."""
        begun = stream(time=time, key=list(key) or None, watermark=self.watermarks.get(time))
        begun = begun.deduplicate() if self.deduplicate else begun
        return begun.retain(**self.retain) if self.retain else begun


def declared(node: nodes.CreateStream, columns: tuple[str, ...] | None = None) -> Declared:
    """A stream as its statement says, over the ``columns`` of its rows where they are known."""
    said = node.args.get("columns")
    own = None if said is None else tuple(one.name for one in said)
    names = Names(node.this.name, own if columns is None else columns)
    for one in said or ():
        names.name(exp.column(one.copy()))
    found: dict[Time, Strategy | None] = {}
    for one in node.args["watermarks"]:
        time = _spelt(time_of(one.this), names)
        if time in found:
            raise At(one, errors.watermark_twice(str(time)))
        found[time] = _watermark(one, time, names)
    return Declared(
        node.this.name,
        own,
        found,
        _retention(node.args.get("retain") or []),
        bool(node.args.get("deduplicate")),
    )


def time_of(node: Any) -> Time:
    """The column of the event time, or that of the batch."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "ingestion_time":
        return ingestion_time()
    return column(node, "event time")


def _spelt(time: Time, names: Names) -> Time:
    """The time as rows spell it. A subquery may compute it, so rows need not have it."""
    return (names.find(time) or time) if isinstance(time, str) else time


def _same(one: Time, other: Time) -> bool:
    """Whether two times are one; columns that are not known yet may be spelt in any case."""
    texts = isinstance(one, str) and isinstance(other, str)
    return one.lower() == other.lower() if texts else one == other  # type: ignore[union-attr]


def _watermark(node: nodes.WatermarkFor, time: Time, names: Names) -> Strategy | None:
    options = {one.this: _option(one, names) for one in node.args["options"]}
    rule: str = node.args["rule"]
    value: Any = node.args.get("value")
    with said_at(node):
        if rule == "noted":
            return watermarks.noted(constant(value, "NOTED BY"), **options)
        if rule == "punctuated":
            return watermarks.punctuated(names.name(value), **options)
        if rule == "none":
            return watermarks.no_watermark(**options)
        if rule == "default" or isinstance(value, exp.Column | exp.Anonymous):
            if rule == "default" and not options:
                return None
            if rule == "as" and not _same(_spelt(time_of(value), names), time):
                raise At(value, errors.watermark_form(node.this.sql()))
            return watermarks.ascending(**options)
        if isinstance(value, exp.Sub):
            if isinstance(value.this, exp.CurrentTimestamp):
                return watermarks.processing_time(length(value.expression), **options)
            if isinstance(value.this, exp.Column) and _same(_spelt(time_of(value.this), names), time):
                return watermarks.bounded_delay(length(value.expression), **options)
    raise At(value, errors.watermark_form(node.this.sql()))


def _option(node: nodes.Option, names: Names) -> Any:
    value = node.args["value"]
    if isinstance(value, exp.Column):
        return names.name(value)
    if isinstance(value, exp.Null):
        return None
    if isinstance(value, exp.Interval | exp.Add | exp.Neg):
        return length(value)
    if isinstance(value, exp.Tuple):
        return [constant(one, "EXPECT") for one in value.expressions]
    return value.name if value.is_string else number(value)


def _retention(options: list[nodes.Option]) -> dict[str, Any]:
    return {one.this: length(one.args["value"]) if one.this == "time" else number(one.args["value"]) for one in options}

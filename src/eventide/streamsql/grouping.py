"""``SELECT … GROUP BY``: keys, windows and aggregates as a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.errors import sql as errors
from eventide.errors import sql_joins as join_errors
from eventide.plan import Stream, stream, union
from eventide.plan.plan import Window
from eventide.streamsql.compiled import Compiled
from eventide.streamsql.emitting import emitted
from eventide.streamsql.grouped_columns import Grouping
from eventide.streamsql.names import Names
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.places import At, said_at
from eventide.streamsql.relations import Relation, condition, names_of, relation
from eventide.streamsql.rows import Rows
from eventide.streamsql.scope import Scope
from eventide.streamsql.selects import alias_of, table_of
from eventide.streamsql.streams import Time, time_of
from eventide.streamsql.windows import window_of
from eventide.triggers import AfterWatermark


def grouped(select: exp.Select, scope: Scope) -> Compiled:
    """A query that groups, as a pipeline over rows or over the panes of another."""
    table = table_of(select)
    windowed = table.this if isinstance(table.this, WindowTable) else None
    source = relation(windowed.this if windowed is not None else table, scope)
    names = names_of(source, *alias_of(table))
    where = condition(select, names)
    grouping = Grouping(names, windowed is not None or isinstance(source, Compiled))
    grouping.read(select)
    kind, time = _windows(select, windowed, source, names, grouping)
    said = emitted(select.args.get("emit"))
    untold = grouping.projection.untold()
    if untold is not None and said.mode == "retracting":
        raise At(select.args["having"], errors.not_repeated(untold))
    if isinstance(source, Compiled):
        asked = {names.stored_as(one.name) or one.name for one in select.find_all(exp.Column)}
        source = source.reading(asked | ({time} if isinstance(time, str) else set()))
        return _over_panes(select, source, grouping, where, said, kind, time)
    parts = {"rows": source} if isinstance(source, Rows) else dict(source.parts)
    key = tuple(grouping.keys)
    with said_at(windowed or select.args.get("group") or select):
        begun = {name: one.stream.stream(watermarked(one, time, windowed), key) for name, one in parts.items()}
        first: Stream = begun["rows"] if isinstance(source, Rows) else union(**begun)
    with said_at(select.args.get("emit") or windowed or select):
        pipeline = said.on(first, kind).agg(**grouping.aggregates)
    inputs = {
        name: one.filtered(where, select.args.get("where")).computed(grouping.computed) for name, one in parts.items()
    }
    notes = [note for one in parts.values() for note in _dropped(one, time, key)]
    return Compiled(
        (pipeline,),
        inputs,
        grouping.projection,
        (*key, *grouping.aggregates),
        windowed=True,
        notes=tuple(notes),
        united=None if isinstance(source, Rows) else source.at,
    )


def _over_panes(
    select: exp.Select, source: Compiled, grouping: Grouping, where: Any, said: Any, kind: Window, time: Time
) -> Compiled:
    if not source.plain:
        raise At(select.args["from_"].this, errors.not_plain_inside())
    if where is not None or grouping.computed:
        at = select.args.get("where") or select
        raise At(
            at,
            errors.not_here(
                "A filter or a computed column between two aggregates",
                "Use HAVING in the inner query's place: aggregate plain columns.",
            ),
        )
    if _told_again(source.pipelines[-1].plan, kind):
        raise At(select.args["from_"].this, errors.told_again(inherited=isinstance(kind, windows.Inherit)))
    with said_at(select):
        begun = stream(time=time, key=list(grouping.keys) or None)
        pipeline = said.on(begun, kind).agg(**grouping.aggregates)
    columns = (*grouping.keys, *grouping.aggregates)
    pipelines = (*source.pipelines, pipeline)
    return replace(source, pipelines=pipelines, projection=grouping.projection, columns=columns, windowed=True)


def _told_again(plan: Any, kind: Window) -> bool:
    """Whether rows of the inner query would count twice: its panes are told again, and nobody takes them back."""
    if plan.tells == "rows" or plan.mode == "discarding":
        return False
    once = isinstance(plan.trigger, AfterWatermark) and plan.trigger.early is None and not plan.lateness
    return not once and not (plan.mode == "retracting" and isinstance(kind, windows.Inherit))


def _windows(
    select: exp.Select, windowed: WindowTable | None, source: Relation, names: Names, grouping: Grouping
) -> tuple[Window, Time]:
    """The kind of window, and the time that it goes by."""
    if windowed is not None:
        given = windowed.args.get("time")
        if given is None:
            return window_of(windowed, names), _only_time(source, windowed)
        if isinstance(source, Compiled) and given.name.lower() == "window_time":
            return window_of(windowed, names), "pane.time"
        time = time_of(given)
        return window_of(windowed, names), names.name(given) if isinstance(time, str) else time
    if isinstance(source, Compiled):
        if not source.windowed or not grouping.by_window:
            at = select.args.get("group") or select
            raise At(at, errors.windows_not_grouped("The subquery") if source.windowed else join_errors.no_windows())
        return windows.inherit(), "pane.time"
    return windows.global_window(), _only_time(source, table_of(select))


def _only_time(source: Relation, node: exp.Expr) -> Time:
    if isinstance(source, Compiled):
        raise At(node, errors.window_arguments("A window of results", "DESCRIPTOR(window_time)"))
    rows = source if isinstance(source, Rows) else next(iter(source.parts.values()))
    times = list(rows.stream.watermarks)
    if len(times) != 1:
        fault = (
            join_errors.which_time(rows.stream.name, list(map(str, times)))
            if times
            else errors.no_time(rows.stream.name)
        )
        raise At(node, fault)
    return times[0]


def watermarked(rows: Rows, time: Time, node: exp.Expr | None) -> Time:
    """The time, if the stream has a watermark for it, or has none at all."""
    known = rows.stream.watermarks
    if known and time not in known:
        raise At(node, errors.other_time(str(time), rows.stream.name, [str(one) for one in known]))
    return time


def _dropped(rows: Rows, time: Time, key: tuple[str, ...]) -> list[str]:
    """A second watermark does not survive the grouping."""
    return [
        f"{one} is a key like any other here: its watermark ends at these windows, and what they give has "
        "that of their bounds only"
        for one in rows.stream.watermarks
        if one != time and one in key
    ]

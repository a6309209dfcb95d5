"""``SELECT … GROUP BY``: keys, windows and aggregates as a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.errors import PlanError
from eventide.panes import WINDOW_TIME
from eventide.plan import Stream, stream, union
from eventide.plan.pipeline import over_panes
from eventide.plan.plan import Plan, Window
from eventide.plan.window_plan import WindowPlan
from eventide.streamsql.compiled_query import CompiledQuery, Scope, StreamRows
from eventide.streamsql.create_stream import Time, time_of
from eventide.streamsql.emit import emit_clause
from eventide.streamsql.errors import (
    keep_without_join,
    limits_of_several,
    not_in_retractions,
    unsupported,
    window_arguments,
)
from eventide.streamsql.from_clause import Relation, UnionRows, compile_relation, relation_names, where_condition
from eventide.streamsql.grouped_columns import GroupedColumns
from eventide.streamsql.select_clause import (
    TableColumns,
    alias_of,
    table_of,
)
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import WindowTable
from eventide.streamsql.windows import window_of
from eventide.triggers import AfterWatermark


def compile_grouped(select: exp.Select, scope: Scope) -> CompiledQuery:
    """Compile a query that groups rows, or panes of another query."""
    table = table_of(select)
    windowed = table.this if isinstance(table.this, WindowTable) else None
    source = compile_relation(windowed.this if windowed is not None else table, scope)
    names = relation_names(source, *alias_of(table))
    where = where_condition(select, names)
    grouping = GroupedColumns(names, windowed is not None or isinstance(source, CompiledQuery))
    grouping.read(select)
    kind, time = _windows(select, windowed, source, names, grouping)
    emit = emit_clause(select.args.get("emit"))
    unrepeated = grouping.projection.unrepeated_column()
    if unrepeated is not None and emit.mode == "retracting":
        raise LocatedError(select.args["having"], not_in_retractions(unrepeated))
    if isinstance(source, CompiledQuery):
        read = {names.stored_name(rows.name) or rows.name for rows in select.find_all(exp.Column)}
        source = source.reading(read | ({time} if isinstance(time, str) else set()))
        return _over_panes(select, source, grouping, where, emit, kind, time)
    parts = {"rows": source} if isinstance(source, StreamRows) else dict(source.parts)
    key = tuple(grouping.keys)
    with locate(windowed or select.args.get("group") or select):
        streams = {name: rows.stream.stream(rows.check_time(time, windowed), key) for name, rows in parts.items()}
        first: Stream = streams["rows"] if isinstance(source, StreamRows) else union(**streams)
    limits = _limits(parts, source, windowed or table)
    with locate(select.args.get("emit") or windowed or select):
        pipeline = emit.window(first, kind, limits).agg(**grouping.aggregates)
    inputs = {
        name: rows.filtered(where, select.args.get("where")).computed(grouping.computed) for name, rows in parts.items()
    }
    notes = [note for rows in parts.values() for note in _dropped_watermarks(rows, time, key)]
    return CompiledQuery(
        (pipeline,),
        inputs,
        grouping.projection,
        (*key, *grouping.aggregates),
        windowed=True,
        notes=tuple(notes),
        united=None if isinstance(source, StreamRows) else source.at,
    )


def _limits(parts: Mapping[str, StreamRows], source: StreamRows | UnionRows, node: exp.Expr) -> Mapping[str, int]:
    """Return the state limits of the only stream."""
    for rows in parts.values():
        if rows.stream.keep is not None:
            raise LocatedError(node, keep_without_join(rows.stream.name))
        if rows.stream.limits and not isinstance(source, StreamRows):
            raise LocatedError(node, limits_of_several(rows.stream.name))
    return next(iter(parts.values())).stream.limits


def _over_panes(
    select: exp.Select, source: CompiledQuery, grouping: GroupedColumns, where: Any, emit: Any, kind: Window, time: Time
) -> CompiledQuery:
    if not source.plain:
        raise LocatedError(
            select.args["from_"].this,
            "This query aggregates the result of another. The inner SELECT may name keys, window_start, window_end "
            "and aggregates, without HAVING or WHERE; compute columns in the outer query.",
        )
    if where is not None or grouping.computed:
        at = select.args.get("where") or select
        raise LocatedError(
            at,
            unsupported(
                "A filter or a computed column between two aggregates",
                "Aggregate plain columns, and use HAVING.",
            ),
        )
    if _emits_again(source.pipelines[-1].plan):
        raise LocatedError(
            select.args["from_"].this,
            "The inner query emits its windows more than once, so the outer query would count them twice. Write "
            "RETRACTING in its EMIT, or let it emit once, on window close.",
        )
    with locate(select):
        source_stream = stream(time=time, key=list(grouping.keys) or None)
        pipeline = emit.window(source_stream, kind).agg(**grouping.aggregates)
        over_panes(pipeline.plan, source.pipelines[-1].plan)  # rejects windows that cannot follow retractions
    columns = (*grouping.keys, *grouping.aggregates)
    pipelines = (*source.pipelines, pipeline)
    return replace(source, pipelines=pipelines, projection=grouping.projection, columns=columns, windowed=True)


def _emits_again(plan: Plan) -> bool:
    """Whether rows of the inner query would count twice: its panes are emitted again, and are not retracted."""
    if not isinstance(plan, WindowPlan) or plan.mode in ("discarding", "retracting"):
        return False
    once = isinstance(plan.trigger, AfterWatermark) and plan.trigger.early is None and not plan.allowed_lateness
    return not once


def _windows(
    select: exp.Select, windowed: WindowTable | None, source: Relation, names: TableColumns, grouping: GroupedColumns
) -> tuple[Window, Time]:
    """The kind of window, and its time column."""
    if windowed is not None:
        descriptor = windowed.args.get("time")
        if descriptor is None:
            return window_of(windowed, names), _only_time(source, windowed)
        if isinstance(source, CompiledQuery) and descriptor.name.lower() == WINDOW_TIME:
            return window_of(windowed, names), WINDOW_TIME
        time = time_of(descriptor)
        return window_of(windowed, names), names.name(descriptor) if isinstance(time, str) else time
    if isinstance(source, CompiledQuery):
        if not source.windowed or not grouping.by_window:
            at = select.args.get("group") or select
            raise LocatedError(
                at,
                PlanError(
                    "The subquery gives rows their windows, and this query does not group by them. "
                    "Add GROUP BY window_start, window_end, or an aggregate such as COUNT(*)."
                )
                if source.windowed
                else PlanError(
                    "The rows of this join have no windows to group by. Give them windows: "
                    "FROM TUMBLE((SELECT … FROM a JOIN b ON …), DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY …."
                ),
            )
        return windows.inherit(), WINDOW_TIME
    return windows.global_window(), _only_time(source, table_of(select))


def _only_time(source: Relation, node: exp.Expr) -> Time:
    if isinstance(source, CompiledQuery):
        raise LocatedError(node, window_arguments("A window of results", "DESCRIPTOR(window_time)"))
    rows = source if isinstance(source, StreamRows) else next(iter(source.parts.values()))
    return rows.only_time(node)


def _dropped_watermarks(rows: StreamRows, time: Time, key: tuple[str, ...]) -> list[str]:
    """A second watermark does not survive the grouping."""
    return [
        f"{other} is a key like any other here: its watermark ends at these windows, and what they give has "
        "that of their bounds only"
        for other in rows.stream.watermarks
        if other != time and other in key
    ]

"""``JOIN``: two streams whose rows match by time, by order, or in the same window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.panes import DIFF, WINDOW
from eventide.plan import Pipeline, join, window_join
from eventide.streamsql.compiled_query import CompiledQuery, Scope, StreamRows
from eventide.streamsql.create_stream import Time, time_of
from eventide.streamsql.emit import emit_clause
from eventide.streamsql.errors import keep_without_join, limits_of_several, not_in_retractions, unsupported
from eventide.streamsql.expressions import to_polars
from eventide.streamsql.from_clause import compile_relation
from eventide.streamsql.join_conditions import LEFT, RIGHT, JoinConditions, JoinTable, JoinTables, join_conditions
from eventide.streamsql.joined_columns import JoinedColumns, is_pane_column
from eventide.streamsql.select_clause import (
    Projection,
    alias_of,
    conjunction,
    conjuncts,
    reject_aggregates,
    table_of,
    without_table_call,
)
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import WindowTable, length, number
from eventide.streamsql.windows import window_of
from eventide.time import duration


@dataclass(frozen=True)
class ReadColumns:
    """The columns of both sides that a join reads: keys, event times, and columns of expressions.

    With a star it reads all of them, until a query of the join names the columns that it reads.
    """

    sides: JoinTables
    named: tuple[frozenset[str], frozenset[str]]
    star: bool

    def narrowed(self) -> JoinTables:
        """Return both sides with only the columns that are read. The names of a star depend on all columns."""
        left, right = self.sides.both
        if self.star or left.names.columns is None or right.names.columns is None:
            return self.sides
        return replace(self.sides, left=left.narrowed(self.named[LEFT]), right=right.narrowed(self.named[RIGHT]))

    def inputs(self, pairs: Collection[str] | None = None) -> Mapping[str, StreamRows]:
        """Return the rows of both sides, with the columns that the given columns of the join need."""
        both = self.sides.both
        if pairs is None or not self.star or any(side.names.columns is None for side in both):
            return {"left": both[LEFT].rows, "right": both[RIGHT].rows}
        inputs = []
        for i, side in enumerate(both):
            # The suffix of a column depends on whether the other side has one of its name, so such a pair stays.
            shared = set(both[1 - i].names.columns or ())
            selected = {name for name in side.names.columns or () if self.sides.output_name(i, name) in pairs} | (
                set(side.names.columns or ()) & shared
            )
            inputs.append(side.narrowed(selected | self.named[i]).rows)
        return {"left": inputs[LEFT], "right": inputs[RIGHT]}


def read_columns(
    sides: JoinTables, times: tuple[Time, ...], selected: Iterable[exp.Expr], conditions: Iterable[exp.Expr]
) -> ReadColumns:
    """Return the columns that a join reads for selected columns and conditions."""
    read: tuple[set[str], set[str]] = (set(), set())
    for side, time in enumerate(times):
        read[side].update(pair[side] for pair in sides.equal)
        read[side].update([time] if isinstance(time, str) else [])
    nodes = [node for part in (*selected, *conditions) for node in part.find_all(exp.Column, exp.Star)]
    for node in nodes:
        if isinstance(node, exp.Column) and _is_of_side(node, sides):
            side, name = sides.find(node)
            read[side].add(name)
    star = any(isinstance(node, exp.Star) for node in nodes)
    return ReadColumns(sides, (frozenset(read[LEFT]), frozenset(read[RIGHT])), star)


def _is_of_side(node: exp.Column, sides: JoinTables) -> bool:
    of_panes = is_pane_column(node) and (sides.left.windowed or node.name.lower() == DIFF)
    return not of_panes and not isinstance(node.this, exp.Star) and not sides.is_unknown(node)


_HOW = {"": "inner", "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


def compile_join(select: exp.Select, scope: Scope) -> CompiledQuery:
    """Compile a query that joins two streams."""
    join_ = _only_join(select)
    left, right = (_side(part, scope) for part in (table_of(select), without_table_call(join_.this)))
    if left.windowed != right.windowed:
        plain = right if left.windowed else left
        raise LocatedError(
            plain.node,
            f"One side of this join has windows and {plain.called!r} has none. Give both the same windows, or "
            "write OVER (RANGE INTERVAL '2' MINUTE PRECEDING) for a window on one side.",
        )
    how = _join_type(join_)
    sides = JoinTables(left, right)
    on = join_conditions(join_, sides)
    if not on.equal:
        raise LocatedError(
            join_, f"A join of streams needs columns that are equal: ON {left.called}.id = {right.called}.id."
        )
    sides = sides.joined_on(on.equal)
    times = _times(select, sides, on)
    pushed, remaining = _filters(select, sides, how)
    sides = sides.filtered(pushed, select.args.get("where"))
    read = read_columns(sides, times, select.expressions, [*remaining, *_on_of(join_)])
    sides = read.narrowed()
    if left.windowed:
        pipeline = _window_join(select.args.get("emit"), join_, sides, on, times, how)
    else:
        pipeline = _interval_join(join_, sides, on, times, how)
    pairs = JoinedColumns(sides, left.windowed, times, how)
    projection = Projection(pairs.columns(select), conjunction(pairs.placed(part) for part in remaining))
    unrepeated = projection.pane_column() or projection.unrepeated_column()  # a pair is retracted with another pane
    if unrepeated is not None and pipeline.plan.mode == "retracting":
        raise LocatedError(select.args["where"], not_in_retractions(unrepeated))
    inputs = {"left": sides.left.rows, "right": sides.right.rows}
    return CompiledQuery((pipeline,), inputs, projection, sides.columns(), left.windowed, read=read)


def _on_of(join_: exp.Join) -> list[exp.Expr]:
    on = join_.args.get("on")
    return [] if on is None else [on]


def _only_join(select: exp.Select) -> exp.Join:
    joins: list[exp.Join] = select.args["joins"]
    if len(joins) > 1:
        raise LocatedError(
            joins[1].this,
            "A third table is joined here. Two streams are joined at a time; join the result in a second query.",
        )
    if not isinstance(joins[0].this, exp.Table | exp.Subquery):
        raise LocatedError(joins[0], unsupported("This join", "Join two streams."))
    if not joins[0].args.get("on") and not joins[0].args.get("using") and not joins[0].args.get("kind"):
        raise LocatedError(joins[0], unsupported("A join without ON", "Write FROM a JOIN b ON a.id = b.id AND …."))
    if select.args.get("distinct"):
        raise LocatedError(
            select.args["distinct"], unsupported("SELECT DISTINCT with JOIN", "Group the result in an outer query.")
        )
    return joins[0]


def _join_type(join_: exp.Join) -> Any:
    kind = (join_.args.get("side") or "").upper() or (join_.args.get("kind") or "").upper()
    if (
        join_.args.get("method")
        or kind not in _HOW
        or (join_.args.get("kind") or "").upper() in ("SEMI", "ANTI", "CROSS")
    ):
        what = join_.args.get("method") or join_.args.get("kind") or kind
        raise LocatedError(join_, unsupported(f"{what} JOIN", "Use JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN with ON."))
    return _HOW[kind]


def _side(table: exp.Expr, scope: Scope) -> JoinTable:
    window_table = table.this if isinstance(table.this, WindowTable) else None
    source = compile_relation(window_table.this if window_table is not None else table, scope)
    if not isinstance(source, StreamRows):
        what = (
            "A join with the result of another query" if isinstance(source, CompiledQuery) else "A join with UNION ALL"
        )
        raise LocatedError(table, unsupported(what, "Join the rows of two streams."))
    return JoinTable(table, source, source.names(*alias_of(table)))


def _filters(
    select: exp.Select, sides: JoinTables, how: str
) -> tuple[tuple[list[exp.Expr], list[exp.Expr]], list[exp.Expr]]:
    """Split WHERE into conditions on one side, which filter rows before the join, and conditions after it.

    A side that may be padded with nulls is never filtered before, or a pair would become a lone row.
    """
    where = select.args.get("where")
    pushed: tuple[list[exp.Expr], list[exp.Expr]] = ([], [])
    remaining: list[exp.Expr] = []
    early = {"inner": (0, 1), "left": (0,), "right": (1,), "full": ()}[how]
    for conjunct in conjuncts(None if where is None else where.this):
        reject_aggregates(conjunct)
        columns = list(conjunct.find_all(exp.Column))
        of = {None if is_pane_column(node) else sides.side_of(node) for node in columns}
        only = of.pop() if len(of) == 1 else None
        # Rows that the watermark counts must not be missing, so they are filtered behind the join.
        if only is not None and only in early and sides.both[only].rows.stream.counted_column() is None:
            pushed[only].append(sides.both[only].names.resolve(conjunct))
        else:
            remaining.append(conjunct)
    return pushed, remaining


def _times(select: exp.Select, sides: JoinTables, on: JoinConditions) -> tuple[Time, ...]:
    """Return the event times of both sides."""
    if sides.left.windowed:
        return tuple(_time_of(side, side.node.this) for side in sides.both)
    if select.args.get("emit"):
        raise LocatedError(
            select.args["emit"],
            "EMIT has no meaning for a join of rows: each pair is emitted once, when both rows "
            "have arrived. Leave it out; a join of windows, JOIN TUMBLE(…) b ON … AND "
            "a.window_start = b.window_start, takes it.",
        )
    return sides.times(on, sides.right.node.args.get("over"))


def _interval_join(
    join_: exp.Join, sides: JoinTables, on: JoinConditions, times: tuple[Time, ...], how: Any
) -> Pipeline:
    over = sides.right.node.args.get("over")
    keep = _keep(sides)
    bounds: dict[str, Any] = {"keep": keep} if keep else {}
    if over is not None:
        if on.bound is not None:
            raise LocatedError(
                on.bound,
                "A bound of time with OVER is not supported: OVER selects the rows. Leave OVER out and write "
                "the whole bound in ON; or, in an inner join, in WHERE.",
            )
        bounds |= _over(over)
    elif on.lower is None and on.upper is None and not keep:
        left, right = (side.called for side in sides.both)
        raise LocatedError(
            join_,
            f"The join has no time bound between {left!r} and {right!r}, so their rows would never be dropped. "
            f"Add to ON: AND {right}.{times[RIGHT]} BETWEEN {left}.{times[LEFT]} AND {left}.{times[LEFT]} + INTERVAL "
            f"'1' HOUR; or join {right} OVER (ROWS 3 PRECEDING), or windows of both.",
        )
    else:
        bounds["within"] = tuple(
            None if part is None else timedelta(microseconds=part) for part in (on.lower, on.upper)
        )
    # Conditions are asked of rows that are both there.
    where = conjunction(JoinedColumns(sides, False, times, "inner").placed(part) for part in on.further)
    with locate(join_):
        left, right = _streams(sides, on, times)
        return join(
            left,
            right,
            on=_on(on),
            how=how,
            where=None if where is None else to_polars(where),
            **bounds,
        )


def _window_join(
    emit: Any, join_: exp.Join, sides: JoinTables, on: JoinConditions, times: tuple[Time, ...], how: Any
) -> Pipeline:
    tables = [join_side.node.this for join_side in sides.both]
    kind, other = (window_of(table) for table in tables)
    if kind != other:
        raise LocatedError(
            tables[1], "The two sides of this join have different windows. Give both the same function and lengths."
        )
    # Windows that grow share their starts, and some share their ends.
    needed = 2 if isinstance(kind, windows.Cumulate) else 1
    if len(on.windows & set(WINDOW)) < needed:
        raise LocatedError(
            join_.args.get("on") or join_,
            "Rows of windows match in the same window: add AND a.window_start = b.window_start AND a.window_end = "
            "b.window_end to ON.",
        )
    if on.further or on.lower is not None or on.upper is not None:
        at = on.further[0] if on.further else join_
        raise LocatedError(at, unsupported("A further condition in ON of windows", "Put it into WHERE."))
    options = emit_clause(emit).join_options()
    if options is None:
        what = "SKIP UNCHANGED, OUTPUT TIME, MAY LOSE DATA or a lateness in rows for a join"
        raise LocatedError(emit, unsupported(what, "Leave it out."))
    for side in sides.both:
        if side.rows.stream.keep is not None:
            raise LocatedError(side.node, keep_without_join(side.rows.stream.name))
    with locate(emit or join_):
        left, right = _streams(sides, on, times)
        return window_join(
            left,
            right,
            window=kind,
            on=_on(on),
            how=how,
            **options,
        )


def _time_of(side: JoinTable, table: WindowTable) -> Time:
    """Return the time of the windows of a side."""
    descriptor = table.args.get("time")
    if descriptor is None:
        return side.rows.only_time(table)
    time = time_of(descriptor)
    return side.rows.check_time(side.names.name(descriptor) if isinstance(time, str) else time, table)


def _streams(sides: JoinTables, on: JoinConditions, times: tuple[Time, ...]) -> list[Any]:
    streams = []
    for i, (side, time) in enumerate(zip(sides.both, times, strict=True)):
        if side.rows.stream.limits:
            raise LocatedError(side.node, limits_of_several(side.rows.stream.name))
        streams.append(side.rows.stream.stream(time, tuple(pair[i] for pair in on.equal)))
    return streams


def _on(on: JoinConditions) -> Any:
    """Return the pairs of key columns, if their names differ; None: the keys of the streams."""
    return None if all(ours == theirs for ours, theirs in on.equal) else dict(on.equal)


def _over(node: Any) -> dict[str, Any]:
    with locate(node):
        if node.args["unit"] == "rows":
            return {"last": number(node.args["length"])}
        back = duration(length(node.args["length"]), what="RANGE", zero=True)
        return {"within": (timedelta(microseconds=-back), timedelta(0))}


def _keep(sides: JoinTables) -> dict[str, str]:
    named = {"left": sides.left.rows.stream.keep, "right": sides.right.rows.stream.keep}
    return {name: keep for name, keep in named.items() if keep is not None}

"""``JOIN``: two streams whose rows meet near in time, behind each other, or in the same window."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.errors import sql as errors
from eventide.errors import sql_joins as join_errors
from eventide.plan import Pipeline, join, window_join
from eventide.streamsql.compiled import Compiled
from eventide.streamsql.conditions import Conditions, Side, Sides, conditions
from eventide.streamsql.emitting import emitted
from eventide.streamsql.expressions import in_polars
from eventide.streamsql.grouping import watermarked
from eventide.streamsql.names import conjuncts, together
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.pairs import SUFFIX, Pairs, is_of_panes
from eventide.streamsql.places import At, said_at
from eventide.streamsql.projecting import Projection
from eventide.streamsql.read_columns import read_columns
from eventide.streamsql.reading import length, number
from eventide.streamsql.relations import relation
from eventide.streamsql.rows import Rows
from eventide.streamsql.scope import Scope
from eventide.streamsql.selects import alias_of, refuse_aggregates, table_of, unwrapped
from eventide.streamsql.streams import Time, time_of
from eventide.streamsql.windows import window_of

_HOW = {"": "inner", "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


def joined(select: exp.Select, scope: Scope) -> Compiled:
    """A query that joins two streams, as a pipeline."""
    join_ = _only_join(select)
    left, right = (_side(one, scope) for one in (table_of(select), unwrapped(join_.this)))
    if left.windowed != right.windowed:
        plain = right if left.windowed else left
        raise At(plain.node, join_errors.half_windowed(plain.called))
    how = _how(join_)
    sides = Sides(left, right)
    met = conditions(join_, sides)
    if not met.equal:
        raise At(join_, join_errors.no_condition(f"{left.called}.id = {right.called}.id"))
    sides = sides.joined_on(met.equal)
    times = _times(select, sides, met)
    pushed, behind = _filters(select, sides, how)
    sides = sides.filtered(pushed, select.args.get("where"))
    read = read_columns(sides, times, select.expressions, [*behind, *_on_of(join_)])
    sides = read.narrowed()
    pipeline = (_of_windows if left.windowed else _of_rows)(select, join_, sides, met, times, how)
    pairs = Pairs(sides, left.windowed, times, how)
    projection = Projection(pairs.columns(select), together(pairs.placed(one) for one in behind))
    untold = "pane" if projection.tells_panes() else projection.untold()  # a pair is taken back with another pane
    if untold is not None and pipeline.plan.mode == "retracting":
        raise At(select.args["where"], errors.not_repeated(untold))
    inputs = {"left": sides.left.rows, "right": sides.right.rows}
    return Compiled((pipeline,), inputs, projection, sides.columns(SUFFIX), left.windowed, read=read)


def _on_of(join_: exp.Join) -> list[exp.Expr]:
    on = join_.args.get("on")
    return [] if on is None else [on]


def _only_join(select: exp.Select) -> exp.Join:
    found: list[exp.Join] = select.args["joins"]
    if len(found) > 1:
        raise At(found[1].this, join_errors.too_many_joins())
    if not isinstance(found[0].this, exp.Table | exp.Subquery):
        raise At(found[0], errors.not_here("This join", "Join two streams."))
    if not found[0].args.get("on") and not found[0].args.get("using") and not found[0].args.get("kind"):
        raise At(found[0], errors.not_here("A join without ON", "Write FROM a JOIN b ON a.id = b.id AND …."))
    if select.args.get("distinct"):
        raise At(
            select.args["distinct"], errors.not_here("SELECT DISTINCT with JOIN", "Group the result in an outer query.")
        )
    return found[0]


def _how(join_: exp.Join) -> Any:
    said = (join_.args.get("side") or "").upper() or (join_.args.get("kind") or "").upper()
    if (
        join_.args.get("method")
        or said not in _HOW
        or (join_.args.get("kind") or "").upper() in ("SEMI", "ANTI", "CROSS")
    ):
        what = join_.args.get("method") or join_.args.get("kind") or said
        raise At(join_, errors.not_here(f"{what} JOIN", "Use JOIN, LEFT JOIN, RIGHT JOIN or FULL JOIN with ON."))
    return _HOW[said]


def _side(table: exp.Expr, scope: Scope) -> Side:
    inner = table.this if isinstance(table.this, WindowTable) else None
    found = relation(inner.this if inner is not None else table, scope)
    if not isinstance(found, Rows):
        what = "A join with the result of another query" if isinstance(found, Compiled) else "A join with UNION ALL"
        raise At(table, errors.not_here(what, "Join the rows of two streams."))
    return Side(table, found, found.names(*alias_of(table)))


def _filters(
    select: exp.Select, sides: Sides, how: str
) -> tuple[tuple[list[exp.Expr], list[exp.Expr]], list[exp.Expr]]:
    """WHERE: what only one side's rows decide is asked of them before they are joined; the rest, behind the join.

    A side that may be padded with nulls is never filtered before, or a pair would become a lone row.
    """
    where = select.args.get("where")
    pushed: tuple[list[exp.Expr], list[exp.Expr]] = ([], [])
    behind: list[exp.Expr] = []
    early = {"inner": (0, 1), "left": (0,), "right": (1,), "full": ()}[how]
    for one in conjuncts(None if where is None else where.this):
        refuse_aggregates(one)
        columns = list(one.find_all(exp.Column))
        of = {None if is_of_panes(node) else sides.side_of(node) for node in columns}
        only = of.pop() if len(of) == 1 else None
        # Rows that the watermark counts must not be missing, so they are filtered behind the join.
        if only is not None and only in early and (sides.left, sides.right)[only].rows.stream.counted() is None:
            pushed[only].append((sides.left, sides.right)[only].names.spelt(one))
        else:
            behind.append(one)
    return pushed, behind


def _times(select: exp.Select, sides: Sides, met: Conditions) -> tuple[Time, ...]:
    """The event times of both sides."""
    if sides.left.windowed:
        return tuple(_time_of(one, one.node.this) for one in (sides.left, sides.right))
    if select.args.get("emit"):
        raise At(select.args["emit"], join_errors.emit_of_rows())
    return sides.times(met, sides.right.node.args.get("over"))


def _of_rows(
    select: exp.Select, join_: exp.Join, sides: Sides, met: Conditions, times: tuple[Time, ...], how: Any
) -> Pipeline:
    over = sides.right.node.args.get("over")
    bounds: dict[str, Any] = {}
    if over is not None:
        if met.bound is not None:
            raise At(met.bound, join_errors.bound_beside_over())
        bounds["over"] = _over(over)
    elif met.lower is None and met.upper is None and not _retained(sides):
        names = sides.left.called, sides.right.called, str(times[1]), str(times[0])
        raise At(join_, join_errors.no_bound(*names))
    else:
        bounds["within"] = tuple(None if one is None else timedelta(microseconds=one) for one in (met.lower, met.upper))
    # Conditions are asked of rows that are both there.
    where = together(Pairs(sides, False, times, "inner").placed(one) for one in met.further)
    with said_at(join_):
        left, right = _streams(sides, met, times)
        return join(
            left,
            right,
            on=_on(met),
            how=how,
            where=None if where is None else in_polars(where),
            **bounds,
        )


def _of_windows(
    select: exp.Select, join_: exp.Join, sides: Sides, met: Conditions, times: tuple[Time, ...], how: Any
) -> Pipeline:
    tables = [one.node.this for one in (sides.left, sides.right)]
    kind, other = (window_of(table) for table in tables)
    if kind != other:
        raise At(tables[1], join_errors.unlike_windows())
    # Windows that grow share their starts, and some share their ends.
    needed = 2 if isinstance(kind, windows.Cumulate) else 1
    if len(met.windows & {"window_start", "window_end"}) < needed:
        raise At(join_.args.get("on") or join_, join_errors.windows_not_joined())
    if met.further or met.lower is not None or met.upper is not None:
        at = met.further[0] if met.further else join_
        raise At(at, errors.not_here("A further condition in ON of windows", "Put it into WHERE."))
    said = emitted(select.args.get("emit"))
    if said.only_updated or said.at != "end" or said.may_lose_data or "rows" in said.lateness:
        what = "ONLY UPDATED, AT, MAY LOSE DATA or a lateness in rows for a join"
        raise At(select.args["emit"], errors.not_here(what, "Leave it out."))
    with said_at(select.args.get("emit") or join_):
        left, right = _streams(sides, met, times)
        return window_join(
            left,
            right,
            window=kind,
            on=_on(met),
            how=how,
            trigger=said.trigger,
            lateness=said.lateness.get("time"),
            mode=said.mode,  # type: ignore[arg-type]
        )


def _time_of(side: Side, table: WindowTable) -> Time:
    """The time that the windows of a side go by."""
    given = table.args.get("time")
    if given is None:
        return side.time(table)
    time = time_of(given)
    return watermarked(side.rows, side.names.name(given) if isinstance(time, str) else time, table)


def _streams(sides: Sides, met: Conditions, times: tuple[Time, ...]) -> list[Any]:
    made = []
    for i, (side, time) in enumerate(zip((sides.left, sides.right), times, strict=True)):
        made.append(side.rows.stream.stream(time, tuple(pair[i] for pair in met.equal)))
    return made


def _on(met: Conditions) -> Any:
    """Only where the two sides call their columns differently; else they are the keys of the streams."""
    return None if all(ours == theirs for ours, theirs in met.equal) else dict(met.equal)


def _over(node: Any) -> Any:
    with said_at(node):
        if node.args["unit"] == "rows":
            return windows.rows(number(node.args["length"]))
        return windows.range(length(node.args["length"]))


def _retained(sides: Sides) -> bool:
    return any("time" in one.rows.stream.retain for one in (sides.left, sides.right))

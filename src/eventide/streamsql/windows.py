"""``TUMBLE``, ``HOP`` and other table functions as windows."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.errors import did_you_mean
from eventide.plan.plan import Window
from eventide.streamsql.errors import window_arguments
from eventide.streamsql.select_clause import TableColumns
from eventide.streamsql.source_positions import LocatedError, locate
from eventide.streamsql.syntax import WindowTable, column, constant, length, number

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "TUMBLE": windows.tumbling,
    "HOP": windows.sliding,
    "SESSION": windows.sessions,
    "CUMULATE": windows.cumulate,
    "CALENDAR": windows.calendar,
    "ROWS_WINDOW": windows.rows,
    "ROW_SESSION": windows.row_sessions,
}
# The arguments of each in their order, behind the table and its time, with what each of them is.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "TUMBLE": {"size": length, "offset": length},
    "HOP": {"every": length, "size": length, "offset": length, "gaps": constant},
    "SESSION": {"gap": None, "touching": constant, "max_duration": length},
    "CUMULATE": {"step": length, "size": length, "offset": length},
    "CALENDAR": {"unit": constant, "tz": constant},
    "ROWS_WINDOW": {
        "size": number,
        "every": number,
        "by": column,
        "first": number,
        "timeout": length,
        "forget_after": length,
    },
    "ROW_SESSION": {"absent": number, "by": column, "timeout": length},
}
_ALSO = {("HOP", "slide"): "every", ("HOP", "hop"): "every"}  # what others call it
_EXAMPLES = {
    "TUMBLE": "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE): the step, then the size",
    "SESSION": "SESSION(clicks, DESCRIPTOR(ts), INTERVAL '30' MINUTE), or with a column for the gap",
    "CUMULATE": "CUMULATE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY): the step, then the size",
    "CALENDAR": "CALENDAR(orders, DESCRIPTOR(ts), 'month', tz => 'Europe/Berlin')",
    "ROWS_WINDOW": "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100), or with every => 10",
    "ROW_SESSION": "ROW_SESSION(clicks, DESCRIPTOR(ts), absent => 5)",
}


def window_of(table: WindowTable, names: TableColumns | None = None) -> Window:
    """Return the window of a table function, for the columns of its table if they are known."""
    kind: str = table.args["kind"]
    build, arguments = _FUNCTIONS[kind], _named(table, kind, names)
    required = (name for name, parameter in signature(build).parameters.items() if parameter.default is parameter.empty)
    if any(name not in arguments for name in required):
        raise LocatedError(table, window_arguments(kind, _EXAMPLES[kind]))
    with locate(table):
        window: Window = build(**arguments)
        return window


def _named(table: WindowTable, kind: str, names: TableColumns | None) -> dict[str, Any]:
    """Return the arguments by name, each parsed by its type."""
    parameters = _ARGUMENTS[kind]
    arguments: dict[str, Any] = {}
    for place, node in enumerate(table.args["arguments"]):
        if isinstance(node, exp.Kwarg):
            name, value = node.this.name.lower(), node.expression
            if name not in parameters:
                known = _ALSO.get((kind, name))
                hint = f"Write {known} => …." if known else did_you_mean(name, parameters)
                raise LocatedError(node, f"{kind} has no argument {name!r}. {hint}")
        elif place < len(parameters):
            name, value = list(parameters)[place], node
        else:
            raise LocatedError(node, window_arguments(kind, _EXAMPLES[kind]))
        if name in arguments:
            raise LocatedError(node, window_arguments(kind, _EXAMPLES[kind]))
        arguments[name] = _read(parameters[name], name, value, kind, names)
    return arguments


def _read(reader: Any, name: str, value: Any, kind: str, names: TableColumns | None) -> Any:
    of_column = reader is column or (reader is None and isinstance(value, exp.Column))
    if of_column and names is not None and isinstance(value, exp.Column):
        return names.name(value)
    if reader is None:  # the gap of a session: a length, or a column that has one for each row
        return column(value, "gap") if of_column else length(value)
    return reader(value, f"{name} of {kind}") if reader in (column, constant) else reader(value)

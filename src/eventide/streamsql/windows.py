"""``TUMBLE``, ``HOP`` and their like: a window function as a kind of window."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from eventide import windows
from eventide.errors import sql as errors
from eventide.plan.plan import Window
from eventide.streamsql.names import Names
from eventide.streamsql.nodes import WindowTable
from eventide.streamsql.places import At, said_at
from eventide.streamsql.reading import column, constant, length, number

# The arguments of each in their order, behind the table and its time, with what each of them is.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "TUMBLE": {"size": length, "offset": length},
    "HOP": {"every": length, "size": length, "offset": length},
    "SESSION": {"gap": None, "touching": constant, "max_duration": length},
    "CUMULATE": {"step": length, "size": length, "offset": length},
    "CALENDAR": {"unit": constant, "tz": constant},
    "ROWS_WINDOW": {"size": number, "every": number, "by": column, "first": number},
    "ROW_SESSION": {"absent": number, "by": column},
}
_ALSO = {("HOP", "slide"): "every"}  # what others call it
_EXAMPLES = {
    "TUMBLE": "TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE): the slide, then the size",
    "SESSION": "SESSION(clicks, DESCRIPTOR(ts), INTERVAL '30' MINUTE), or with a column for the gap",
    "CUMULATE": "CUMULATE(orders, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY): the step, then the size",
    "CALENDAR": "CALENDAR(orders, DESCRIPTOR(ts), 'month', tz => 'Europe/Berlin')",
    "ROWS_WINDOW": "ROWS_WINDOW(orders, DESCRIPTOR(ts), 100), or with every => 10",
    "ROW_SESSION": "ROW_SESSION(clicks, DESCRIPTOR(ts), absent => 5)",
}


def window_of(table: WindowTable, names: Names | None = None) -> Window:
    """The kind of window that a table function makes, over the columns of its table where they are known."""
    kind: str = table.args["kind"]
    given = _named(table, kind, names)
    example = _EXAMPLES[kind]
    needed = {"TUMBLE": ["size"], "HOP": ["size", "every"], "SESSION": ["gap"], "CUMULATE": ["step", "size"]}
    needed |= {"CALENDAR": ["unit"], "ROWS_WINDOW": ["size"], "ROW_SESSION": ["absent"]}
    if any(name not in given for name in needed[kind]):
        raise At(table, errors.window_arguments(kind, example))
    with said_at(table):
        match kind:
            case "TUMBLE":
                return windows.tumbling(given.pop("size"), **given)
            case "HOP":
                return windows.sliding(given.pop("size"), **given)
            case "SESSION":
                return windows.sessions(given.pop("gap"), **given)
            case "CUMULATE":
                return windows.cumulate(given.pop("step"), given.pop("size"), **given)
            case "CALENDAR":
                return windows.calendar(given.pop("unit"), **given)
            case "ROWS_WINDOW":
                return windows.rows(given.pop("size"), **given)
            case _:
                return windows.row_sessions(**given)


def _named(table: WindowTable, kind: str, names: Names | None) -> dict[str, Any]:
    """The arguments by name, each read as what it is."""
    known = _ARGUMENTS[kind]
    given: dict[str, Any] = {}
    for place, node in enumerate(table.args["arguments"]):
        if isinstance(node, exp.Kwarg):
            name, value = node.this.name.lower(), node.expression
            name = _ALSO.get((kind, name), name)
            if name not in known:
                raise At(node, errors.unknown_argument(kind, name, known))
        elif place < len(known):
            name, value = list(known)[place], node
        else:
            raise At(node, errors.window_arguments(kind, _EXAMPLES[kind]))
        if name in given:
            raise At(node, errors.window_arguments(kind, _EXAMPLES[kind]))
        given[name] = _read(known[name], name, value, kind, names)
    return given


def _read(reader: Any, name: str, value: Any, kind: str, names: Names | None) -> Any:
    of_column = reader is column or (reader is None and isinstance(value, exp.Column))
    if of_column and names is not None and isinstance(value, exp.Column):
        return names.name(value)
    if reader is None:  # the gap of a session: a length, or a column that has one for each row
        return column(value, "gap") if of_column else length(value)
    return reader(value, f"{name} of {kind}") if reader in (column, constant) else reader(value)

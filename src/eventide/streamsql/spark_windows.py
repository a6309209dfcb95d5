"""``window()`` and ``session_window()``, by which Spark groups, and the table functions that replace them."""

from __future__ import annotations

from sqlglot import exp

from eventide.errors import PlanError
from eventide.streamsql.errors import unsupported

SPARK_WINDOWS = ("window", "session_window")


def spark_window(call: exp.Anonymous) -> PlanError:
    """Return the error for a window of Spark, with the table function to write instead.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT COUNT(*) FROM orders GROUP BY session_window(ts, '5 minutes')")
    >>> print(str(spark_window(query.find(exp.Anonymous))).partition(" and ")[0])
    session_window(…) is not supported. Write FROM SESSION(orders, DESCRIPTOR(ts), INTERVAL '5 minutes')
    """
    select = call.find_ancestor(exp.Select)
    source = select.find(exp.Table) if select is not None else None
    table = source.name if source is not None and source.name else "orders"
    time, *lengths = [argument.sql() for argument in call.expressions] or ["ts"]
    lengths = [f"INTERVAL {length}" if length.startswith("'") else length for length in lengths]
    if call.name.lower() == "session_window":
        function, lengths = "SESSION", lengths[:1]
    elif len(lengths) > 1 and lengths[0] != lengths[1]:
        function, lengths = "HOP", [lengths[1], lengths[0], *lengths[2:]]
    else:
        function, lengths = "TUMBLE", [*lengths[:1], *lengths[2:]]
    arguments = ", ".join([table, f"DESCRIPTOR({time.rpartition('.')[2]})", *lengths])
    return unsupported(
        f"{call.name}(…)",
        f"Write FROM {function}({arguments}) and GROUP BY window_start, window_end. These columns replace "
        "window.start and window.end.",
    )

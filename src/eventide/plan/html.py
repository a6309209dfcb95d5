"""A plan as a notebook shows it: the facts of ``explain()`` in a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from eventide.plan.explain import facts
from eventide.plan.join_plan import JoinPlan
from eventide.plan.plan import Plan
from eventide.plan.process_plan import ProcessPlan

# Styles stand in the tags, because some notebooks drop <style>. Colours are those of the surroundings, light or dark,
# but for what must be seen.
_TABLE = "border-collapse:collapse;margin:.3em 0;border:1px solid rgba(128,128,128,.35)"
_CELL = "padding:.25em .8em;text-align:left;vertical-align:top;border-top:1px solid rgba(128,128,128,.2)"
_NAME = f"{_CELL};font-weight:normal;white-space:nowrap;opacity:.65"
_FACT = f"{_CELL};white-space:normal"
_ALARM = f"{_FACT};font-weight:bold;color:#c4620a"
_TITLE = "padding:.35em .8em;text-align:left;font-weight:bold;caption-side:top;color:inherit"


def table(plan: Plan | JoinPlan | ProcessPlan, notes: Sequence[str] = ()) -> str:
    """The facts of a plan in a table of HTML. Whatever users wrote in names and expressions is escaped.

    ``notes`` are further lines, below the facts.

    >>> import eventide as ev
    >>> html = table(ev.stream(time="ts").window(ev.tumbling("1 minute")).agg(n=ev.count()).plan)
    >>> "<caption" in html, ">tumbling 1m</td>" in html
    (True, True)
    """
    told = [*_gathered(plan), *([("beside it", list(notes))] if notes else [])]
    rows = "".join(_row(name, lines) for name, lines in told)
    return f'<table style="{_TABLE}"><caption style="{_TITLE}">Pipeline</caption><tbody>{rows}</tbody></table>'


def _gathered(plan: Plan | JoinPlan | ProcessPlan) -> list[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    for name, line in facts(plan):
        if name:
            rows.append((name, [line]))
        else:
            rows[-1][1].append(line)
    return rows


def _row(name: str, lines: list[str]) -> str:
    alarming = name == "warning" or (name == "may be lost" and not lines[0].startswith("nothing"))
    told = "<br>".join(escape(line) for line in lines)
    return (
        f'<tr style="background:none"><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="{_ALARM if alarming else _FACT}">{told}</td></tr>'
    )

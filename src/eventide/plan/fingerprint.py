"""The fingerprint of a plan: the parts that saved state depends on, each as text.

Equal plans have equal fingerprints in every process. A part is described in one line (``window: tumbling 1m``). Options
that the line leaves out follow under the part's name (``watermark: first_chunk``), so that a change is reported where
it was made. Options with their default value are left out: a new option does not change old fingerprints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any

import polars as pl

from eventide._column_refs import in_unit
from eventide.plan.explain import retention_of
from eventide.plan.join_plan import LEFT, RIGHT, JoinPlan
from eventide.plan.plan import IngestionTime, Input, Plan
from eventide.plan.process_plan import ProcessPlan
from eventide.plan.window_plan import WindowPlan
from eventide.time import format_duration

DETAIL = ": "
"""Between the name of a part and the name of one of its options."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # the address of an object differs between processes
_MAX_DEPTH = 6  # levels of nested options that are written out


def fingerprint(plan: Plan) -> dict[str, str]:
    """The parts of a plan that state depends on, by name.

    >>> import eventide as ev
    >>> minutes = ev.stream(time="ts", key="shop").window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> fingerprint(minutes.plan)["window"]
    'tumbling 1m'
    """
    if isinstance(plan, JoinPlan):
        return _join(plan)
    if isinstance(plan, ProcessPlan):
        return _process(plan)
    assert isinstance(plan, WindowPlan)
    return _windows(plan)


def _windows(plan: WindowPlan) -> dict[str, str]:
    by_time = plan.window.axis == "time"
    # When keys are forgotten may change between two starts.
    window = plan.window if plan.forget_after is None else replace(plan.window, forget_after=None)  # type: ignore
    parts = {
        **_stream(plan),
        "window": window.describe(),
        **_details("window", window),
        "trigger": plan.trigger.describe(),
        **_details("trigger", plan.trigger),
        "lateness": format_duration(plan.allowed_lateness) if by_time else f"{plan.allowed_lateness} rows",
        "mode": plan.mode,
        "panes only when the value changed": "yes" if plan.skip_unchanged else "no",
        "pane time": plan.output_time,
    }
    if plan.sides is not None:
        parts["rows of the inputs"] = plan.sides.describe()
        parts["suffix"] = plan.sides.suffix
    if plan.limits is not None:
        parts["state limits"] = plan.limits.describe()
    for name, aggregate in plan.aggregates.items():
        parts[f"aggregate {name}"] = _ADDRESS.sub("", str(aggregate))
        parts |= _details(f"aggregate {name}", aggregate)
    return parts


def _join(plan: JoinPlan) -> dict[str, str]:
    parts = {
        **_inputs(plan.inputs),
        "key": ", ".join(plan.key),
        "join": plan.how,
        "within": plan.describe(),
        "left rows stay": retention_of(plan, LEFT),
        "right rows stay": retention_of(plan, RIGHT),
        "suffix": plan.suffix,
    }
    if plan.where is not None:  # as text, long lists are cut short
        parts |= {
            "where condition": _ADDRESS.sub("", str(plan.where)),
            f"where condition{DETAIL}in full": _expression(plan.where),
        }
    return parts


def _process(plan: ProcessPlan) -> dict[str, str]:
    """The code and the fields of a processor may change under its state."""
    columns = ", ".join(f"{name}: {dtype}" for name, dtype in plan.state.items())
    return {**_stream(plan), "processor": plan.name, "state": columns or "none"}


def _stream(plan: Plan) -> dict[str, str]:
    return {
        "time": "the time of the batch" if isinstance(plan.time, IngestionTime) else plan.time + in_unit(plan.time),
        "key": ", ".join(plan.key),
        "watermark": plan.watermark.in_state().describe(),
        **_details("watermark", plan.watermark.in_state()),
        **_inputs(plan.inputs),
    }


def _inputs(inputs: tuple[Input, ...]) -> dict[str, str]:
    parts = {}
    for stream in inputs:
        strategy = stream.watermark.in_state()
        parts[f"input {stream.name}"] = replace(stream, watermark=strategy).describe()
        parts |= _details(f"input {stream.name}", strategy)
    return parts


def _details(part: str, value: object) -> dict[str, str]:
    """The options of a part that differ from their defaults."""
    details = {f"{part}{DETAIL}{'.'.join(path)}": text for path, text in _options(value, ())}
    written_by_user = not type(value).__module__.startswith("eventide.")
    return details | ({f"{part}{DETAIL}class": type(value).__qualname__} if written_by_user else {})


def _options(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The plain values inside a value, with the names that lead to them."""
    nested = _nested(value)
    if nested is None or len(path) > _MAX_DEPTH:
        if path:
            yield path, _plain(value)
        return
    for name, option in nested.items():
        yield from _options(option, (*path, name))


def _nested(value: Any) -> Mapping[str, Any] | None:
    """What a value consists of; None for a plain one."""
    if isinstance(value, str | type | pl.Expr | pl.DataType):
        return None
    if is_dataclass(value):
        chosen = (option for option in fields(value) if option.repr)
        return {option.name: getattr(value, option.name) for option in chosen if not _is_default(value, option)}
    if isinstance(value, Mapping):
        return {str(name): option for name, option in value.items()}
    if isinstance(value, list | tuple):
        return {str(number): option for number, option in enumerate(value, 1)}
    if callable(value):
        return None
    attributes = getattr(value, "__dict__", None)
    return attributes if isinstance(attributes, dict) and attributes else None


def _is_default(value: Any, option: Field[Any]) -> bool:
    default = option.default_factory() if option.default_factory is not MISSING else option.default
    chosen = getattr(value, option.name)
    return type(chosen) is type(default) and bool(chosen == default)


def _plain(value: Any) -> str:
    if isinstance(value, pl.Expr):
        return _expression(value)
    if isinstance(value, Callable) and not isinstance(value, type | pl.DataType):  # type: ignore[arg-type]
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return _ADDRESS.sub("", str(value))


def _expression(condition: pl.Expr) -> str:
    """An expression with all of its literals."""
    try:
        return condition.meta.serialize(format="json")
    except pl.exceptions.PolarsError:  # it calls a Python function
        return _ADDRESS.sub("", str(condition))

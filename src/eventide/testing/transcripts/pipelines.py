"""Pipelines from their description in a transcript.

A function of eventide is called as ``name argument option value …`` or as a mapping; which words are options follows
from the function itself, so a new option of a window can be used here at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from eventide import aggregates, policies, triggers, watermarks, windows
from eventide.errors.kinds import did_you_mean
from eventide.plan import Pipeline, Stream, ingestion_time
from eventide.plan import stream as begin
from eventide.plan.combining import cogroup, union, window_join
from eventide.plan.joining import join
from eventide.testing.transcripts.document import read_value
from eventide.watermarks.options import ORIGIN_OPTIONS

Call = Callable[..., Any]


def _table(module: ModuleType, *names: str) -> dict[str, Call]:
    return {name: getattr(module, name) for name in names}


_WATERMARKS = _table(watermarks, "no_watermark", "bounded_delay", "ascending", "punctuated", "processing_time")
_WINDOWS = _table(windows, "tumbling", "sliding", "sessions", "cumulate", "calendar", "inherit", "rows", "row_sessions")
_WINDOWS["global"] = windows.global_window
_TRIGGERS = _table(
    triggers,
    *("after_watermark", "after_count", "after_processing_time", "every", "on_update", "never"),
    *("repeatedly", "any_of", "all_of", "in_order", "or_finally"),
)
_TRIGGERS |= _table(policies, "samza_aggregate", "samza_join")
_AGGREGATES = _table(
    aggregates,
    *(name for name in aggregates.__all__ if name.islower() and name not in ("reduce", "fold", "composite", "bind")),
)
_OF_TRIGGERS = ("after_watermark", "repeatedly", "any_of", "all_of", "in_order", "or_finally")


def build(description: Mapping[str, Any]) -> Pipeline:
    """The pipeline that a transcript describes; a ``PlanError`` says what is wrong with it.

    >>> print(build({"time": "ts", "window": "sliding 10 minutes every 1 minute", "agg": {"n": "count"}}).explain())
         time  column 'ts'
          key  none: one group
    ...
    """
    for name, bring in _TOGETHER.items():
        if name in description:
            return bring(description, _inputs(description))
    stream = union(**_inputs(description)) if "inputs" in description else _stream(description)
    if description.get("deduplicate"):
        stream = stream.deduplicate()
    if description.get("retain"):
        stream = stream.retain(**description["retain"])
    if "window" in description:
        kind = call("window", _WINDOWS, description["window"])
        stream = stream.window(kind, output_time=description.get("output_time", "end"))
    if "trigger" in description:
        stream = stream.trigger(trigger(description["trigger"]), may_lose_data=description.get("may_lose_data", False))
    if "lateness" in description:
        stream = _late(stream, description["lateness"])
    results = {name: call(f"agg {name}", _AGGREGATES, what) for name, what in description.get("agg", {}).items()}
    return _accumulating(stream, description).agg(**results)


def _stream(description: Mapping[str, Any]) -> Stream:
    time = description.get("time", "ts")
    return begin(
        time=ingestion_time() if time == "ingestion" else time,
        key=description.get("key"),
        watermark=call("watermark", _WATERMARKS, description.get("watermark", "no_watermark")),
    )


def _inputs(description: Mapping[str, Any]) -> dict[str, Stream]:
    """The inputs; what one does not say it takes from the pipeline."""
    shared = {name: description[name] for name in ("time", "key", "watermark") if name in description}
    inputs = description.get("inputs", {"left": {}, "right": {}})
    return {name: _stream(shared | own) for name, own in inputs.items()}


def _join(description: Mapping[str, Any], inputs: Mapping[str, Stream]) -> Pipeline:
    options = dict(description["join"])
    if isinstance(options.get("within"), list):
        options["within"] = tuple(options["within"])
    return join(*inputs.values(), **options)


def _windowed(description: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"window": call("window", _WINDOWS, description["window"])}
    if "trigger" in description:
        options["trigger"] = trigger(description["trigger"])
    return options | {name: description[name] for name in ("lateness", "mode") if name in description}


_TOGETHER: dict[str, Callable[[Mapping[str, Any], Mapping[str, Stream]], Pipeline]] = {
    "join": _join,
    "window_join": lambda said, inputs: window_join(*inputs.values(), **(_windowed(said) | said["window_join"])),
    "cogroup": lambda said, inputs: cogroup(inputs, **_windowed(said), **said["cogroup"]),
}


def call(what: str, known: Mapping[str, Call], said: Any) -> Any:
    """Call the function that is named by text or mapping."""
    name, args, options = _parts(what, known, said)
    return known[name](*args, **options)


def trigger(said: Any) -> Any:
    """A trigger, and the triggers in it."""
    name, args, options = _parts("trigger", _TRIGGERS, said)
    if name in _OF_TRIGGERS:
        args = [trigger(arg) for arg in args]
        options = {option: trigger(value) for option, value in options.items()}
    return _TRIGGERS[name](*args, **options)


def _late(stream: Stream, lateness: str) -> Stream:
    rows = re.fullmatch(r"(\d+) rows", lateness)
    return stream.lateness(rows=int(rows[1])) if rows else stream.lateness(lateness)


def _accumulating(stream: Stream, description: Mapping[str, Any]) -> Stream:
    mode = description.get("mode")
    if mode is None:
        return stream
    accumulate: Call = getattr(stream, mode)
    said: Stream = accumulate(skip_unchanged=description.get("skip_unchanged", False))
    return said


def _parts(what: str, known: Mapping[str, Call], said: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """The function's name, its arguments and its options."""
    if isinstance(said, str):
        name, _, rest = said.strip().partition(" ")
        _check(what, known, name)
        return name, *_cut(rest, _options(known[name]), known[name])
    names = [name for name in said if name in known]
    if len(names) != 1:
        _check(what, known, next(iter(said)))
    name = names[0]
    given, options = said[name], {option: value for option, value in said.items() if option != name}
    if isinstance(given, dict) and not any(inner in known for inner in given):
        return name, [], given | options
    if isinstance(given, list) and name in _OF_TRIGGERS:
        return name, given, options
    return (name, *_placed([] if given in (None, "", True) else [given], options, known[name]))


def _cut(text: str, option_names: list[str], function: Call) -> tuple[list[Any], dict[str, Any]]:
    """``10 minutes every 1 minute`` to an argument and options."""
    first: list[str] = []
    options: dict[str, list[str]] = {}
    into = first
    for word in text.split():
        if word in option_names and word not in options:
            into = options.setdefault(word, [])
        else:
            into.append(word)
    arguments = [read_value(" ".join(first))] if first else []
    return _placed(arguments, {name: read_value(" ".join(value)) for name, value in options.items()}, function)


def _placed(arguments: list[Any], options: dict[str, Any], function: Call) -> tuple[list[Any], dict[str, Any]]:
    """A function without positional parameters gets its argument by name."""
    parameters = list(inspect.signature(function).parameters.values())
    if arguments and parameters and parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        return [], {parameters[0].name: arguments[0]} | options
    return arguments, options


def _options(function: Call) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    named = [
        p.name for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY or (i > 0 and p.kind is not p.VAR_KEYWORD)
    ]
    return [*named, *ORIGIN_OPTIONS] if any(p.kind is p.VAR_KEYWORD for p in parameters) else named


def _check(what: str, known: Mapping[str, Call], name: str) -> None:
    if name not in known:
        raise ValueError(f"{what}: there is no {name!r}. {did_you_mean(name, known)}")

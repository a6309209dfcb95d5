"""The text format of transcripts: YAML with line numbers; rows, panes and pipelines from text.

A function of Eventide is written as ``name argument option value …`` or as a mapping. The signature of the function
defines which words are options, so a new option of a window can be used here at once.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeAlias

from eventide import aggregates, compat, triggers, watermarks, windows
from eventide.errors import did_you_mean
from eventide.panes import PANE_INDEX, PANE_IS_FIRST, PANE_IS_LAST, PANE_TIMING
from eventide.plan import Pipeline, Stream, WindowedStream, ingestion_time
from eventide.plan import stream as begin
from eventide.plan.interval_join import join
from eventide.plan.multi_input import cogroup, union, window_join
from eventide.testing.errors import bad_transcript, missing_package
from eventide.testing.expectations import ExpectedPane

try:
    import yaml
except ImportError:  # pragma: no cover - the extra is installed wherever tests run
    raise missing_package("Transcripts", "PyYAML", "testing") from None

Path: TypeAlias = tuple[str | int, ...]


class _Core(yaml.SafeLoader):
    """YAML 1.2's core schema: ``12:00`` and ``on`` are text, which YAML 1.1 reads as 720 and true."""


_Core.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[-+]?[0-9]+)?|\.nan", "-+.0123456789"),
):
    _Core.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first))


@dataclass
class Document:
    """The content of a file as plain data, with the line of each value."""

    name: str
    content: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """Return ``file:line`` of the value at ``path``, or of the innermost value around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines.get(path, 1)}"


def read_document(text: str, name: str) -> Document:
    """Parse YAML. Duplicate keys are rejected, because YAML would silently drop the first."""
    loader = _Core(text)
    try:
        root = loader.get_single_node()
        document = Document(name, None)
        document.content = None if root is None else _construct(loader, root, (), document)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        fix = "Put text with a colon, or that begins with '-' or '[', into quotes or into a block after '|'."
        raise bad_transcript(place, f"this is not YAML: {problem.problem}.", fix) from None
    finally:
        loader.dispose()
    return document


def read_value(text: str) -> Any:
    """Parse a value: a number, ``true``, ``null``, ``[a, b]``, or text.

    >>> [read_value(text) for text in ("5", "2.5", "null", "12:00", "[a, 1]")]
    [5, 2.5, None, '12:00', ['a', 1]]
    """
    try:
        return yaml.load(text, Loader=_Core)
    except yaml.YAMLError:
        return text


def _construct(loader: _Core, node: yaml.Node, path: Path, document: Document) -> Any:
    block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    document.lines[path] = node.start_mark.line + (2 if block else 1)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, child, (*path, i), document) for i, child in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    content = {}
    for key_node, child in node.value:
        key = str(loader.construct_object(key_node))
        if key in content:
            line = key_node.start_mark.line + 1
            raise bad_transcript(f"{document.name}:{line}", f"the key {key!r} occurs for the second time.")
        content[key] = _construct(loader, child, (*path, key), document)
        document.lines[(*path, key)] = max(document.lines[(*path, key)], key_node.start_mark.line + 1)
    return content


_WINDOW = re.compile(r"\[\s*([^,]+?)\s*,\s*([^,]+?)\s*\)")
_TIMING = re.compile(r"(EARLY|ON_TIME|LATE)(?:#([0-9]+))?")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FLAGS = {"first": PANE_IS_FIRST, "last": PANE_IS_LAST}


def words(line: str) -> list[str]:
    """Split a line at spaces, except inside quotes and brackets.

    >>> words("+ a [12:00, 12:02) words=[x, y] note='two words'")
    ['+', 'a', '[12:00, 12:02)', 'words=[x, y]', "note='two words'"]
    """
    parts, word, depth, quote = [], "", 0, ""
    for letter in line:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (not word or word.endswith("=") or depth):
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter.isspace() and depth <= 0:
            if word:
                parts.append(word)
            word = ""
            continue
        word += letter
    return [*parts, word] if word else parts


def read_row(line: str, columns: Sequence[str], *, more: bool = False) -> dict[str, Any]:
    """Parse a row: its values in the order of the columns; with ``more``, further fields may follow by name.

    >>> read_row("12:00:30 a null", ["ts", "user", "score"])
    {'ts': '12:00:30', 'user': 'a', 'score': None}
    >>> read_row("12:00:30 watermark=12:05", ["ts"], more=True)
    {'ts': '12:00:30', 'watermark': '12:05'}
    """
    texts = words(line)
    values = [_window(word) or read_value(word) for word in texts[: len(columns)]]
    named = [_NAMED.fullmatch(word) for word in texts[len(columns) :]] if more else [None] * (len(texts) - len(columns))
    if len(values) != len(columns) or not all(named):
        raise ValueError(
            f"{line.strip()!r} has {len(texts)} values, but there are {len(columns)} columns: {' '.join(columns)}."
        )
    row = dict(zip(columns, values, strict=True))
    return row | {match[1]: read_value(match[2]) for match in named if match}


def read_joined(line: str) -> ExpectedPane:
    """A row of a join from ``+ column=…``, because it has no window.

    >>> read_joined("+ user=a t=12:00")
    pane(user='a', t='12:00')
    """
    sign, *rest = words(line) or [""]
    named = [_NAMED.fullmatch(word) for word in rest]
    if sign not in ("+", "-") or not all(named):
        raise ValueError(f"{line.strip()!r}: a row of a join is written '+ column=value …'.")
    return ExpectedPane({match[1]: read_value(match[2]) for match in named if match}, 1 if sign == "+" else -1)


def read_pane(line: str, key: Sequence[str]) -> ExpectedPane:
    """A pane from ``+ key [start, end) result=… TIMING#index last field=…``; ``-`` takes one back.

    >>> read_pane("- a [12:00, 12:02) total=5 EARLY#0", ["user"])
    retraction(user='a', window=('12:00', '12:02'), total=5, pane_timing='EARLY', pane_index=0)
    """
    sign, *rest = words(line) or [""]
    if sign not in ("+", "-"):
        raise ValueError(f"{line.strip()!r}: a pane begins with '+ ', a retraction with '- '.")
    if len(rest) <= len(key) or _window(rest[len(key)]) is None:
        form = " ".join([*key, "[start, end)"])
        raise ValueError(f"{line.strip()!r}: after the sign, write {form!r}.")
    fields: dict[str, Any] = {name: read_value(word) for name, word in zip(key, rest, strict=False)}
    fields["window"] = _window(rest[len(key)])
    for word in rest[len(key) + 1 :]:
        fields |= _field(word, line)
    return ExpectedPane(fields, 1 if sign == "+" else -1)


def _field(word: str, line: str) -> Mapping[str, Any]:
    named, timing = _NAMED.fullmatch(word), _TIMING.fullmatch(word)
    if timing:
        index = {} if timing[2] is None else {PANE_INDEX: int(timing[2])}
        return {PANE_TIMING: timing[1], **index}
    if named:
        return {named[1]: _window(named[2]) or read_value(named[2])}
    if word in _FLAGS:
        return {_FLAGS[word]: True}
    raise ValueError(
        f"{line.strip()!r}: {word!r} is not understood. The window is followed by results (total=5), "
        "EARLY, ON_TIME or LATE with the pane's index (EARLY#0), 'first' or 'last', and other columns "
        "(emitted_at=12:05)."
    )


def _window(word: str) -> tuple[Any, Any] | None:
    match = _WINDOW.fullmatch(word)
    return None if match is None else (read_value(match[1]), read_value(match[2]))


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
_TRIGGERS |= _table(compat, "samza_aggregate", "samza_join")
_AGGREGATES = _table(
    aggregates,
    *(name for name in aggregates.__all__ if name.islower() and name not in ("reduce", "fold", "composite", "bind")),
)
_OF_TRIGGERS = ("after_watermark", "repeatedly", "any_of", "all_of", "in_order", "or_finally")


def build(description: Mapping[str, Any]) -> Pipeline:
    """The pipeline that a transcript describes; raises a ``PlanError`` if it is invalid.

    >>> print(build({"time": "ts", "window": "sliding 10 minutes every 1 minute", "agg": {"n": "count"}}).explain())
         time  column 'ts'
          key  none: one group
    ...
    """
    for name, bring in _TOGETHER.items():
        if name in description:
            return bring(description, _inputs(description))
    stream = union(**_inputs(description)) if "inputs" in description else _stream(description)
    if by := description.get("deduplicate"):
        stream = stream.deduplicate() if by is True else stream.deduplicate(by["id"], within=by["within"])
    if "window" not in description:
        raise ValueError("pipeline: it needs a window, such as `window: tumbling 1 minute`.")
    kind = call("window", _WINDOWS, description["window"])
    windows = stream.window(kind, output_time=description.get("output_time", "end"))
    if description.get("limit_state"):
        windows = windows.limit_state(**description["limit_state"])
    results = {name: call(f"agg {name}", _AGGREGATES, what) for name, what in description.get("agg", {}).items()}
    return _emitting(windows, description).agg(**results)


def _stream(description: Mapping[str, Any]) -> Stream:
    time = description.get("time", "ts")
    return begin(
        time=ingestion_time() if time == "ingestion" else time,
        key=description.get("key"),
        watermark=call("watermark", _WATERMARKS, description.get("watermark", "no_watermark")),
    )


def _inputs(description: Mapping[str, Any]) -> dict[str, Stream]:
    """Return the inputs. Settings that an input lacks are those of the pipeline."""
    shared = {name: description[name] for name in ("time", "key", "watermark") if name in description}
    inputs = description.get("inputs", {"left": {}, "right": {}})
    return {name: _stream(shared | specific) for name, specific in inputs.items()}


def _join(description: Mapping[str, Any], inputs: Mapping[str, Stream]) -> Pipeline:
    options = dict(description["join"])
    if isinstance(options.get("within"), list):
        options["within"] = tuple(options["within"])
    return join(*inputs.values(), **options)


def _windowed(description: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"window": call("window", _WINDOWS, description["window"])}
    if "trigger" in description:
        options["trigger"] = trigger(description["trigger"])
    options |= {"mode": description["mode"]} if "mode" in description else {}
    return options | _lateness(description)


_TOGETHER: dict[str, Callable[[Mapping[str, Any], Mapping[str, Stream]], Pipeline]] = {
    "join": _join,
    "window_join": lambda text, inputs: window_join(*inputs.values(), **(_windowed(text) | text["window_join"])),
    "cogroup": lambda text, inputs: cogroup(inputs, **_windowed(text), **text["cogroup"]),
}


def call(what: str, known: Mapping[str, Call], description: Any) -> Any:
    """Call the function that is named by text or mapping."""
    name, args, options = _parts(what, known, description)
    return known[name](*args, **options)


def trigger(description: Any) -> Any:
    """Create a trigger, and the triggers in it."""
    name, args, options = _parts("trigger", _TRIGGERS, description)
    if name in _OF_TRIGGERS:
        args = [trigger(arg) for arg in args]
        options = {option: trigger(value) for option, value in options.items()}
    return _TRIGGERS[name](*args, **options)


def _emitting(windows: WindowedStream, description: Mapping[str, Any]) -> WindowedStream:
    words = {name: description[name] for name in ("mode", "skip_unchanged") if description.get(name) is not None}
    words |= _lateness(description)
    if "trigger" in description:
        may_lose_data = description.get("may_lose_data", False)
        return windows.trigger(trigger(description["trigger"]), may_lose_data=may_lose_data, **words)
    return windows.emit(**words) if words else windows


def _lateness(description: Mapping[str, Any]) -> dict[str, Any]:
    lateness = description.get("allowed_lateness")
    if lateness is None:
        return {}
    rows = re.fullmatch(r"(\d+) rows", lateness)
    return {"allowed_lateness": int(rows[1]) if rows else lateness}


def _parts(what: str, known: Mapping[str, Call], description: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the name of the function, its arguments and its options."""
    if isinstance(description, str):
        name, _, rest = description.strip().partition(" ")
        _check(what, known, name)
        return name, *_cut(rest, _options(known[name]), known[name])
    names = [name for name in description if name in known]
    if len(names) != 1:
        _check(what, known, next(iter(description)))
    name = names[0]
    argument, options = description[name], {option: value for option, value in description.items() if option != name}
    if isinstance(argument, dict) and not any(inner in known for inner in argument):
        return name, [], argument | options
    if isinstance(argument, list) and name in _OF_TRIGGERS:
        return name, argument, options
    return (name, *_placed([] if argument in (None, "", True) else [argument], options, known[name]))


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
    return [p.name for i, p in enumerate(parameters) if i > 0 or p.kind is p.KEYWORD_ONLY]


def _check(what: str, known: Mapping[str, Call], name: str) -> None:
    if name not in known:
        raise ValueError(f"{what}: there is no {name!r}. {did_you_mean(name, known)}")

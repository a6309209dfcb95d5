"""Advice in messages names functions, methods and options that exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide as ev
from eventide import sinks, testing
from eventide.local import LocalQuery
from eventide.plan import Pipeline, Stream, WindowedStream

SOURCE = Path(ev.__file__).parent
METHODS = (Stream, WindowedStream, Pipeline, LocalQuery, testing.TestStream)
FUNCTION = re.compile(r"\b(ev|sinks|ev\.sinks)\.(\w+)(\(((?:[^()]|\([^()]*\))*)\))?")
METHOD = re.compile(r"(?<!ev)(?<!sinks)(?<!\bpl)\.(\w+)\(((?:[^()]|\([^()]*\))*)\)")
OPTION = re.compile(r"\b([a-z]\w*)=(?!=)")
OF = re.compile(r"\b([a-z]\w*)=(?:…|\.\.\.)? of (ev)?(?:pipeline)?\.(\w+)\(")
MODULES = {"ev": ev, "sinks": sinks, "ev.sinks": sinks}


def texts() -> Iterator[tuple[str, int, str]]:
    """Every text of the package that is no docstring, with its place. Values in a text are an ellipsis."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if id(node) in documentation or id(node) in inside:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                yield path.relative_to(SOURCE).as_posix(), node.lineno, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(SOURCE).as_posix(), node.lineno, node.value


def options(function: Any) -> set[str] | None:
    """The options of a function; None: it takes any."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    return set(parameters)


def outermost(arguments: str) -> str:
    """The arguments of a call without those of calls within."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "''", re.sub(r"\([^()]*\)", "", arguments))


def problems(text: str) -> Iterator[str]:
    for module, name, _, arguments in FUNCTION.findall(text):
        function = getattr(MODULES[module], name, None) if hasattr(MODULES[module], name) else None
        if function is None:
            yield f"{module}.{name} does not exist"
        elif arguments and callable(function) and (known := options(function)) is not None:
            yield from (f"{name}({option}=)" for option in OPTION.findall(outermost(arguments)) if option not in known)
    for name, arguments in METHOD.findall(text):
        known_options = [options(getattr(owner, name)) for owner in METHODS if hasattr(owner, name)]
        if known_options and None not in known_options:
            known = set().union(*filter(None, known_options))
            yield from (f".{name}({option}=)" for option in OPTION.findall(outermost(arguments)) if option not in known)
    for option, function, name in OF.findall(text):
        owners = [ev] if function else [owner for owner in METHODS if hasattr(owner, name)]
        known_sets = [options(getattr(owner, name)) for owner in owners if hasattr(owner, name)]
        if known_sets and all(known is not None and option not in known for known in known_sets):
            yield f"{option}= of {name}()"


TEXTS = [(place, line, text) for place, line, text in texts() if re.search(r"\bev\.|= of |\.\w+\(", text)]


def test_advice_names_functions_and_options_that_exist() -> None:
    wrong = [f"{place}:{line}: {problem}" for place, line, text in TEXTS for problem in problems(text)]
    assert not wrong, "\n".join(wrong)


def test_there_is_advice_to_check() -> None:
    assert len(TEXTS) > 200


@pytest.mark.parametrize(
    "text",
    [
        "use ev.tumble('1m')",
        "write ev.tumbling(size=…, shift='1m')",
        "see delay= of .emit(…)",
        "add .emit(lateness='1 hour')",
    ],
)
def test_advice_that_names_nothing_is_found(text: str) -> None:
    assert list(problems(text))

"""The public API as text: a name, a parameter, a default or an option never changes by accident.

``python -m tests.architecture.test_public_api`` writes the file anew, after a change that is meant.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import eventide
from eventide.cli.app import app

WRITTEN = Path(__file__).with_name("public_api.txt")
MODULES = (
    "eventide",
    "eventide.sinks",
    "eventide.marks",
    "eventide.testing",
    "eventide.errors",
    "eventide.time",
    "eventide.standalone",
    "eventide.compat",
)
CLASSES = ("eventide.spark.control.Control",)  # public, although no module exports them
SHOWN_ELSEWHERE = {
    *("Stream", "Pipeline", "Query", "QueryOutputs", "Accumulator", "Parts"),
    *("DataError", "EventideError", "PlanError", "Watermark"),
}


def described(module: str) -> list[str]:
    """Return a line for each public name of a module, with the methods of its classes."""
    lines = []
    namespace = importlib.import_module(module)
    names = getattr(namespace, "__all__", None) or [name for name in vars(namespace) if not name.startswith("_")]
    for name in sorted(names):
        value = getattr(namespace, name)
        if inspect.isclass(value):
            lines.append(f"{module}.{name}")
            lines += [f"{module}.{name}.{method}" for method in _methods(value)]
        elif inspect.isfunction(value):
            lines.append(f"{module}.{name}{_parameters(value)}")
        elif not inspect.ismodule(value):
            lines.append(f"{module}.{name}")
    return lines


def _methods(kind: type) -> list[str]:
    methods = []
    for name in sorted(dir(kind)):
        value = inspect.getattr_static(kind, name)
        if name.startswith("_") or not (getattr(value, "__module__", "") or "eventide").startswith("eventide"):
            continue
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        methods.append(f"{name}{_parameters(value)}" if inspect.isfunction(value) else name)
    return methods


def _parameters(function: object) -> str:
    """Return the names of the parameters with their defaults; types may change."""
    parts, keywords = [], False
    for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            parts.append("*")
            keywords = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        keywords = keywords or parameter.kind is parameter.VAR_POSITIONAL
        parts.append(stars + parameter.name + _default(parameter.default))
    return f"({', '.join(parts)})"


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return ""
    text = repr(value)
    return f"={text}" if " at 0x" not in text else "=…"


def commands() -> list[str]:
    """Return a line for each command of the command line, and for each of its arguments and options."""
    lines = []

    def walk(command: Any, path: str) -> None:
        lines.append(path)
        for parameter in getattr(command, "params", ()):
            default = "" if parameter.required or parameter.default is None else f"={parameter.default}"
            lines.append(f"{path} {'/'.join(parameter.opts + parameter.secondary_opts)}{default}")
        for name, inner in sorted(getattr(command, "commands", {}).items()):
            walk(inner, f"{path} {name}")

    walk(get_command(app), "$ eventide")
    return lines


def whole() -> str:
    lines = [line for module in MODULES for line in described(module)]
    for path in CLASSES:
        module, _, name = path.rpartition(".")
        lines += [path, *(f"{path}.{method}" for method in _methods(getattr(importlib.import_module(module), name)))]
    return "".join(f"{line}\n" for line in [*lines, *commands()])


def test_the_public_api_is_as_it_was_written_down() -> None:
    command = "python -m tests.architecture.test_public_api"
    assert whole().splitlines() == WRITTEN.read_text().splitlines(), f"if the change is meant: {command}"


PUBLIC = [
    name
    for name, value in ((name, getattr(eventide, name)) for name in eventide.__all__)
    if inspect.isfunction(value) or inspect.isclass(value)
]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(eventide, name))


# Parts of the builder are shown by ``stream``; exceptions and parts of protocols are shown where they are used.
@pytest.mark.parametrize("name", sorted(set(PUBLIC) - SHOWN_ELSEWHERE))
def test_a_public_name_has_an_example_that_is_run(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(eventide, name)) or "")


if __name__ == "__main__":
    WRITTEN.write_text(whole())

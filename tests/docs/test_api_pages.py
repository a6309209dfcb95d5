"""The pages of the API reference list every public name once, and each name has a docstring to show."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import reduce
from types import ModuleType

import pytest

import eventide as ev
import eventide.errors
import eventide.testing
from tests.docs.pages import DOCS

LISTED = [
    name
    for page in sorted((DOCS / "api").glob("*.md"))
    for name in re.findall(r"^::: eventide\.(\S+)$", page.read_text(), re.M)
]
PARTS = {"sinks": ev.sinks, "marks": ev.marks, "testing": ev.testing, "standalone": ev.standalone, "compat": ev.compat}
TYPES = {"sinks.AnySink"}  # a union of types has no docstring
WITHOUT_EXAMPLE = {
    "sinks.AnySink": "a union of types",
    "QueryOutputs": "exists only with DataFrames of Spark: docs/howto/spark.md",
    "marks.SegmentsLostError": "needs readers whose leases end: docs/howto/noted-time.md",
}


def public_names() -> set[str]:
    names = {name for name in ev.__all__ if not isinstance(getattr(ev, name), ModuleType)}
    for prefix, module in PARTS.items():
        exported = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        names |= {f"{prefix}.{name}" for name in exported if not isinstance(getattr(module, name), ModuleType)}
    return names - {"standalone.Rejected"} | {"errors.Rejected"}  # the same class


def test_every_public_name_is_on_one_page() -> None:
    assert {name: number for name, number in Counter(LISTED).items() if number > 1} == {}
    assert set(LISTED) == public_names()


@pytest.mark.parametrize("name", sorted(set(LISTED) - TYPES))
def test_a_listed_name_has_a_docstring(name: str) -> None:
    value = reduce(getattr, name.split("."), ev)
    assert (value.__doc__ or "").strip()


@pytest.mark.parametrize("name", sorted(set(LISTED)))
def test_a_listed_name_has_an_example(name: str) -> None:
    documentation = reduce(getattr, name.split("."), ev).__doc__ or ""
    assert (">>>" in documentation) == (name not in WITHOUT_EXAMPLE), WITHOUT_EXAMPLE.get(name, "no example")


def test_every_page_is_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text()
    assert all(f"api/{page.name}" in navigation for page in (DOCS / "api").glob("*.md"))


def test_examples_of_docstrings_are_shown_as_code() -> None:
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location("doctest_fences", DOCS / "doctest_fences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = module.fenced("Add numbers.\n\n>>> 1 + 1\n2\n\nNothing else.")
    assert shown == "Add numbers.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nNothing else."

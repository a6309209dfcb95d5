"""The overview of the reference leads to every page with names, and repeats none of the names."""

from __future__ import annotations

import inspect
import re

import pytest

import eventide as ev
from tests.docs.pages import DOCS
from tests.docs.test_api_pages import LISTED

REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")


def test_every_page_of_the_reference_is_linked_once() -> None:
    linked = re.findall(r"^\| \[[^]]+\]\((api/\w+\.md)\)", REFERENCE, re.MULTILINE)
    assert sorted(linked) == sorted(f"api/{page.name}" for page in (DOCS / "api").glob("*.md"))


def test_no_public_name_is_listed_twice() -> None:
    listed = {name.rpartition(".")[2] for name in LISTED}
    first_cells = re.findall(r"^\| `(?:ev\.)?([A-Za-z_.]+)", REFERENCE, re.MULTILINE)
    assert listed.isdisjoint(name.rpartition(".")[2] for name in first_cells)


def test_the_page_is_an_overview() -> None:
    assert len(REFERENCE.splitlines()) < 80


@pytest.mark.parametrize("option", [name for name in inspect.signature(ev.bounded_delay).parameters if name != "delay"])
def test_an_option_of_watermarks_is_described_with_its_function(option: str) -> None:
    assert f"``{option}" in str(ev.bounded_delay.__doc__)


@pytest.mark.parametrize(
    "kind", [ev.Stream, ev.WindowedStream, ev.Pipeline, ev.Query, ev.marks.Reader, ev.marks.Writer]
)
def test_every_public_method_has_a_docstring(kind: type) -> None:
    methods = {name: value for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
    assert [name for name, value in methods.items() if not (value.__doc__ or "").strip()] == []


@pytest.mark.parametrize("kind", [ev.Stream, ev.WindowedStream, ev.Query])
def test_every_public_method_has_an_example(kind: type) -> None:
    methods = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    assert [name for name, value in methods.items() if callable(value) and ">>>" not in (value.__doc__ or "")] == []

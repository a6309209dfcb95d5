"""The reference names all that is public, and no name that does not exist."""

import re
from types import ModuleType

import pytest

import eventide
import eventide.compat
import eventide.marks
import eventide.standalone
import eventide.testing
from eventide.watermarks.options import ORIGIN_OPTIONS
from tests.docs.pages import DOCS

REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"^\| `(?:ev\.)?([A-Za-z_]+)", REFERENCE, re.MULTILINE))


def _public(module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return sorted(name for name in names if not isinstance(getattr(module, name), ModuleType))


@pytest.mark.parametrize("name", _public(eventide))
def test_a_public_name_stands_in_the_reference(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("name", [name for name in _public(eventide.testing) if not name.startswith("Expected")])
def test_a_name_of_the_test_kit_stands_in_the_reference(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("name", eventide.marks.__all__)
def test_a_name_of_marks_stands_in_the_reference(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("module", [eventide.standalone, eventide.compat])
def test_a_name_of_a_module_beside_stands_in_the_reference(module: ModuleType) -> None:
    prefix = module.__name__.replace("eventide", "`ev")
    assert [name for name in module.__all__ if f"{prefix}.{name}" not in REFERENCE] == []


@pytest.mark.parametrize("kind", ["Reader", "Writer"])
def test_the_methods_of_marks_stand_in_the_reference(kind: str) -> None:
    public = {name for name in vars(getattr(eventide.marks, kind)) if not name.startswith("_")}
    assert {name for name in public if f"`{name}" not in REFERENCE} == set()


@pytest.mark.parametrize("option", ORIGIN_OPTIONS)
def test_an_option_of_watermarks_stands_in_the_reference(option: str) -> None:
    assert option in NAMED


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`ev\.([A-Za-z_]+)", REFERENCE))))
def test_a_name_in_the_reference_exists(name: str) -> None:
    assert hasattr(eventide, name)


@pytest.mark.parametrize("kind", ["Stream", "WindowedStream", "Pipeline"])
def test_the_methods_of_a_plan_stand_in_the_reference(kind: str) -> None:
    for method in (name for name in vars(getattr(eventide, kind)) if not name.startswith("_")):
        if callable(getattr(getattr(eventide, kind), method, None)):
            assert f"`.{method}(" in REFERENCE


def test_the_reference_does_not_repeat_the_signatures_of_the_api_pages() -> None:
    assert re.findall(r"^\| `ev\.[\w.]+\(.*?` \|", REFERENCE, re.MULTILINE) == []

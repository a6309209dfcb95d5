"""The figures are what their script draws, and each of them is shown on a page."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, PAGES

FIGURES = DOCS / "figures"


def _script(name: str = "draw") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FIGURES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("draw", _script().FIGURES, ids=lambda draw: draw.__name__)
def test_a_figure_is_what_the_script_draws(draw: Any) -> None:
    sheet = draw()
    assert (FIGURES / f"{sheet.name}.svg").read_text(encoding="utf-8") == sheet.svg()


def test_the_animated_picture_is_what_its_script_draws() -> None:
    drawing = (FIGURES / "demo.svg").read_text(encoding="utf-8")
    assert drawing == _script("demo").svg()
    ElementTree.fromstring(drawing)
    assert "prefers-reduced-motion" in drawing and "3: no time" in drawing and "7: too late" in drawing


def test_every_figure_is_shown_on_a_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [path.name for path in sorted(FIGURES.glob("*.svg")) if f"figures/{path.name})" not in text] == []


def test_the_cuts_of_the_figure_of_marks_are_those_that_the_page_prints() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    notes, cuts = _script().MARKS_NOTES, _script().MARKS_CUTS
    for number, cut in enumerate(cuts, 1):
        times = [f"12:{time:02d}" for mark, _, time, _ in notes if mark == number]
        assert f"\n{number} {min(times)} {max(times)} {cut}\n" in text


def test_the_watermarks_of_the_figure_of_keys_are_those_that_the_page_prints() -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    script = _script()
    pairs = set(zip(script.KEYS_CLICKS, script.KEYS_BUYS, strict=True))
    printed = re.findall(r"clicks at 12:(\d\d), buys at 12:(\d\d); passed on: key 0 at (\S+), key 1 at (\S+);", text)
    assert len(printed) == 6
    for clicks, buys, first, second in printed:
        click, buy = int(clicks), int(buys)
        assert (click, buy) in pairs
        assert (first, second) == (script._clock(min(click, buy - script.KEYS_WITHIN)), script._clock(min(click, buy)))


EVERYDAY = re.compile(r"\b(told|untold|tak(e|es|en) back|comes|stands|stood)\b")


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.svg")), ids=lambda path: path.stem)
def test_figures_use_the_terms_of_the_field(path: Path) -> None:
    words = [node.text or "" for node in ElementTree.parse(path).iter() if node.tag.endswith(("text", "title"))]
    assert [text for text in words if EVERYDAY.search(text)] == [], "emitted, retracted, arrives, position"

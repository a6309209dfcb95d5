"""The tutorial runs, and shows what is stored in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.notebook import TUTORIAL, executed, shown, stored


@pytest.fixture(scope="module")
def run() -> Any:
    return executed()


def test_the_tutorial_shows_what_is_stored_in_it(run: Any) -> None:
    for before, now in zip(stored().cells, run.cells, strict=True):
        assert shown(now) == shown(before), before.source


def test_no_cell_of_the_tutorial_warns(run: Any) -> None:
    assert [text for cell in run.cells for kind, text in shown(cell) if kind == "stderr"] == []


def test_the_tutorial_has_a_pipeline_a_table_and_a_picture() -> None:
    pages = [text for cell in stored().cells for kind, text in shown(cell) if kind == "text/html"]
    assert any("<caption" in page for page in pages)
    assert any("<table" in page and "emitted at" in page for page in pages)
    assert any("<iframe" in page for page in pages)


def test_the_stored_tutorial_is_no_more_than_a_page() -> None:
    assert TUTORIAL.stat().st_size < 200_000

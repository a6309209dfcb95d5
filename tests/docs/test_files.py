"""The files that pages name exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES

TESTS = DOCS.parent / "tests"
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
NAMED = sorted(set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|yaml|md))`", TEXT)))
ROOTS = (DOCS.parent, DOCS.parent / "src/eventide")


@pytest.mark.parametrize("path", NAMED)
def test_a_file_that_a_page_names_exists(path: str) -> None:
    assert any((root / path).is_file() for root in ROOTS)


def test_the_table_of_tests_is_complete() -> None:
    design = (DOCS / "design" / "architecture.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`tests/.*?) \|", design, re.MULTILINE)
    documented = {name for row in table for name in re.findall(r"`tests/(\w+)`", row)}
    directories = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    packages = {path.name for path in (DOCS.parent / "src/eventide").iterdir() if path.is_dir()}
    assert directories - packages <= documented <= directories


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_prose_of_a_page_fits_into_120_characters(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not [line for line in text.splitlines() if len(line) > 120 and not line.lstrip().startswith("|")]


LONGEST_SENTENCE = 45  # words


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the paragraphs, items and cells of a page."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *(- |\d+\. |#+ )", r"\n\n", text, flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\|", text):
        yield from re.split(r"(?<=[.!?])\**\s+(?=[A-Z`*\[])", " ".join(part.split()))


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_a_sentence_of_a_page_can_be_read_at_once(page: Path) -> None:
    assert not [s for s in sentences(page.read_text(encoding="utf-8")) if len(s.split()) > LONGEST_SENTENCE]


def test_sentences_of_items_and_cells_are_separate() -> None:
    text = "One. Two\nlines.\n\n- an item\n- another\n\n| a | b |\n\n```text\nno prose\n```\n"
    assert [s for s in sentences(text) if s] == ["One.", "Two lines.", "an item", "another", "a", "b"]

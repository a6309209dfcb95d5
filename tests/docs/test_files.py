"""The files that pages name exist."""

import re

import pytest

from tests.docs.pages import DOCS, PAGES

TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
NAMED = sorted(set(re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|yaml|md))`", TEXT)))
ROOTS = (DOCS.parent, DOCS.parent / "src/eventide")


@pytest.mark.parametrize("path", NAMED)
def test_a_file_that_a_page_names_exists(path: str) -> None:
    assert any((root / path).is_file() for root in ROOTS)

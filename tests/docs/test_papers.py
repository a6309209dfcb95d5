"""The page that maps the papers to the code names files that exist."""

import re

import pytest

from tests.docs.pages import DOCS, PAGES

ROOT = DOCS.parent
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
NAMED = sorted(set(re.findall(r"`((?:src|tests|docs|bench)/[\w./-]+)`", TEXT)))


@pytest.mark.parametrize("path", NAMED)
def test_a_file_that_a_page_names_exists(path: str) -> None:
    assert (ROOT / path).exists()

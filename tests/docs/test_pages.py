"""Every example of the documentation runs and prints what its page shows."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, examples


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_the_examples_of_a_page_print_what_it_shows(page: Path) -> None:
    for example in examples(page):
        if example.shown is not None:
            assert example.printed == example.shown, f"{page.name}, line {example.line}"

"""Each idea of the papers has a name, a test that exists, and a page that tells of it."""

import re

import pytest

from tests.docs.pages import DOCS

PAPERS = (DOCS / "papers.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|(.*)\|(.*)\|(.*)\|(.*)\| (here|differs|core|not yet) \|$", PAPERS, re.MULTILINE)
ROOT = DOCS.parent


def test_the_tables_are_read() -> None:
    assert len(ROWS) > 90


@pytest.mark.parametrize("row", [row for row in ROWS if row[4] != "not yet"], ids=lambda row: row[0].strip() or row[1])
def test_an_idea_that_is_here_has_a_name_a_test_and_a_page(row: tuple[str, ...]) -> None:
    _, ours, where, page, _ = row
    assert ours.strip()
    tests = re.findall(r"`(tests/[\w./]+)`", where)
    assert tests and all((ROOT / test).is_file() for test in tests)
    linked = re.fullmatch(r" \[[^\]]+\]\(([\w./-]+\.md)(?:#([\w-]+))?\) ", page)
    assert linked is not None
    assert not linked[2] or linked[2] in _anchors((DOCS / linked[1]).read_text(encoding="utf-8"))


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}

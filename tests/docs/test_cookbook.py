"""Each job of the cookbook is short, and is found from the pages that lead to it. ``test_pages`` runs them."""

import re

import pytest

from tests.docs.cookbook import COOKBOOK, JOBS, Job, api_names
from tests.docs.pages import DOCS


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.page)
def test_a_job_takes_few_lines(job: Job) -> None:
    assert len(job.code.splitlines()) <= job.lines


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.page)
def test_a_job_takes_few_names(job: Job) -> None:
    assert len(api_names(job.code)) <= job.names, sorted(api_names(job.code))


def test_a_backfill_that_continues_live_is_one_line_with_three_names() -> None:
    (job,) = (job for job in JOBS if job.page == "backfill-then-live")
    assert len(job.on_spark.splitlines()) == 1
    assert api_names(job.on_spark) == {"run", "sink", "checkpoint"}


def test_the_design_states_the_numbers() -> None:
    text = (DOCS / "design" / "api.md").read_text(encoding="utf-8").partition("## Ten common jobs")[2]
    stated = [
        (int(lines), int(names)) for lines, names in re.findall(r"^\| .* \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    ]
    counted = [_counts(job.on_spark if job.page == "backfill-then-live" else job.code) for job in JOBS]
    assert stated == counted


def _counts(code: str) -> tuple[int, int]:
    return len(code.splitlines()), len(api_names(code))


def test_the_index_and_the_navigation_have_every_page() -> None:
    pages = {path.name for path in COOKBOOK.glob("*.md")} - {"index.md"}
    index = (COOKBOOK / "index.md").read_text(encoding="utf-8")
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert pages == {f"{job.page}.md" for job in JOBS}
    assert set(re.findall(r"^\| \[[^]]+\]\(([\w-]+\.md)\)", index, re.MULTILINE)) == pages
    assert set(re.findall(r"cookbook/([\w-]+\.md)", navigation)) == pages | {"index.md"}

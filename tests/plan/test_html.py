"""A plan as a notebook shows it."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import polars as pl
import pytest
from IPython.core.formatters import DisplayFormatter

import eventide as ev

EMPTY = {"br"}
SHOPS = ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("30s"))


class Reading(HTMLParser):
    """The tags of a page, which must close, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class Gap(ev.Processor):
    """Does nothing."""

    def process(self, context: object, rows: pl.DataFrame) -> None:
        """Nothing."""


def pipelines() -> dict[str, ev.Pipeline]:
    windowed = SHOPS.window(ev.tumbling("1 minute"))
    return {
        "windows": windowed.agg(n=ev.count(), total=ev.sum("price")),
        "join": ev.join(SHOPS, SHOPS, within=("0s", "1h"), how="left"),
        "window join": ev.window_join(SHOPS, SHOPS, window=ev.tumbling("1 minute")),
        "processor": SHOPS.process(Gap(), output={"n": pl.Int64}),
    }


@pytest.mark.parametrize("kind", pipelines())
def test_a_notebook_shows_the_facts_of_explain(kind: str) -> None:
    pipeline = pipelines()[kind]
    page = Reading(pipeline._repr_html_())
    assert page.open == []
    observed = " ".join(" ".join(page.words).split())
    for line in pipeline.explain().splitlines():
        assert " ".join(line.split()) in observed


def test_lines_that_belong_together_share_a_row() -> None:
    html = pipelines()["windows"]._repr_html_()
    assert html.count(">aggregates</th>") == 1
    assert "n = count() (merges, inverts)<br>total = sum(price) (merges, inverts)</td>" in html


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "</td>"])
def test_names_that_users_wrote_cannot_become_tags(name: str) -> None:
    html = ev.stream(time=name, key=[name + "k"]).window(ev.tumbling("1 minute")).agg(**{name: ev.sum(name)})
    page = html._repr_html_()
    assert Reading(page).tags == {"table", "caption", "tbody", "tr", "th", "td", "br"}
    assert f"{name} = sum({name})" in unescape(page)


def test_what_may_be_lost_is_highlighted() -> None:
    stream = ev.stream(time="ts").window(ev.global_window())
    lossy = stream.trigger(ev.after_count(10), mode="discarding", may_lose_data=True).agg(n=ev.count())
    safe = stream.agg(n=ev.count())
    assert _style_of(lossy, "may be lost") != _style_of(lossy, "windows")
    assert _style_of(safe, "may be lost") == _style_of(safe, "windows")


def test_nothing_in_it_runs_or_is_fetched() -> None:
    html = pipelines()["windows"]._repr_html_()
    assert not re.search(r"<script|<link|url\(|https?:|\bon\w+=", html)


def test_a_notebook_chooses_it() -> None:
    data, _ = DisplayFormatter().format(pipelines()["windows"])
    assert data["text/html"].startswith("<table")
    assert data["text/plain"].startswith("<Pipeline")


def _style_of(pipeline: ev.Pipeline, name: str) -> str:
    match = re.search(rf'>{name}</th><td style="([^"]*)"', pipeline._repr_html_())
    assert match is not None
    return match[1]


def test_a_query_in_sql_is_shown_with_its_steps_next_to_its_plan() -> None:
    windows = "TUMBLE(clicks, DESCRIPTOR(t), INTERVAL '1' MINUTE)"
    pipeline = ev.sql(f"SELECT COUNT(*) AS n FROM {windows} WHERE page <> '<b>' GROUP BY window_start")
    html = pipeline._repr_html_()
    assert ">tumbling 1m</td>" in html
    assert Reading(html).tags <= {"table", "caption", "tbody", "tr", "th", "td", "br"}
    assert pipeline.notes and all(note in unescape(html) for note in pipeline.notes)

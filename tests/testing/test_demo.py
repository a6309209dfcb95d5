"""The demo tells its story, and tells it truly."""

import io
import subprocess
import sys
from collections import Counter
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from eventide.demo import live
from eventide.demo.__main__ import main
from eventide.demo.rehearsal import rehearse
from eventide.demo.story import TRUTH, chapters, play
from eventide.testing.chart_page import picture
from eventide.testing.chart_timeline import Timeline, event_axis


def shown(picture: Path, *, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80, height=60, highlight=False)
    main(console, picture)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_totals_are_those_of_the_article() -> None:
    last = {chapter.title: None for chapter in chapters()}
    for chapter in chapters():
        for _, stream in play(chapter):
            last[chapter.title] = stream  # type: ignore[assignment]
    sums = {title: int((s.panes["total"] * s.panes["diff"]).sum()) for title, s in last.items()}  # type: ignore[attr-defined]
    assert sums == {"Discarding": TRUTH, "Accumulating": 76, "Retracting": TRUTH, "Sessions, retracting": TRUTH}


def test_it_shows_panes_final_tables_counters_and_the_path_of_the_picture(tmp_path: Path) -> None:
    text = shown(tmp_path / "build" / "demo.html")
    assert "[12:00:26, 12:05:19)     39  LATE" in text
    assert "−25  retracted" in text
    assert text.count("12 rows = 10 in windows (1 of them late) + 1 too late + 1 dead (1 null_time).") == 4
    assert "All rows times their diff are 76, but the sum of the ten is 51." in text
    assert str(tmp_path / "build" / "demo.html") in text.replace("\n", "")
    assert "\x1b" not in text
    page = (tmp_path / "build" / "demo.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 4


def test_no_line_is_wider_than_a_terminal(tmp_path: Path) -> None:
    lines = shown(tmp_path / "x.html").splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert not any("…" in line for line in lines)


def test_it_does_not_sleep_in_ci_and_sleeps_little_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slept: list[float] = []
    monkeypatch.setattr("eventide.demo.__main__.time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setenv("CI", "true")
    shown(tmp_path / "x.html", terminal=True)
    assert sum(slept) == 0
    monkeypatch.delenv("CI")
    shown(tmp_path / "x.html", terminal=True)
    assert 0 < sum(slept) <= 5


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eventide.demo", "story"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "build/demo.html" in done.stdout
    assert (tmp_path / "build" / "demo.html").exists()


def test_the_picture_of_the_shop_has_every_sale_with_its_fate() -> None:
    recorder = rehearse()
    drawn = live.timeline(recorder)
    assert Counter(event.fate for event in drawn.events) == {
        "window": sum(sales.height for _, sales in recorder.sent) - 2,
        "late": 1,
        "dead": 1,
    }
    page = picture(drawn)
    assert "7: too late" in page and "3: no time" in page and "no known event time, arrived" in page


def test_the_picture_of_the_shop_names_the_silence_of_the_till() -> None:
    notes = {note.text: note for note in live.timeline(rehearse()).notes}
    silence, without, back = (
        notes[text]
        for text in (
            "till 'west' is silent; the watermark waits for it",
            "… and goes on without it",
            "till 'west' is back: late panes correct its windows",
        )
    )
    assert silence.until is not None and silence.at < without.at < silence.until == back.at
    page = picture(Timeline(notes=tuple(notes.values())))
    assert page.count('class="band"') == 1
    assert all(page.count(f">{escape(text)}<") >= 1 for text in notes)


def test_no_window_of_the_shop_is_cut_at_the_edge() -> None:
    drawn = live.timeline(rehearse())
    axis = event_axis([drawn], 0, 1000)
    assert axis.low <= min(pane.start for pane in drawn.panes) and axis.high >= max(pane.end for pane in drawn.panes)

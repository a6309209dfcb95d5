"""The jobs of examples/, in a short form. What they find is computed here again, row by row, from the same data."""

from __future__ import annotations

import runpy
import sys
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from examples import ad_clicks, exact_billing, iot_uploads, order_book, web_sessions

pytestmark = pytest.mark.long  # whole jobs

HOME = Path(__file__).parents[2] / "examples"
JOBS = sorted(HOME.glob("*.py"))


def floor(at: datetime, minutes: int) -> datetime:
    return at.replace(minute=at.minute - at.minute % minutes, second=0, microsecond=0)


def records(frame: pl.DataFrame) -> set[tuple[Any, ...]]:
    """The rows, none of them twice."""
    rows = set(frame.rows())
    assert len(rows) == frame.height
    return rows


def test_the_report_on_ads_has_each_sale_that_was_reported_in_time(spark: SparkSession, tmp_path: Path) -> None:
    observed = ad_clicks.main(spark, 600, tmp_path)
    clicks, sales = ad_clicks.generate(600)
    sold = {}
    for row in sales.rows(named=True):
        offline = row["at"].hour == 12 and row["at"].minute < 30 and row["hour"] > 0
        if not offline:
            sold[row["click"]] = row
    lines: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for click in clicks.rows(named=True):
        sale = sold.get(click["click"])
        counts = sale is not None and sale["at"] - click["at"] <= timedelta(minutes=30)
        line = lines[click["ad"], floor(click["at"], 30)]
        for place, value in enumerate((1, click["cost"], counts, sale["price"] if sale and counts else 0)):
            line[place] += value
    assert records(observed) == {(*key, *line) for key, line in lines.items()}
    assert len(sold) < sales.height


def test_uploads_out_of_order_give_what_was_measured_but_for_the_one_that_was_lost(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observed = iot_uploads.main(spark, 500, tmp_path)
    heats = defaultdict(list)
    for row in iot_uploads.generate(500).rows(named=True):
        if (row["machine"], row["upload"]) != iot_uploads.LOST:
            heats[row["machine"], floor(row["at"], 1)].append(row["heat"])
    assert {row[:3] for row in observed.rows()} == {(*key, len(values)) for key, values in heats.items()}
    for machine, start, _, mean, hottest in observed.rows():
        values = heats[machine, start]
        assert mean == pytest.approx(sum(values) / len(values)) and hottest == max(values)
    assert "Missing: uploads 5 to 5 of machine 2" in capsys.readouterr().out


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_table_of_visits_is_right_although_late_pages_merge_some(
    spark: SparkSession,
    tmp_path: Path,
    database: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgres" else None
    observed = web_sessions.main(spark, 300, tmp_path, url)
    visits: list[list[Any]] = []
    for visitor, page, at, _ in web_sessions.generate(300).sort("visitor", "at").rows():
        if visits and visits[-1][0] == visitor and at <= visits[-1][2]:
            visits[-1][2:4] = [at + web_sessions.PAUSE, visits[-1][3] + 1]
        else:
            visits.append([visitor, at, at + web_sessions.PAUSE, 1, page])
    assert records(observed) == {tuple(visit) for visit in visits}
    assert ("SQLite" in capsys.readouterr().out) == (url is None)


def test_the_book_and_the_bursts_are_those_of_the_feed_as_it_was_sent(spark: SparkSession, tmp_path: Path) -> None:
    book, bursts = order_book.main(spark, 600, tmp_path)
    sent = order_book.generate(600).rows(named=True)
    windows = defaultdict(list)
    for start in range(1, 601, order_book.EVERY):
        for row in sent[start - 1 : start - 1 + order_book.SIZE]:
            windows[row["symbol"], start].append(row)
    assert records(book) == {
        (
            symbol,
            start,
            max(row["bid"] for row in rows),
            min(row["ask"] for row in rows),
            rows[-1]["bid"],
            rows[-1]["ask"],
            sum(row["traded"] for row in rows),
        )
        for (symbol, start), rows in windows.items()
    }
    runs: list[list[Any]] = []
    latest: dict[str, list[Any]] = {}
    for row in sent:
        run = latest.get(row["symbol"])
        if run is None or row["number"] - run[-1] > order_book.ABSENT:
            run = latest[row["symbol"]] = [row["symbol"], row["number"], 0, 0, 0]
            runs.append(run)
        run[2:4] = [run[2] + 1, run[3] + row["traded"]]
        run[-1] = row["number"]
    assert records(bursts) == {tuple(run[:-1]) for run in runs}


def test_bills_by_noted_time_have_every_call(spark: SparkSession, tmp_path: Path) -> None:
    observed = exact_billing.main(spark, 480, tmp_path)
    calls: Counter[Any] = Counter()
    cents: Counter[Any] = Counter()
    for frame in exact_billing.generate(480).values():
        for at, customer, cost in frame.rows():
            calls[customer, floor(at, 60)] += 1
            cents[customer, floor(at, 60)] += cost
    assert records(observed) == {(*key, calls[key], cents[key]) for key in calls}
    assert calls.total() == 480


@pytest.mark.parametrize("job", JOBS, ids=[job.stem for job in JOBS])
def test_a_job_explains_itself_without_spark(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ev, "spark_session", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.setattr(sys, "argv", [str(job), "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(job), run_name="__main__")
    assert end.value.code == 0
    assert f"python examples/{job.name} --rows" in capsys.readouterr().out


def test_the_table_of_examples_names_each_job() -> None:
    table = (HOME / "README.md").read_text(encoding="utf-8")
    assert [job.name for job in JOBS if f"({job.name})" not in table] == []

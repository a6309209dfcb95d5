"""Buckets, tasks and pages change no result: every transcript, over the stages of the Spark host."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import pytest

from eventide.spark.scan import _read
from eventide.spark.shuffle_pages import Progress
from eventide.testing.transcripts import Transcript, load, run
from tests.spark.harness import PagesHost

FILES = sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml"))
# Spark asks every source in every batch, so it has no time in which a source is not polled.
UNPOLLED = "time in which the source is not polled makes nobody idle"
TRANSCRIPTS = [transcript for file in FILES for transcript in load(file) if transcript.name != UNPOLLED]


def transcript_id(transcript: Transcript) -> str:
    return f"{Path(transcript.place).name.split('.')[0]}: {transcript.name}"


@pytest.mark.parametrize(
    "knows",
    [pytest.param(True, id="watermark known"), pytest.param(False, id="watermark unknown", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("progress", ["direct", "coalesced"])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=transcript_id)
def test_transcript_over_pages(transcript: Transcript, progress: Progress, knows: bool) -> None:
    run(transcript, host=partial(PagesHost, buckets=3, tasks=2, knows=knows, progress=progress))


def test_a_scan_reads_files_without_any_of_the_columns_and_names_that_look_like_patterns(tmp_path: Path) -> None:
    schema = {"region": pl.String(), "price": pl.Int64()}
    old = tmp_path / "p?.parquet"
    pl.DataFrame({"other": range(10)}).write_parquet(old)
    pl.DataFrame({"Price": range(3)}).write_parquet(tmp_path / "p1.parquet")
    assert pl.concat(_read(str(old), schema, 0, 1)).rows() == [(None, None)] * 10
    assert sum(part.height for i in range(3) for part in _read(str(old), {"region": pl.String()}, i, 3)) == 10
    assert pl.concat(_read(str(tmp_path / "p1.parquet"), schema, 0, 1))["price"].to_list() == [0, 1, 2]

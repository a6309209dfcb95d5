"""What type checkers say of the API: documented code is accepted, and steps in the wrong order are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.notebook import stored
from tests.docs.pages import PAGES, fragments, program

pytestmark = pytest.mark.long  # mypy reads the whole package

ROOT = Path(__file__).parents[2]
GOOD = """
from datetime import timedelta

import polars as pl

import eventide as ev

clicks: ev.Stream = ev.stream("ts", key=["shop", "till"], watermark="30 seconds", time_unit="ms")
minutes: ev.WindowedStream = clicks.deduplicate("id", within="1 hour").window(ev.tumbling("1 minute"))
revenue: ev.Pipeline = (
    minutes.emit(early="10 seconds", allowed_lateness=timedelta(hours=1), mode="accumulating")
    .limit_state(rows=1_000, bytes=1_000_000)
    .agg(
        n=ev.count(where=pl.col("price") > 5),
        total=ev.sum(pl.col("price") * pl.col("amount"), where="paid"),
        top=ev.max_by("shop", pl.col("price").abs()),
    )
)
kafka = ev.bounded_delay(
    "30 seconds", at_latest="5 minutes", origin="partition", sequence="offset", first_sequence=0, gaps="allowed"
)
orders = ev.stream("ts", key="id", watermark=kafka).deduplicate()
hundreds = orders.window(ev.rows(100, timeout="1 hour")).trigger(ev.on_update(), mode="discarding").agg(n=ev.count())
paid = ev.join(orders, clicks, within=("0 seconds", None), on="id", keep={"left": "1 hour"})
last = ev.join(orders, clicks, last=3, keep=timedelta(hours=1), on="id")
thousands = clicks.window(ev.rows(1_000, by=pl.col("offset"))).agg(n=ev.count())
absent = clicks.window(ev.row_sessions(absent=5, by=pl.col("offset"))).agg(n=ev.count())
patient = clicks.window(ev.sessions(pl.col("patience"))).agg(n=ev.count())
hourly = clicks.window(ev.sessions(timedelta(hours=1), max_duration="1 day")).agg(n=ev.count())
both = ev.window_join(orders, clicks, window=ev.tumbling("1 minute"), on="id", early="10 seconds")
"""
SPARK = """
from pyspark.sql import functions as F

import eventide as ev

orders = ev.stream(
    time=F.to_timestamp("sent"),
    key=F.lower("shop").alias("shop"),
    watermark=ev.bounded_delay("1 minute", origin=F.input_file_name()),
)
bursts = orders.window(ev.sessions(F.col("patience"))).agg(n=ev.count())
hundreds = orders.window(ev.rows(100, by=F.col("offset"))).agg(n=ev.count())
cents = orders.window(ev.tumbling("1 minute")).agg(cents=ev.sum(F.col("price") * 100))
"""
BAD = {
    "an aggregate without a window": ('ev.stream("ts").agg(n=ev.count())', 'has no attribute "agg"'),
    "a call behind windows": (
        'ev.stream("ts").window(ev.tumbling("1 minute")).map_async',
        'has no attribute "map_async"',
    ),
    "an option that does not exist": ('ev.bounded_delay("1 minute", orign="p")', "orign"),
    "a mode that does not exist": ('ev.stream("ts").window(ev.tumbling("1m")).emit(mode="retract")', "mode"),
}


def run(place: Path, *command: str) -> tuple[int, str]:
    environment = os.environ | {"MYPYPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", *command]
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def mypy(place: Path, *options: str) -> tuple[int, str]:
    cache = ROOT / ".mypy_cache" / "types"
    files = sorted(path.name for path in place.glob("*.py"))
    # Only what users see: `make check` has the package itself, with its settings for modules without types.
    usual = ("--strict", "--follow-imports=silent", "--disable-error-code=import-untyped", "--local-partial-types")
    return run(place, "mypy", *usual, "--cache-dir", str(cache), *options, *files)


def checked(tmp_path: Path, code: str) -> tuple[int, str]:
    (tmp_path / "example.py").write_text(code)
    return mypy(tmp_path)


@pytest.mark.parametrize("code", [GOOD, SPARK], ids=["in process", "columns of Spark"])
def test_documented_code_is_accepted(tmp_path: Path, code: str) -> None:
    status, text = checked(tmp_path, code)
    assert status == 0, text


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of every page, of the README and of the tutorial, as programs."""
    place = tmp_path_factory.mktemp("documented")
    texts = {page.relative_to(ROOT).with_suffix(""): program(page) for page in [*PAGES, ROOT / "README.md"]}
    texts[Path("tutorial")] = "\n".join(cell.source for cell in stored().cells if cell.cell_type == "code")
    for name, text in texts.items():
        if text:
            (place / f"{'_'.join(name.parts).replace('-', '_')}.py").write_text(text, encoding="utf-8")
    assert len(list(place.glob("*.py"))) > 35
    return place


def test_mypy_accepts_every_documented_example(documented: Path) -> None:
    # Functions of examples need no annotations. All else is strict.
    loose = ("untyped-defs", "untyped-calls", "incomplete-defs", "any-generics", "redefinition-new")
    status, text = mypy(documented, *(f"--allow-{name}" for name in loose))
    assert status == 0, text


def test_mypy_accepts_the_blocks_that_are_only_read(tmp_path: Path) -> None:
    pages = {page: fragments(page) for page in [*PAGES, ROOT / "README.md"]}
    for page, text in pages.items():
        if text:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert len(list(tmp_path.glob("*.py"))) > 20
    loose = ("untyped-defs", "untyped-calls", "incomplete-defs", "any-generics", "redefinition-new")
    # Names that a page does not define can be anything, and a query has metrics after its first batch.
    unknown = ("--disable-error-code=name-defined", "--disable-error-code=used-before-def", "--no-strict-optional")
    status, text = mypy(tmp_path, *(f"--allow-{name}" for name in loose), *unknown)
    assert status == 0, text


def test_pyright_accepts_every_documented_example(documented: Path) -> None:
    settings = {
        "include": ["."],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "reportIncompatibleMethodOverride": False,  # names of parameters say what an example is about
        "reportPossiblyUnboundVariable": False,
        "reportUnusedExpression": False,  # the last line of a notebook's cell
    }
    (documented / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    status, text = run(documented, "basedpyright", "--pythonpath", sys.executable)
    assert status == 0, text


def test_steps_in_the_wrong_order_are_reported(tmp_path: Path) -> None:
    _, text = checked(tmp_path, "import eventide as ev\n" + "\n".join(code for code, _ in BAD.values()))
    for line, (mistake, (_, message)) in enumerate(BAD.items(), 2):
        assert any(f"example.py:{line}:" in entry and message in entry for entry in text.splitlines()), (mistake, text)

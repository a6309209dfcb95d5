"""The demo on Spark, for a few seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # half a minute of a live stream

DEMO = """
from pathlib import Path
from rich.console import Console
from eventide.cli.dashboard import watch_demo
from eventide.cli.history import read_history
from eventide.demo import live

def watch(checkpoint):
    watched.append(checkpoint)
    watch_demo(checkpoint)

def hold():
    history = read_history(watched[0])
    print("recorded", sum(batch.rows for batch in history.batches), len(history.windows) > 0)

watched = []
live.main(Console(width=200), Path("demo.html"), seconds=5, watch=watch, hold=hold)
"""


def test_it_shows_panes_and_progress_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DEMO], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "ON TIME" in done.stdout and "watermark" in done.stdout
    total = next(line for line in done.stdout.splitlines() if " in windows + " in line)
    rows, inside = (int(word) for word in (total.split(" ")[0], total.split("= ")[1].split(" ")[0]))
    assert rows == inside > 20
    assert "Dashboard: http://127.0.0.1:" in done.stdout
    assert f"recorded {rows} True" in done.stdout
    assert "<svg" in (tmp_path / "demo.html").read_text(encoding="utf-8")

"""What the tests of staged batches share: how to start the job, and what its table holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.spark.chaos import ROOT

PANES = (
    "SELECT shop, (extract(epoch FROM window_start) * 1000000)::bigint, "
    "(extract(epoch FROM window_end) * 1000000)::bigint, orders, total FROM panes"
)


def start(place: Path, url: str, *arguments: str, die: str = "") -> subprocess.Popen[str]:
    """``staging_job``, in a group of processes of its own. What it logs goes to the file ``log``."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.staging_job", str(place), url, *arguments],
        cwd=ROOT,
        env=os.environ | {"EVENTIDE_DIE": die, "PYTHONPATH": f"{ROOT}/src:{ROOT}", "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=(place / "log").open("a"),
        text=True,
        start_new_session=True,
    )

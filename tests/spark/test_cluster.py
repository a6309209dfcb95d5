"""A standalone cluster with a master and four workers: the same tables, a worker that returns, and how to deploy.

The Python workers of the cluster do not have Eventide: each test brings it, or does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from eventide.spark.coalesced_progress import PROGRESS
from tests.postgres import cluster as postgres
from tests.services import running
from tests.sinks.places import Place
from tests.sinks.test_staging import TABLES
from tests.spark.chaos import ROOT, expected, prepare, table
from tests.spark.cluster import Cluster, standalone
from tests.spark.staging import PANES

pytestmark = pytest.mark.long  # four executors start in each test

BUNDLES = 3
PLACEMENTS = ("driver", "executors")
PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
HIDE_EVENTIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "eventide":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=4, memory="512m", python_path="") as started:
        yield started


@pytest.fixture
def database() -> Iterator[str]:
    yield from running(postgres())


def job(
    place: Path, cluster: Cluster, *, placements: Sequence[str] = PLACEMENTS, database: str | None = None, **config: str
) -> subprocess.Popen[str]:
    """The queries of ``cluster_job`` as an application of the cluster."""
    prepare(place, BUNDLES)
    for state in placements:
        (place / state).mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster_job", str(place), cluster.url, json.dumps(config), *placements],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PYSPARK_PYTHON": sys.executable}
        | ({} if database is None else {"EVENTIDE_DATABASE": database}),
        stdout=subprocess.PIPE,
        stderr=(place / "log").open("w"),
        text=True,
    )


def log(place: Path) -> str:
    return (place / "log").read_text(encoding="utf-8")[-3000:]


def test_both_placements_give_the_same_table_while_a_worker_stops_and_returns(tmp_path: Path, cluster: Cluster) -> None:
    workers = cluster.started
    application = job(tmp_path, cluster, **{PYTHON_PATH: f"{ROOT}/src:{ROOT}"})
    assert application.stdout is not None
    done: list[str] = []
    while line := application.stdout.readline():
        done.append(line.strip())
        if "done driver" in done and line.strip() == "batch 0":  # the first batch with state on the executors
            cluster.kill_worker()
            cluster.start_worker()
            cluster.await_workers()
    application.communicate()
    assert done[-1] == "done executors", log(tmp_path)
    assert cluster.started == workers + 1, "a worker was killed, and another has started"
    for state in PLACEMENTS:
        assert table(tmp_path / state) == expected(BUNDLES), state


def test_executors_without_eventide_are_named_in_one_sentence(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE_EVENTIDE)
    out, _ = job(tmp_path, cluster, **{PYTHON_PATH: str(tmp_path / "hidden")}).communicate()
    located, *lines = out.splitlines()
    assert located == "eventide No module named 'eventide'", log(tmp_path)
    assert lines[-1].startswith("rejected executors The workers cannot import Eventide"), out
    assert lines[-1].endswith("Install pyspark-eventide on them.")
    assert "done driver" in lines
    assert table(tmp_path / "driver") == expected(BUNDLES)


def test_a_zip_of_the_package_is_enough_on_the_workers(tmp_path: Path, cluster: Cluster) -> None:
    package = tmp_path / "eventide.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for file in (ROOT / "src" / "eventide").rglob("*.py"):
            archive.write(file, file.relative_to(ROOT / "src"))
    application = job(tmp_path, cluster, placements=["executors"], **{"spark.submit.pyFiles": str(package)})
    out, _ = application.communicate()
    located, *lines = out.splitlines()
    assert located.endswith("/eventide.zip/eventide/__init__.py"), located
    assert lines[-1] == "done executors", log(tmp_path)
    assert table(tmp_path / "executors") == expected(BUNDLES)


def test_state_moves_to_buckets_with_coalesced_progress_and_back(tmp_path: Path, cluster: Cluster) -> None:
    settings = {PYTHON_PATH: f"{ROOT}/src:{ROOT}", PROGRESS: "coalesced"}
    out, _ = job(tmp_path, cluster, placements=["rescaled"], **settings).communicate()
    assert "buckets 6 coalesced" in out.splitlines(), log(tmp_path)
    assert out.splitlines()[-1] == "done rescaled", log(tmp_path)
    assert table(tmp_path / "rescaled") == expected(BUNDLES)


def test_the_executors_of_all_workers_stage_their_rows_in_postgresql(
    tmp_path: Path, cluster: Cluster, database: str
) -> None:
    settings = {PYTHON_PATH: f"{ROOT}/src:{ROOT}"}
    out, _ = job(tmp_path, cluster, placements=["executors"], database=database, **settings).communicate()
    assert out.splitlines()[-1] == "done executors", log(tmp_path)
    place = Place("postgres", database)
    assert sorted(place.ask(PANES)) == expected(BUNDLES)
    assert place.ask(TABLES) == [], "no staging table is left"

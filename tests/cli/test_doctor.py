"""Problems of an installation, and how to fix them."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from eventide.cli import doctor as checks
from eventide.errors import PlanError
from tests.cli.typed import lines, typed


def checks_of(result: object) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in lines(result)}  # type: ignore[arg-type]


def test_here_all_is_well() -> None:
    done = typed("doctor", "--json")
    assert done.exit_code == 0
    by_name = checks_of(done)
    assert {by_name[name]["state"] for name in ("Python", "Java", "pyspark", "polars", "pandas")} == {"ok"}
    assert "GiB free" in by_name["this directory"]["finding"]


def test_without_java_it_says_how_to_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise PlanError("Install one with: pip install 'pyspark-eventide[java]'.")

    monkeypatch.setattr("eventide.spark.java.find_java", none)
    done = typed("doctor")
    assert done.exit_code == 1
    assert "pip install 'pyspark-eventide[java]'" in done.stdout


def test_a_broken_java_home_is_a_problem_even_where_there_is_another_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = checks_of(typed("doctor", "--json"))["Java"]
    assert java["state"] == "problem"
    assert java["finding"] == f"JAVA_HOME is {tmp_path}, which Spark cannot use"
    assert "Set JAVA_HOME to the directory of a Java 17 or newer" in java["fix"]


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str | None) -> None:
    """Pretends that these distributions are installed in these versions; None: not installed."""
    real = importlib.metadata.version
    known = {name.replace("_", "-"): version for name, version in versions.items()}

    def version(name: str) -> str:
        if name in known and known[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return known.get(name) or real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_the_other_project_of_the_same_import_name_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, eventide="0.7", pyspark_eventide="0.1")
    done = typed("doctor")
    assert done.exit_code == 1
    assert "the distribution eventide 0.7 is installed" in done.stdout
    assert "pip uninstall eventide; pip install --force-reinstall pyspark-eventide" in done.stdout


def test_the_installed_distribution_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, eventide=None, pyspark_eventide="0.1")
    done = typed("doctor", "--json")
    assert checks_of(done)["Eventide"]["state"] == "ok" and checks_of(done)["Eventide"]["finding"].startswith("0.1 at ")


def test_a_source_that_is_not_installed_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, eventide=None, pyspark_eventide=None)
    done = typed("doctor", "--json")
    assert (
        checks_of(done)["Eventide"]["state"] == "note"
        and "pip install pyspark-eventide" in checks_of(done)["Eventide"]["fix"]
    )


def test_without_spark_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("pyspark", "psycopg"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    done = typed("doctor", "--json")
    assert done.exit_code == 1
    by_name = checks_of(done)
    assert by_name["pyspark"] == {
        "name": "pyspark",
        "state": "problem",
        "finding": "not installed",
        "fix": "pip install 'pyspark-eventide[spark]'",
    }
    assert by_name["psycopg"]["state"] == "note"  # nobody needs it for queries


def test_a_package_of_the_wrong_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pandas": "3.0.1"}
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or real(name))
    done = typed("doctor", "--json")
    assert checks_of(done)["pandas"]["fix"] == "pip install 'pandas>=2.2,<3'"


def test_settings_that_queries_cannot_run_with_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    store = "spark.sql.streaming.stateStore.providerClass"
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", f"--conf {store}=Heap --conf spark.sql.shuffle.partitions=200 pyspark-shell"
    )
    done = typed("doctor")
    assert done.exit_code == 1
    assert "needs RocksDB" in done.stdout and "shuffle.partitions is 200" in done.stdout


def test_little_disk_is_reported_but_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_LITTLE", 1 << 60)
    done = typed("doctor")
    assert done.exit_code == 0
    assert "Free some space" in done.stdout

"""What tests on Spark share: the databases of sinks, and both placements of state."""

import os

import pytest

from tests.sinks.conftest import place, postgres, sqlite

# For the Java of jobs in processes of their own: they are short, and would spend their time in the optimising compiler.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

__all__ = ["place", "placement", "postgres", "sqlite"]


@pytest.fixture(params=["driver", pytest.param("executors", marks=pytest.mark.long)])
def placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where queries of ``tests.spark.running.Stream`` keep their state."""
    monkeypatch.setattr("tests.spark.running.STATE", request.param)
    return str(request.param)

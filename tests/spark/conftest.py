"""What tests on Spark share: the databases of sinks, and both placements of state."""

import pytest

from tests.sinks.conftest import place, postgres, sqlite

__all__ = ["each_placement", "place", "placement", "postgres", "sqlite"]


@pytest.fixture(params=["executors", "driver"])
def placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where queries of ``tests.spark.running.Stream`` keep their state."""
    monkeypatch.setattr("tests.spark.running.STATE", request.param)
    return str(request.param)


@pytest.fixture(params=[pytest.param("executors", marks=pytest.mark.long), "driver"])
def each_placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same for tests of many plans: what the executors do with a plan is also tested without Spark."""
    monkeypatch.setattr("tests.spark.running.STATE", request.param)
    return str(request.param)

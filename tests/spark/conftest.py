"""What tests on Spark share: the databases of sinks, and both placements of state."""

import pytest

from tests.sinks.conftest import place, postgres, sqlite

__all__ = ["place", "placement", "postgres", "sqlite"]


@pytest.fixture(params=["driver", pytest.param("executors", marks=pytest.mark.long)])
def placement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where queries of ``tests.spark.running.Stream`` keep their state."""
    monkeypatch.setattr("tests.spark.running.STATE", request.param)
    return str(request.param)

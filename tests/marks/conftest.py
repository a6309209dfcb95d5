"""Clients know the token of the servers, and nothing is stored in the home of whoever runs the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.marks.serving import TOKEN


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tokens of the user are stored."""
    place = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    monkeypatch.setenv("EVENTIDE_TOKEN", TOKEN)
    return place

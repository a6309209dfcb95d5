"""Every behaviour is tested on both stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Place: TypeAlias = Callable[[], Path | None]


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a new operator keeps its state."""
    taken: list[Path] = []

    def next_place() -> Path | None:
        taken.append(tmp_path / f"{len(taken)}.db")
        return None if request.param == "memory" else taken[-1]

    return next_place

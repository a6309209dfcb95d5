"""The process that forks Python workers, without Spark."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pyspark_eventide.daemon import sparing, told_unless_left


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()


def importing(name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """A task that imports a module with a thousand objects."""
    module = ModuleType(name)
    module.objects = [[] for _ in range(1_000)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    return 7


def test_what_a_task_has_imported_is_passed_over_by_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    task = sparing(importing)
    before = gc.get_freeze_count()
    assert task("imported_by_a_task", monkeypatch) == 7
    assert gc.get_freeze_count() >= before + 1_000


def test_what_a_task_makes_without_an_import_stays_in_its_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[list[int]] = []

    def making() -> int:
        kept.extend([] for _ in range(1_000))
        return 0

    task = sparing(making)
    before = gc.get_freeze_count()
    assert task() == 0
    assert gc.get_freeze_count() == before


@pytest.mark.parametrize(
    ("failure", "heard"), [(BrokenPipeError("gone"), ""), (ValueError("a mistake"), "ValueError: a mistake")]
)
def test_a_worker_that_spark_has_left_goes_without_a_word(
    failure: Exception, heard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise failure
    except Exception:
        told_unless_left()
    said = capsys.readouterr().err.strip()
    assert said.endswith(heard) if heard else not said

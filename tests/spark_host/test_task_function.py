"""What a worker says that has no Eventide, or another project with its name."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

import eventide as ev
from eventide.spark.query import understood
from eventide.spark.state_processor import task_function
from eventide.spark.stateful import unpack

RUN = "import pickle, sys; list(pickle.load(open(sys.argv[1], 'rb'))(iter([])))"


def run_in_worker(place: Path, packages: Path) -> str:
    """What a worker prints that finds only these packages, and pyspark."""
    (place / "function").write_bytes(cloudpickle.dumps(task_function(unpack)))  # type: ignore[no-untyped-call]
    for module in (pyspark, py4j):
        (packages / module.__name__).symlink_to(Path(module.__file__).parent)
    command = [sys.executable, "-S", "-c", RUN, str(place / "function")]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(packages)}, capture_output=True, text=True)
    return ended.stderr


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    (tmp_path / "packages").mkdir()
    return tmp_path / "packages"


def test_a_worker_with_another_project_of_that_name_names_its_module(tmp_path: Path, packages: Path) -> None:
    (packages / "eventide").mkdir()
    (packages / "eventide" / "__init__.py").touch()
    text = run_in_worker(tmp_path, packages)
    message = (
        f"The workers cannot import Eventide (eventide.spark): the module at {packages}/eventide/__init__.py is "
        "another project. Install pyspark-eventide on them."
    )
    assert f"ImportError: {message}" in text
    error = understood(RuntimeError(f"{text}\n\tat org.apache.spark"))
    assert isinstance(error, ev.PlanError) and str(error) == message


def test_a_worker_without_eventide_says_so(tmp_path: Path, packages: Path) -> None:
    text = run_in_worker(tmp_path, packages)
    assert "The workers cannot import Eventide (eventide): there is no module eventide. Install" in text


def test_a_stateful_task_without_eventide_is_understood_too() -> None:
    error = understood(RuntimeError("…\nModuleNotFoundError: No module named 'eventide.spark'\n\tat …"))
    assert isinstance(error, ev.PlanError) and "Install pyspark-eventide on them" in str(error)


def test_another_missing_module_is_not_ours() -> None:
    failure = RuntimeError("ModuleNotFoundError: No module named 'shop'")
    assert understood(failure) is failure


def test_a_function_runs_as_it_is_where_eventide_is_installed() -> None:
    def doubled(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield 2 * batch

    shipped = pickle.loads(cloudpickle.dumps(task_function(doubled)))  # type: ignore[no-untyped-call]
    assert list(shipped(iter([1, 2]))) == [2, 4]

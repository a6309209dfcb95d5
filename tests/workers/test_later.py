"""Modules that are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from eventide import marks
from pyspark_eventide.later import Later, later


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that counts its imports, with a module in it, and a module that uses both."""
    (tmp_path / "slowly").mkdir()
    (tmp_path / "slowly" / "__init__.py").write_text("one = 1\n")
    (tmp_path / "slowly" / "inner.py").write_text("two = 2\n")
    (tmp_path / "uses_slowly.py").write_text(
        "import slowly\nimport slowly.inner as inner\ndef sum(): return slowly.one + inner.two\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("slowly", "slowly.inner", "uses_slowly"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "slowly"


def test_what_is_put_off_is_imported_when_it_is_used(package: str) -> None:
    with later(package, f"{package}.inner"):
        import uses_slowly  # type: ignore[import-not-found]

    assert isinstance(uses_slowly.slowly, Later) and package not in sys.modules
    assert not hasattr(uses_slowly.slowly, "__wrapped__") and package not in sys.modules
    assert uses_slowly.sum() == 3 and {package, f"{package}.inner"} <= set(sys.modules)
    assert vars(uses_slowly.slowly)["one"] == 1  # asked for only once


def test_who_imports_it_afterwards_gets_the_module_itself(package: str) -> None:
    with later(package):
        pass
    import slowly  # type: ignore[import-not-found]

    assert type(slowly) is ModuleType and slowly.one == 1


def test_what_is_there_already_is_not_put_off(package: str) -> None:
    import slowly

    with later(package, f"{package}.inner"):
        import uses_slowly

    assert uses_slowly.slowly is slowly and type(uses_slowly.inner) is ModuleType


def test_an_error_inside_leaves_no_stand_in(package: str) -> None:
    with pytest.raises(ZeroDivisionError), later(package):
        1 / 0  # noqa: B018
    assert package not in sys.modules


def test_a_stream_is_planned_without_polars_and_read_with_it(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'shop.db'}#orders"
    stream = marks.create_stream(address, schema={"at": pl.Int64}, segments=1)
    with marks.Writer(stream, "w", routing_key="at") as writer:
        writer.append([{"at": 1}, {"at": 2}])
    program = f"""
import sys
from pyspark_eventide.preloading import preload
preload()
assert "eventide.marks.spark.source" in sys.modules and "polars" not in sys.modules
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark_eventide.source import EventideSource
source = EventideSource({{"path": {address!r}}})
reader = source.streamReader(source.schema())
start = reader.initialOffset()
end = reader.latestOffset(start, ReadAllAvailable())
parts = reader.partitions(start, end)
print("polars" in sys.modules, [batch.num_rows for part in parts for batch in reader.read(part)])
from eventide.marks.events import points
print(len(points(["kiel"])), type(sys.modules["polars"]).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:2] == ["False [2]", "1 module"], done.stdout + done.stderr

"""``spark_session(fast_checkpoints=…)``: a query runs with Eventide's class for local files and with Hadoop's."""

from __future__ import annotations

import ast
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from eventide.spark import local_checkpoint_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(local_checkpoint_files.__file__).parents[2]


def local_files(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())


def test_a_session_has_fast_checkpoints_by_default_and_installing_them_again_changes_nothing(
    spark: SparkSession,
) -> None:
    assert local_files(spark).getClass().getName() == "eventide.LocalFiles"
    local_checkpoint_files.install(spark)
    assert local_files(spark).getClass().getName() == "eventide.LocalFiles"


def test_a_query_runs_with_fast_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    from tests.spark.stateful_query import counted

    assert counted(spark, tmp_path, files=2) == [(0, 3), (0, 6), (1, 3), (1, 6)]


def test_a_query_runs_without_fast_checkpoints(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; import eventide as ev\n"
        "from tests.spark.stateful_query import counted\n"
        "from tests.spark.test_local_checkpoint_files import local_files\n"
        "spark = ev.spark_session(cores=1, fast_checkpoints=False)\n"
        "print(local_files(spark).getClass().getName().startswith('org.apache.hadoop.'))\n"
        "print(spark.conf.get('spark.sql.streaming.checkpointFileManagerClass', 'not set'))\n"
        f"print(counted(spark, Path({str(tmp_path)!r}), files=2))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == [
        "True",
        "not set",
        "[(0, 3), (0, 6), (1, 3), (1, 6)]",
    ], result.stderr[-2000:]


def test_only_the_session_imports_the_module() -> None:
    name = "local_checkpoint_files"
    importing = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import) and name in ast.unparse(node):
                importing.add(file.name)
    assert importing == {"session.py"}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o421, 0o777, 0o1777])
def test_a_file_gets_the_requested_permissions(spark: SparkSession, tmp_path: Path, mode: int) -> None:
    files = spark.sparkContext._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    local_files(spark).setPermission(files.Path(str(tmp_path)), files.permission.FsPermission(f"{mode:o}"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode


def test_a_class_that_the_user_named_is_kept(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    monkeypatch.setattr(local_checkpoint_files, "_replace", lambda *_: pytest.fail("replaced"))
    settings.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        local_checkpoint_files.install(spark)
    finally:
        settings.unset("fs.file.impl")


def test_systems_without_posix_permissions_keep_the_class_of_hadoop(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_checkpoint_files, "_POSIX", False)
    monkeypatch.setattr(local_checkpoint_files, "_replace", lambda *_: pytest.fail("replaced"))
    local_checkpoint_files.install(spark)


def test_a_class_that_does_not_compile_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "local_checkpoint_files.py"
    broken.with_name("LocalFiles.java").write_text("class")
    monkeypatch.setattr(local_checkpoint_files, "__file__", str(broken))
    before = local_files(spark).hashCode()
    local_checkpoint_files.install(spark)
    assert local_files(spark).hashCode() == before

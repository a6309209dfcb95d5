"""Modules that Spark imports in processes of its own are light: they do not import Polars."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["pyspark_eventide", "pyspark_eventide.source", "eventide.spark.state_processor"])
def test_a_module_that_spark_imports_at_process_start_imports_no_polars(module: str) -> None:
    script = f"import sys, {module}; print('polars' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"

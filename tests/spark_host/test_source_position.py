"""The position of a row in its source, for sessions without access to Spark's plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql.types import LongType, StringType, StructField, StructType

from eventide.spark.sources import _file_metadata


class Rows:
    """A DataFrame without Java objects."""

    def __init__(self, metadata: StructType | None) -> None:
        self._metadata = metadata

    def select(self, name: str) -> Any:
        """Return the column, or fail as Spark does where there is none."""
        if self._metadata is None:
            raise AnalysisException("UNRESOLVED_COLUMN")
        return SimpleNamespace(schema={name: StructField(name, self._metadata)})


def test_without_access_to_the_plan_the_columns_of_files_are_selected() -> None:
    fields = StructType([StructField("file_path", StringType()), StructField("row_index", LongType())])
    assert _file_metadata(Rows(fields)) == ["file_path", "row_index"]  # type: ignore[arg-type]


def test_without_access_to_the_plan_other_sources_have_no_position() -> None:
    assert _file_metadata(Rows(None)) == []  # type: ignore[arg-type]

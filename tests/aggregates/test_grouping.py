"""Grouping gives the same bytes for the same rows, for any number of threads and groups."""

import numpy as np
import polars as pl
import pytest

from eventide.kernels.grouping import dense_groups, group


def _floats(keys: int, rows: int = 300_000) -> pl.DataFrame:
    rng = np.random.default_rng(keys)
    key = rng.integers(0, keys, rows)
    return pl.DataFrame(
        {"key": key, "name": [f"k{k}" for k in key], "value": rng.random(rows) * 10 ** rng.random(rows)}
    )


@pytest.mark.parametrize("keys", [1, 3, 100, 5_000])
@pytest.mark.parametrize("by", ["key", "name"])
def test_float_sums_are_the_same_bytes_each_time(keys: int, by: str) -> None:
    frame = _floats(keys)
    sums = [
        group(frame, [by], [pl.col("value").sum(), pl.len()]).sort(by)["value"].to_numpy().tobytes() for _ in range(6)
    ]
    assert len(set(sums)) == 1


@pytest.mark.parametrize("keys", [1, 100, 5_000, 200_000])
def test_sums_by_arithmetic_are_right(keys: int) -> None:
    frame = _floats(keys).with_columns(whole=pl.col("value").cast(pl.Int64))
    groups = dense_groups(frame, ["key"], {})
    assert groups is not None
    dense = groups.sums({"n": None, "whole": frame["whole"]}).sort("key")
    expected = frame.group_by("key").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("whole").sum()).sort("key")
    assert dense.equals(expected)


def test_keys_are_read_back_from_a_grid_with_offsets_and_negative_values() -> None:
    frame = pl.DataFrame({"slice": [-120, 60, -60, 60], "key": pl.Series([7, -3, 7, -3], dtype=pl.Int16)})
    groups = dense_groups(frame, ["key", "slice"], {"slice": (60, 0)})
    assert groups is not None
    cells = groups.sums({"n": None}).sort("key", "slice")
    assert cells.rows() == [(-3, 60, 2), (7, -120, 1), (7, -60, 1)]
    assert cells.schema["key"] == pl.Int16


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("key", ["a", "b"]),
        pl.Series("key", [1, None]),
        pl.Series("key", [0, 10**12]),
        pl.Series("key", [0.5, 1.5]),
    ],
    ids=["text", "null", "far apart", "floats"],
)
def test_other_keys_are_left_to_hashing(column: pl.Series) -> None:
    assert dense_groups(column.to_frame(), ["key"], {}) is None

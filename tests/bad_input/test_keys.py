"""Keys of every type, with nulls, NaN and the two zeros: grouped as Spark groups them."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import eventide as ev
from tests.bad_input.accounting import KINDS, check, counted, stream

NAN = float("nan")
KEYS: dict[str, tuple[list[Any], Any]] = {  # two equal keys and one other
    "string and null": (["a", "a", None], pl.String),
    "null and string": ([None, None, ""], pl.String),
    "struct": (
        [{"a": 1, "b": None}, {"a": 1, "b": None}, {"a": 1, "b": "x"}],
        pl.Struct({"a": pl.Int64, "b": pl.String}),
    ),
    "struct and null": ([None, None, {"a": None}], pl.Struct({"a": pl.Int64})),
    "decimal": ([Decimal("1.10"), Decimal("1.1"), None], pl.Decimal(10, 2)),
    "date": ([date(2024, 1, 1), date(2024, 1, 1), None], pl.Date),
    "time": ([time(1), time(1), None], pl.Time),
    "duration": ([timedelta(1), timedelta(1), None], pl.Duration("us")),
    "binary": ([b"\xff", b"\xff", b""], pl.Binary),
    "list": ([[1, 2], [1, 2], []], pl.List(pl.Int64)),
    "list and null": ([None, None, [None]], pl.List(pl.Int64)),
    "array": ([[1, 2], [1, 2], [2, 1]], pl.Array(pl.Int64, 2)),
    "categorical": (["a", "a", None], pl.Categorical()),
    "enum": (["a", "a", "b"], pl.Enum(["b", "a"])),
    "boolean": ([True, True, None], pl.Boolean),
    "int128": ([2**100, 2**100, 1], pl.Int128),
    "uint64": ([2**64 - 1, 2**64 - 1, 0], pl.UInt64),
    "NaN": ([NAN, -NAN, None], pl.Float64),
    "zeros": ([0.0, -0.0, 1.0], pl.Float64),
    "zeros of 32 bits": ([-0.0, 0.0, NAN], pl.Float32),
    "NaN in a struct": ([{"a": NAN}, {"a": NAN}, {"a": 0.0}], pl.Struct({"a": pl.Float64})),
    "zeros in a struct": ([{"a": 0.0}, {"a": -0.0}, {"a": 1.0}], pl.Struct({"a": pl.Float64})),
    "nothing but null": ([None, None, None], pl.Null),
}


def rows(key: list[Any], dtype: Any) -> pl.DataFrame:
    return pl.DataFrame({"t": [1, 2, 3], "k": pl.Series(key, dtype=dtype)})


def final(result: Any) -> list[int]:
    """How many rows each key has in the end."""
    panes = result.panes.with_columns(pl.col("n") * pl.col("diff"))
    return sorted(panes.group_by("k").agg(pl.col("n").sum())["n"].to_list())


@pytest.mark.parametrize("kind", ["tumbling", "sessions", "cut sessions", "rows"])
@pytest.mark.parametrize(("key", "dtype"), KEYS.values(), ids=KEYS.keys())
def test_equal_keys_are_one_group_across_bundles(kind: str, key: list[Any], dtype: Any) -> None:
    result = check(counted(stream().window(KINDS[kind])), [rows(key, dtype)] * 2)
    assert final(result) == ([6] if dtype == pl.Null else [2, 4])


@pytest.mark.parametrize(("key", "dtype"), KEYS.values(), ids=KEYS.keys())
def test_keys_of_all_types_can_be_retracted(key: list[Any], dtype: Any) -> None:
    often = stream().window(ev.tumbling("10s")).trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
    result = check(counted(often), [rows(key, dtype)] * 3)
    assert final(result) == ([9] if dtype == pl.Null else [3, 6])


def test_minus_zero_is_shown_as_zero() -> None:
    result = check(counted(stream().window(KINDS["tumbling"])), [rows([-0.0, -0.0, 1.0], pl.Float64)])
    assert sorted(map(str, result.panes["k"])) == ["0.0", "1.0"]


def test_a_null_key_is_a_key_of_its_own() -> None:
    result = check(counted(stream().window(KINDS["tumbling"])), [rows([None, "null", None], pl.String)])
    assert sorted(result.panes.select("k", "n").rows(), key=str) == [("null", 1), (None, 2)]


def test_several_key_columns_group_together() -> None:
    frame = rows([None, "a", None], pl.String).with_columns(j=pl.Series([1, 1, None]))
    pipeline = ev.stream(time="t", key=["j", "k"]).window(ev.tumbling("1s")).agg(n=ev.count())
    assert pipeline.local([frame, frame], clock=[0, 0]).panes["n"].to_list() == [2, 2, 2]


def test_a_key_that_is_missing_is_rejected_with_a_hint() -> None:
    with pytest.raises(ev.PlanError, match=r"key: there is no column 'k' in the rows. Did you mean 'kk'"):
        counted(stream().window(KINDS["tumbling"])).local(pl.DataFrame({"t": [1], "kk": [1]}), clock=[0])


def test_the_time_can_be_the_key() -> None:
    result = ev.stream(time="t", key="t").window(ev.tumbling("1s")).agg(n=ev.count()).local(rows([1, 1, 1], pl.Int64))
    assert result.panes["n"].to_list() == [1, 1, 1]


def test_a_key_that_is_not_a_number_keeps_its_state_when_it_arrives_alone() -> None:
    frame = pl.DataFrame({"ts": [0], "key": [float("nan")]})
    twos = ev.stream(time="ts", key="key").window(ev.rows(2)).agg(n=ev.count())
    assert twos.local([frame, frame, frame, frame]).panes["n"].to_list() == [2, 2]
    bounded = ev.stream(time="ts", key="key", watermark=ev.bounded_delay("1 hour"))
    windows = bounded.window(ev.tumbling("1 second")).limit_state(rows=1).agg(n=ev.count())
    result = windows.local([frame.with_columns(pl.col("ts") + later) for later in (0, 5_000_000, 1)])
    assert result.dead["ev_reason"].to_list() == ["out_of_retention"]

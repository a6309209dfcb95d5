"""``ev.inspect`` shows the largest keys, and the windows that ``.limit_state`` closes next, without the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import eventide as ev
from eventide.errors import DataError
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle
from eventide.operators.redistribution import BucketSnapshot
from eventide.plan.fingerprint import counts_rows, fingerprint, stored_limits
from eventide.plan.window_plan import StateLimits
from eventide.spark.inspection import OperatorState, inspect_driver
from eventide.spark.key_sizes import MOST_KEYS, key_sizes
from eventide.spark.storage import LocalStorage
from eventide.state import format as snapshot
from tests.driver.harness import Checkpoint, Driver

SCHEMA: dict[str, pl.DataType] = {"t": pl.Int64(), "k": pl.String(), "v": pl.Int64()}
TENS = ev.tumbling(timedelta(microseconds=10))
Row = tuple[int, str | None, int]


def stream(kind: Any = TENS, *, key: str | None = "k", **limits: int) -> ev.WindowedStream:
    windows = ev.stream(time="t", key=key, watermark="1 hour").window(kind)
    return windows.limit_state(**limits) if limits else windows


def stored(place: Path, pipeline: ev.Pipeline, *batches: Sequence[Row]) -> OperatorState:
    """What is in state after some batches. Each input gets the same rows."""
    checkpoint = Checkpoint(place)
    driver = Driver(checkpoint, pipeline, [SCHEMA] * len(pipeline.plans[0].edges))
    for number, rows in enumerate(batches):
        checkpoint.log_offsets(number, 1_000_000)
        frame = pl.DataFrame(list(rows), schema=SCHEMA, orient="row")
        driver.batch(number, [frame] * len(pipeline.plans[0].edges))
    (operator,) = ev.inspect(place, keys=True)
    return operator


def largest(operator: OperatorState, *columns: str) -> list[tuple[Any, ...]]:
    return operator.keys.largest.unnest("key").select("k", *columns).rows()


def closes(operator: OperatorState) -> list[tuple[Any, ...]]:
    assert operator.keys.closes_next is not None
    end = pl.col("window_end").cast(pl.Int64)
    return operator.keys.closes_next.select(pl.col("key").struct.field("k"), end, "limit", "room").rows()


@pytest.mark.parametrize("early", [False, True], ids=["cells", "panes"])
def test_the_largest_keys_come_first_with_their_open_windows_and_rows(tmp_path: Path, early: bool) -> None:
    windows = stream().emit(early=ev.every("1 second")) if early else stream()
    pipeline = windows.agg(values=ev.collect_list("v"))
    operator = stored(tmp_path, pipeline, [(1, "a", 1), (1, "b", 1), (2, "b", 2)], [(11, "b", 3), (12, "b", 4)])
    assert operator.keys.count == 2
    assert largest(operator, "entries", "rows") == [("b", 2, 4), ("a", 1, 1)]
    sizes = [size for (_, size) in largest(operator, "bytes")]
    assert sizes[0] >= sizes[1] + 3 * 8  # three more values in lists


def test_partial_cells_of_a_window_are_one_entry(tmp_path: Path) -> None:
    operator = stored(tmp_path, stream().agg(n=ev.count()), *([(1, "a", number)] for number in range(3)))
    assert largest(operator, "entries", "rows") == [("a", 1, 3)]


def test_only_the_largest_keys_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    rows = [(1, f"key-{number:02}", 0) for number in range(MOST_KEYS + 5)]
    operator = stored(tmp_path, stream().agg(n=ev.count()), rows)
    assert operator.keys.count == MOST_KEYS + 5
    assert [key for (key,) in largest(operator)] == [f"key-{number:02}" for number in range(MOST_KEYS)]


def test_a_null_is_a_key(tmp_path: Path) -> None:
    operator = stored(tmp_path, stream().agg(n=ev.count()), [(1, None, 1), (2, None, 2)])
    assert largest(operator, "rows") == [(None, 2)] and "key        k=null: entries 1, rows 2" in str(operator)


def test_a_plan_without_a_key_has_no_keys(tmp_path: Path) -> None:
    operator = stored(tmp_path, stream(key=None).agg(n=ev.count()), [(1, "a", 1)])
    assert operator.keys.count == 0 and operator.keys.largest.is_empty() and operator.keys.closes_next is None
    assert "key  " not in str(operator)


def test_a_join_counts_the_rows_that_wait(tmp_path: Path) -> None:
    side = ev.stream(time="t", key="k", watermark="1 hour")
    pipeline = ev.join(left=side, right=side, within="1 second")
    operator = stored(tmp_path, pipeline, [(1, "a", 1), (2, "b", 2)], [(3, "b", 3)])
    assert largest(operator, "entries", "rows") == [("b", 4, 4), ("a", 2, 2)]


class Visits(ev.RowProcessor):
    """Counts the visits of each key, and sets a timer."""

    state_schema: ClassVar[dict[str, Any]] = {"visits": pl.Int64}

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
        state["visits"] = (state["visits"] or 0) + 1
        self.set_timer("2026-03-01T13:00Z", name="later")


def test_a_processor_counts_states_and_timers_and_no_rows(tmp_path: Path) -> None:
    pipeline = ev.stream(time="t", key="k", watermark="1 hour").process(Visits(), output={"k": pl.String})
    assert largest(stored(tmp_path, pipeline, [(1, "a", 1), (2, "a", 2)]), "entries", "rows") == [("a", 2, None)]


def test_the_oldest_window_of_each_key_is_closed_next_and_that_of_the_fullest_key_first(tmp_path: Path) -> None:
    pipeline = stream(rows=4).agg(values=ev.collect_list("v"))
    rows = [(1, "a", 1), (11, "a", 2), (1, "b", 1), (2, "b", 2), (11, "b", 3), (21, "b", 4), (1, "c", 1)]
    operator = stored(tmp_path, pipeline, rows)
    assert closes(operator) == [("b", 10, "rows", 0), ("a", 10, "rows", 2)]  # the only window of a key stays open


def test_the_window_that_is_shown_is_the_one_that_is_closed(tmp_path: Path) -> None:
    pipeline = stream(rows=4).agg(values=ev.collect_list("v"))
    rows = [(1, "b", 1), (2, "b", 2), (11, "b", 3), (21, "b", 4)]
    ((_, end, _, room),) = closes(stored(tmp_path, pipeline, rows))
    query = pipeline.start_local(SCHEMA)
    query.push(pl.DataFrame(rows, schema=SCHEMA, orient="row"), now=0)
    more = [(22, "b", 5 + number) for number in range(room + 1)]
    closed = query.push(pl.DataFrame(more, schema=SCHEMA, orient="row"), now=0).panes
    assert closed["window_end"].cast(pl.Int64).to_list() == [end]


def test_a_limit_in_bytes_closes_the_oldest_windows_of_all_keys_in_order(tmp_path: Path) -> None:
    pipeline = stream(bytes=10_000).agg(n=ev.count())
    operator = stored(tmp_path, pipeline, [(1, "b", 1), (1, "a", 1), (11, "a", 2), (21, "a", 3)])
    order = closes(operator)
    assert [(key, end, limit) for key, end, limit, _ in order] == [
        ("a", 10, "bytes"),
        ("b", 10, "bytes"),
        ("a", 20, "bytes"),
    ]
    assert order[0][3] < order[1][3] < order[2][3] < 10_000


def test_a_bucket_has_its_own_limit_in_bytes() -> None:
    """The newest window of each bucket stays open."""
    operator = operator_of(stream(bytes=10_000).agg(n=ev.count()).plan, SCHEMA)
    buckets = []
    for key in ("a", "b"):
        rows = pl.DataFrame([(1, key, 1), (11, key, 2)], schema=SCHEMA, orient="row")
        state = operator.step(operator.initial(), Bundle(rows, 0)).state
        pages = BucketSnapshot()
        head = snapshot.load(operator.write(state, pages, None)[0])
        buckets.append((head, pages))
    plan = snapshot.load(buckets[0][1].get(buckets[0][0]["plan"][1]))
    next_windows = key_sizes(plan, buckets).closes_next
    assert next_windows is not None
    assert sorted(key["k"] for key in next_windows["key"]) == ["a", "b"]


def test_row_sessions_have_keys_although_their_state_is_not_divided_by_them(tmp_path: Path) -> None:
    rows = [(1, "a", 1), (2, "b", 1), (3, "b", 1)]
    operator = stored(tmp_path, stream(ev.row_sessions(absent=5)).agg(n=ev.count()), rows)
    assert largest(operator, "entries", "rows") == [("a", 1, 1), ("b", 1, 2)]


def test_without_a_key_a_limit_counts_all_rows(tmp_path: Path) -> None:
    operator = stored(tmp_path, stream(key=None, rows=9).agg(n=ev.count()), [(1, "a", 1), (11, "b", 2), (21, "b", 2)])
    assert operator.keys.closes_next is not None and operator.keys.closes_next["room"].to_list() == [6]
    (line,) = [line for line in str(operator).splitlines() if line.startswith("  next ")]
    assert line.endswith("all rows: 1970-01-01T00:00:00Z to 1970-01-01T00:00:00.00001Z, after more than 6 rows")


def test_windows_that_count_rows_have_row_numbers_as_bounds(tmp_path: Path) -> None:
    pipeline = stream(ev.rows(3, every=1), rows=9).agg(n=ev.count())
    operator = stored(tmp_path, pipeline, [(1, "a", 1), (2, "a", 2)])
    assert closes(operator) == [("a", 4, "rows", 6)]
    assert "next       k=a: 1 to 4, after more than 6 rows" in str(operator)


def test_a_limit_without_open_windows_closes_nothing(tmp_path: Path) -> None:
    operator = stored(tmp_path, stream(rows=4).agg(n=ev.count()), [])
    assert closes_nothing(operator) and operator.keys.count == 0


def closes_nothing(operator: OperatorState) -> bool:
    return operator.keys.closes_next is not None and operator.keys.closes_next.is_empty()


@pytest.mark.parametrize("limits", [{"rows": 10_000}, {"bytes": 64}, {"rows": 1, "bytes": 1 << 30}])
@pytest.mark.parametrize("kind", [TENS, ev.rows(3)], ids=["time", "rows"])
def test_the_stored_plan_names_its_limits(kind: Any, limits: dict[str, int]) -> None:
    facts = fingerprint(stream(kind, **limits).agg(n=ev.count()).plan)
    assert stored_limits(facts) == StateLimits(**limits)
    assert counts_rows(facts) == (kind is not TENS)
    assert stored_limits(fingerprint(stream(kind).agg(n=ev.count()).plan)) is None


def test_a_large_state_is_not_read_where_a_limit_is_set(tmp_path: Path) -> None:
    stored(tmp_path, stream().agg(n=ev.count()), [(1, "a", 1)])
    files = LocalStorage(tmp_path)
    (whole,) = inspect_driver(files, keys=True, max_bytes=1 << 20) or []
    assert whole.keys is not None and whole.keys.count == 1
    with pytest.raises(DataError, match="eventide inspect"):
        inspect_driver(files, max_bytes=10)

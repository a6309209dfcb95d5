"""The bytes written for some rows depend on those rows, not on the frame that they are a slice of."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.kernels.frames import compact, to_ipc
from eventide.marks.events import encode
from eventide.operators.operator import Bundle
from eventide.operators.window_join import WindowJoin
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.spark import shuffle_pages as bodies
from eventide.spark import types
from eventide.standalone.stores import sqlite as chunks
from eventide.state import format as snapshot
from tests.effort import examples
from tests.state.harness import Paged

TEXT = 600
ROWS = 200


def flat(name: str) -> pl.Expr:
    n = pl.int_range(pl.len())
    text = pl.concat_str(n.cast(pl.String), pl.lit("-" * TEXT))
    return {
        "text": text,
        "bytes": text.cast(pl.Binary),
        "category": text.cast(pl.Categorical),
        "enum": (n % 3).cast(pl.String).cast(pl.Enum(["0", "1", "2"])),
        "int": n,
        "wide int": n.cast(pl.Int128),
        "float": n.cast(pl.Float64),
        "bool": n % 2 == 0,
        "decimal": n.cast(pl.Decimal(38, 2)),
        "date": n.cast(pl.Date),
        "instant": n.cast(pl.Datetime("us", "Europe/Berlin")),
        "time": n.cast(pl.Time),
        "duration": n.cast(pl.Duration("us")),
        "null": pl.lit(pl.Series([None] * ROWS, dtype=pl.Null)),
    }[name]


NAMES = [
    *("text", "bytes", "category", "enum", "int", "wide int", "float"),
    *("bool", "decimal", "date", "instant", "time", "duration", "null"),
]
WRAPS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "list": lambda values: pl.Series([[v, v] for v in values.to_list()], dtype=pl.List(values.dtype)),
    "array": lambda values: pl.Series([[v] for v in values.to_list()], dtype=pl.Array(values.dtype, 1)),
    "struct": lambda values: pl.DataFrame({"inner": values, "beside": range(len(values))}).to_struct(),
    "sparse": lambda values: pl.Series(
        [v if i % 3 else None for i, v in enumerate(values.to_list())], dtype=values.dtype
    ),
}
# Lists of structs and structs of lists, as aggregates and joins store rows.
shapes = st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(sorted(WRAPS)), max_size=3))
parts = st.tuples(
    st.sampled_from(["slice", "gather", "filter", "slice of a gather"]),
    st.integers(0, ROWS - 1),
    st.integers(1, 9),
)


def frame_of(shape: tuple[str, list[str]]) -> pl.DataFrame:
    values = pl.DataFrame({"row": range(ROWS)}).select(flat(shape[0])).to_series()
    for wrap in shape[1]:
        values = WRAPS[wrap](values)
    return pl.DataFrame({"row": range(ROWS), "value": values})


def part_of(frame: pl.DataFrame, how: str, at: int, many: int) -> pl.DataFrame:
    if how == "slice":
        return frame.slice(at, many)
    if how == "filter":
        return frame.filter(pl.col("row").is_between(at, at + many - 1))
    wanted = [Random(f"{at}/{i}").randrange(ROWS) for i in range(many)]
    return frame[wanted] if how == "gather" else frame[wanted].slice(many // 2)


def anew(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in a frame that was never part of another."""
    return pl.DataFrame({name: pl.Series(frame[name].to_list(), dtype=frame[name].dtype) for name in frame.columns})


def written(frame: pl.DataFrame) -> dict[str, int]:
    """The bytes of rows at each place that writes some."""
    pages = {
        "page": len(snapshot.dump({"rows": frame}, compression="lz4")),
        "chunk": len(chunks.as_bytes(frame)),
    }
    if "Int128" in str(frame.schema):  # neither Spark nor streams have it
        return pages
    return pages | {
        "body": len(bodies.table_to_bytes(types.to_spark(frame, types.arrow_schema(frame.schema)))),
        "event": len(encode(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))),
    }


@settings(max_examples=examples(150), deadline=None)
@given(shapes, parts)
def test_the_bytes_of_some_rows_are_those_of_their_values(
    shape: tuple[str, list[str]], part: tuple[str, int, int]
) -> None:
    rows = part_of(frame_of(shape), *part)
    alone = anew(rows)
    fresh = written(alone)
    for place, size in written(rows).items():
        assert size <= 1.1 * fresh[place] + 200, place
    back = pl.read_ipc_stream(io.BytesIO(to_ipc(rows)))
    assert back.schema == rows.schema
    assert back.equals(rows)
    assert compact(rows).equals(rows)


def test_a_dictionary_is_written_with_the_values_that_occur() -> None:
    values = pa.array([f"{i:06d}" * 100 for i in range(1000)]).dictionary_encode()
    table = pa.table({"value": values})
    assert len(encode(table.slice(5, 1))) < 3000
    assert encode(table)  # and all of it where all of it occurs


CLICKS = ev.stream(time="t", key="k", watermark=ev.bounded_delay("1 second"))
MINUTES = CLICKS.window(ev.tumbling("1m"))
EARLY = MINUTES.trigger(ev.after_watermark(early=ev.on_update()), mode="retracting")
LISTS: dict[str, Any] = {
    "collect": ev.collect_list("text"),
    "collect_set": ev.collect_set("text"),
    "top_n": ev.top_n("text", 2),
    "top_n_by_key": ev.top_n_by_key("n", "text", 2),
    "mode": ev.mode("text"),
    "fold": ev.fold("", lambda value, row: row["text"], dtype=pl.String()),
}


def texts(rows: int) -> pl.DataFrame:
    n = pl.int_range(pl.len())
    text = pl.concat_str(n.cast(pl.String), pl.lit("-" * TEXT))
    return pl.DataFrame({"n": range(rows)}).select("n", t=n * 1000, k=n, text=text)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("plan", [MINUTES, EARLY], ids=["cells", "panes"])
def test_the_state_of_texts_in_lists_follows_the_rows(plan: ev.Stream, name: str) -> None:
    rows = texts(5000)
    pipeline = plan.agg(value=LISTS[name])
    operator = WindowedAggregate(pipeline.plan, rows.schema)
    paged = Paged(operator)
    paged.step(lambda state: operator.step(state, Bundle(rows, 0)))
    stored = sum(len(body) for body in paged.store.pages.values())
    values = rows.height * (TEXT + 100)
    kept = 2 if plan is EARLY else 1  # the panes that were emitted are stored next to the lists
    assert len(paged.store.pages) > 1 or name == "fold", "one page would prove nothing"
    assert stored < 2 * kept * values


def test_the_state_of_a_window_join_follows_the_rows() -> None:
    rows = texts(5000)
    join = ev.window_join(CLICKS, CLICKS, window=ev.tumbling("1h"))
    operator = WindowJoin(join.plan, rows.schema, rows.schema)
    paged = Paged(operator)
    for now in range(3):
        paged.step(lambda state, now=now: operator.step(state, Bundle([rows, rows], now)))
    stored = sum(len(body) for body in paged.store.pages.values())
    assert stored < 2 * 6 * rows.height * (TEXT + 100)

"""Tables, in every database alike: equal to the sum of the diffs, for any repeats and failures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

import eventide as ev
from tests.effort import examples
from tests.sinks.panes import INSTANT, MINUTE, Row, frame, opened, output_info, row, schema, summed
from tests.sinks.places import Place

SEEN = ["shop", "size", "window_start", "window_end", "n", "x"]
ALL = f"SELECT {', '.join(SEEN)} FROM panes"
WIDE = schema({"shop": t.StringType(), "size": t.DoubleType()}, {"n": t.LongType(), "x": t.DoubleType()})
NUMBERS = st.sampled_from([None, float("nan"), float("inf"), float("-inf"), 0.0, 1.5, 5e-324, 1e300])


@st.composite
def histories(draw: st.DrawFn) -> list[list[Row]]:
    """Batches of a retracting query. Present panes are replaced or retracted; others begin, also again."""
    standing: dict[Any, Row] = {}
    identities = st.tuples(
        st.sampled_from([None, "", "kiel", "NaN"]), NUMBERS, st.sampled_from([None, 0, MINUTE, -MINUTE])
    )
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch: list[Row] = []
        for shop, size, start in draw(st.lists(identities, max_size=6, unique_by=repr)):
            name = repr((shop, size, start))
            old = standing.pop(name, None)
            if old is not None:
                batch.append(old | {"diff": -1})
            if old is None or draw(st.booleans()):
                index = draw(st.integers(0, 2)) if old is None else draw(st.sampled_from([0, old["pane_index"] + 1]))
                new = row(start, index=index, shop=shop, size=size, n=draw(st.integers(-5, 5)), x=draw(NUMBERS))
                standing[name] = new
                batch.append(new)
        batches.append(draw(st.permutations(batch)))
    return batches


@given(history=histories(), repeated=st.integers(0, 3))
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_table_equals_the_sum_of_the_diffs(place: Place, history: list[list[Row]], repeated: int) -> None:
    store = opened(place, output_info(key=["shop", "size"]), WIDE)
    place.tell("DELETE FROM panes", "DELETE FROM eventide_batches")
    everything = frame([row(shop="", size=0.0, n=0, x=0.0)]).clear()
    for batch_id, batch in enumerate(history):
        rows = frame(batch) if batch else everything.clear()
        everything = pl.concat([everything, rows.select(everything.columns)])
        for _ in range(1 + (batch_id == repeated)):
            store.put(rows, "q", batch_id)
        assert place.counted(ALL) == summed(everything, SEEN)
    store.close()


@pytest.fixture
def kiel(place: Place) -> Iterator[tuple[Place, Any]]:
    """A table with one row."""
    store = opened(place, output_info())
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    yield place, store
    store.close()


def counts(place: Place) -> list[tuple[Any, ...]]:
    return place.ask("SELECT shop, n FROM panes ORDER BY shop, n")


def test_a_replayed_batch_changes_nothing(kiel: tuple[Place, Any]) -> None:
    place, store = kiel
    store.put(frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]), "q", 1)
    for batch_id in (0, 1):
        store.put(frame([row(shop="rom", n=9)]), "q", batch_id)
    assert counts(place) == [("kiel", 2)]
    assert place.ask("SELECT * FROM eventide_batches") == [("q", "panes", 1)]


def test_after_a_restart_the_replayed_batch_changes_nothing(kiel: tuple[Place, Any]) -> None:
    place, _ = kiel
    restarted = opened(place, output_info())
    assert restarted.has("q", 0) and not restarted.has("q", 1)
    restarted.put(frame([row(shop="rom", n=9)]), "q", 0)
    assert counts(place) == [("kiel", 1)]
    restarted.close()


def test_another_query_has_batches_of_its_own(kiel: tuple[Place, Any]) -> None:
    place, store = kiel
    store.put(frame([row(shop="rom", n=9)]), "another", 0)
    assert counts(place) == [("kiel", 1), ("rom", 9)]


def test_two_outputs_in_one_database_are_counted_apart(kiel: tuple[Place, Any]) -> None:
    place, _ = kiel
    late = opened(
        place, output_info(output="late"), t.StructType().add("shop", "string").add("ev_event_time", "timestamp")
    )
    late.put(
        pl.DataFrame({"shop": ["kiel"], "ev_event_time": [0]}, schema_overrides={"ev_event_time": INSTANT}), "q", 0
    )
    assert place.ask("SELECT * FROM late") == [("kiel", "1970-01-01T00:00:00.000000Z")]
    late.close()


def test_late_rows_are_appended_once(place: Place) -> None:
    store = opened(place, output_info(output="late"), t.StructType().add("shop", "string"))
    rows = pl.DataFrame({"shop": ["kiel", "kiel", None]})
    for batch_id in (0, 0, 1):
        store.put(rows, "q", batch_id)
    assert place.counted("SELECT shop FROM late") == {("kiel",): 4, (None,): 2}
    store.close()


def test_a_pane_that_is_only_retracted_is_gone(kiel: tuple[Place, Any]) -> None:
    place, store = kiel
    store.put(frame([row(shop="kiel", n=1, diff=-1), row(MINUTE, shop="kiel", n=7)]), "q", 1)
    assert place.ask("SELECT window_start, n FROM panes") == [("1970-01-01T00:01:00.000000Z", 7)]


def test_a_window_that_is_replaced_under_its_own_bounds_remains(kiel: tuple[Place, Any]) -> None:
    place, store = kiel  # a session that was cut anew begins to count its panes again
    store.put(frame([row(shop="kiel", n=5), row(shop="kiel", n=1, diff=-1)]), "q", 1)
    assert counts(place) == [("kiel", 5)]


def test_the_order_of_arrival_does_not_matter(place: Place) -> None:
    store = opened(place, output_info("accumulating"))
    rows = [row(shop="kiel", n=n, index=n) for n in range(5)]
    for batch_id, batch in enumerate((rows, rows[::-1])):
        store.put(frame(batch), "q", batch_id)
        assert counts(place) == [("kiel", 4)]
    store.close()


def test_of_a_window_that_accumulates_the_last_pane_remains(place: Place) -> None:
    store = opened(place, output_info("accumulating"))
    for batch_id, n in enumerate([3, 4]):
        store.put(frame([row(shop="kiel", n=n, index=batch_id)]), "q", batch_id)
    assert place.ask("SELECT n, pane_index FROM panes") == [(4, 1)]
    store.close()


def test_when_discarding_each_pane_is_a_row(place: Place) -> None:
    store = opened(place, output_info("discarding"))
    for batch_id, n in enumerate([3, 4]):
        store.put(frame([row(shop="kiel", n=n, index=batch_id)]), "q", batch_id)
    assert place.ask("SELECT n, pane_index FROM panes ORDER BY n") == [(3, 0), (4, 1)]
    store.close()


def test_null_is_a_key_and_so_is_nan(place: Place) -> None:
    store = opened(place, output_info(key=["shop", "size"]), WIDE)
    keys = [(None, None), (None, float("nan")), ("", 0.0), ("", None), (None, 0.0)]
    for batch_id in range(2):
        batch = [row(shop=shop, size=size, n=batch_id, x=None, index=batch_id) for shop, size in keys]
        store.put(frame(batch), "q", batch_id)
    expected = {(None, None, 1), (None, "NaN", 1), ("", 0.0, 1), ("", None, 1), (None, 0.0, 1)}
    assert place.counted("SELECT shop, size, n FROM panes") == dict.fromkeys(expected, 1)
    store.close()


def test_zero_has_no_sign_as_a_key(place: Place) -> None:
    store = opened(place, output_info(key=["shop", "size"]), WIDE)
    for batch_id, zero in enumerate([0.0, -0.0]):
        store.put(frame([row(shop="kiel", size=zero, n=batch_id, x=None)]), "q", batch_id)
    assert place.ask("SELECT n FROM panes") == [(1,)]
    store.close()


def test_a_window_without_bounds_is_one_row(place: Place) -> None:
    store = opened(place, output_info(key=[]), schema(key={}))
    for batch_id in range(2):
        store.put(frame([row(None, n=batch_id, index=batch_id)]), "q", batch_id)
    assert place.ask("SELECT window_start, window_end, n FROM panes") == [(None, None, 1)]
    store.close()


def test_windows_counted_in_rows_have_numbers_as_bounds(place: Place) -> None:
    store = opened(place, output_info(), schema(bound=t.LongType()))
    rows = frame([row(1, shop="kiel", n=3)], window_start=pl.Int64, window_end=pl.Int64)
    store.put(rows, "q", 0)
    assert place.ask("SELECT window_start, n FROM panes") == [(1, 3)]
    store.close()


FAILING = {
    "sqlite": ["CREATE TRIGGER fail BEFORE INSERT ON panes WHEN new.n = 13 BEGIN SELECT RAISE(ABORT, 'no 13'); END"],
    "postgres": [
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF new.n = 13 THEN RAISE 'no 13'; END IF; RETURN new; END $$",
        "CREATE TRIGGER fail BEFORE INSERT ON panes FOR EACH ROW EXECUTE FUNCTION fail()",
    ],
}


def test_a_failure_in_the_middle_of_a_batch_leaves_the_table_as_it_was(kiel: tuple[Place, Any]) -> None:
    place, store = kiel
    place.tell(*FAILING[place.kind])
    taken_back = row(shop="kiel", n=1, diff=-1)
    batch = [taken_back, *(row(shop=f"s{n:02}", n=n) for n in range(20))]
    with pytest.raises(ev.DataError, match=r"Batch 1 was not written into 'panes' of .*: no 13.* unchanged"):
        store.put(frame(batch), "q", 1)
    assert counts(place) == [("kiel", 1)]
    assert not store.has("q", 1)
    store.put(frame([taken_back, row(shop="rom", n=2)]), "q", 1)
    assert counts(place) == [("rom", 2)]


def test_a_time_of_the_day(place: Place) -> None:
    store = opened(place, output_info(), schema(results={"opens": t.TimeType()}))
    store.put(frame([row(shop="kiel", opens=time(8, 30, 0, 5))], opens=pl.Time), "q", 0)
    assert [str(opens) for (opens,) in place.ask("SELECT opens FROM panes")] == ["08:30:00.000005"]
    store.close()


TEXTS = ["", "\\N", "\\.", '"', "'", ",", "a\nb\r\n", "\\x41", "null", "NULL", "%s", "ä🌊", " ", "\t", "{}", "$1"]


def test_any_text_comes_back_as_it_was(place: Place) -> None:
    store = opened(place, output_info(), schema(results={"text": t.StringType()}))
    store.put(frame([row(shop=text, text=text) for text in TEXTS], text=pl.String), "q", 0)
    assert place.counted("SELECT shop, text FROM panes") == {(text, text): 1 for text in TEXTS}
    store.close()


def test_any_name_can_be_a_column_or_a_table(place: Place) -> None:
    names = ['"; DROP TABLE panes; --', "100%", "%s", "select", "a b", "ä.ö", "?", "{x}", "back`tick"]
    store = opened(
        place,
        output_info(key=names),
        schema({name: t.StringType() for name in names}, {"n": t.LongType()}),
        name='the "best" 100%s ?',
    )
    types = dict.fromkeys(names, pl.String)
    for batch_id in range(2):
        standing = row(n=batch_id, index=batch_id) | {name: name for name in names}
        gone = row(n=0, diff=-1) | dict.fromkeys(names, "x")
        store.put(frame([standing, gone], **types), "q", batch_id)
    assert place.ask('SELECT "100%", n FROM "the ""best"" 100%s ?"') == [("100%", 1)]
    store.close()


@st.composite
def bags(draw: st.DrawFn) -> list[list[Row]]:
    """Batches of a retracting join: a window has many rows, some of them alike, and each is retracted separately."""
    standing: list[Row] = []
    values = st.tuples(st.sampled_from([None, "kiel"]), st.sampled_from([None, 0]), st.sampled_from([None, 1, 2]))
    batches = []
    for index in range(draw(st.integers(1, 5))):
        gone = draw(st.permutations(standing))[: draw(st.integers(0, 3))]
        for old in gone:
            standing.remove(old)
        came = [
            row(start, index=index, at=index, shop=shop, n=n) for shop, start, n in draw(st.lists(values, max_size=5))
        ]
        standing += came
        taken = [old | {"diff": -1, "pane_index": index, "emitted_at": index} for old in gone]
        batches.append(draw(st.permutations([*taken, *came])))
    return batches


@given(history=bags(), repeated=st.integers(0, 3))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pairs_are_inserted_and_retracted_one_by_one(place: Place, history: list[list[Row]], repeated: int) -> None:
    store = opened(place, output_info(row_grain="pairs"))
    place.tell("DELETE FROM panes", "DELETE FROM eventide_batches")
    columns = ["shop", "window_start", "window_end", "n"]
    everything = frame([row(shop="", n=0)]).clear()
    for batch_id, batch in enumerate(history):
        rows = frame(batch) if batch else everything.clear()
        everything = pl.concat([everything, rows.select(everything.columns)])
        for _ in range(1 + (batch_id == repeated)):
            store.put(rows, "q", batch_id)
        assert place.counted(f"SELECT {', '.join(columns)} FROM panes") == summed(everything, columns)


def test_pairs_of_an_accumulating_join_replace_those_of_their_window(place: Place) -> None:
    store = opened(place, output_info("accumulating", row_grain="pairs"))
    store.put(frame([row(shop="kiel", n=1), row(shop="kiel", n=1), row(shop="bonn", n=7)]), "q", 0)
    store.put(frame([row(index=1, shop="kiel", n=2), row(index=1, shop="kiel", n=3)]), "q", 1)
    assert place.counted("SELECT shop, n FROM panes") == {("kiel", 2): 1, ("kiel", 3): 1, ("bonn", 7): 1}


def test_rows_without_a_window_are_appended(place: Place) -> None:
    store = opened(
        place, output_info("discarding", row_grain="rows"), t.StructType().add("shop", "string").add("diff", "byte")
    )
    for batch_id in (0, 1, 1):
        store.put(pl.DataFrame({"shop": ["kiel", "kiel"]}), "q", batch_id)
    assert place.counted("SELECT shop FROM panes") == {("kiel",): 4}

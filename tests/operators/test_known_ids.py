"""Rows with an id that arrived before are set aside, for as long as ids are remembered."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.local import LocalQuery
from eventide.operators.operator import Output
from tests.processors.cases import RunningTotal

SCHEMA = {"t": pl.Int64, "k": pl.String, "id": pl.Int64}
TENS = ev.tumbling(timedelta(microseconds=10))


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def stream(within: int = 20, *, key: str | None = "k", delay: int = 0, ids: tuple[str, ...] = ("id",)) -> ev.Stream:
    return ev.stream("t", key=key, watermark=ev.bounded_delay(us(delay))).deduplicate(*ids, within=us(within))


def counting(within: int = 20, kind: Any = TENS, **options: Any) -> ev.Pipeline:
    return stream(within, **options).window(kind).agg(ids=ev.collect_sorted("id"), n=ev.count())


def frame(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def push(query: LocalQuery, *rows: tuple[Any, ...], **options: Any) -> Output:
    output = query.push(frame(*rows), now=0, **options)
    assert output.counts.balanced
    return output


def repeats(output: Output) -> list[tuple[Any, ...]]:
    return output.dead.filter(pl.col("ev_reason") == "duplicate").select("t", "id").rows()


def test_a_repeat_is_a_dead_letter_in_its_bundle_and_in_later_ones() -> None:
    query = counting().start_local(SCHEMA)
    assert repeats(push(query, (1, "a", 7), (2, "a", 8), (3, "a", 7))) == [(3, 7)]
    assert repeats(push(query, (4, "a", 8), (5, "a", 9))) == [(4, 8)]
    assert query.drain().panes["ids"].to_list() == [[7, 8, 9]]


def test_the_detail_names_the_columns() -> None:
    query = counting().start_local(SCHEMA)
    output = push(query, (1, "a", 7), (2, "a", 7))
    assert output.dead["ev_detail"].to_list() == ["a row with the same 'id' arrived before"]


def test_a_row_that_is_far_away_in_time_is_a_first_row_again() -> None:
    query = counting(within=20, delay=100).start_local(SCHEMA)
    assert repeats(push(query, (50, "a", 7), (70, "a", 7), (71, "a", 7), (80, "a", 7), (29, "a", 7))) == [
        (70, 7),
        (80, 7),
    ]
    assert repeats(push(query, (30, "a", 7), (92, "a", 7), (9, "a", 7), (8, "a", 7))) == [(30, 7), (9, 7)]


def test_an_id_is_remembered_until_the_watermark_is_past_it() -> None:
    query = counting(within=20).start_local(SCHEMA)
    push(query, (5, "a", 7))
    assert query._state.ids["ids 0"].height == 1
    push(query, (25, "a", 8))
    assert query._state.ids["ids 0"].height == 2
    push(query, (26, "a", 9))
    assert query._state.ids["ids 0"].height == 2, "the first one is forgotten"
    query.drain()
    assert query._state.ids["ids 0"].height == 0


def test_keys_have_ids_of_their_own_and_rows_without_an_id_always_count() -> None:
    query = counting().start_local(SCHEMA)
    assert repeats(
        push(query, (1, "a", 7), (1, "b", 7), (1, None, 7), (2, None, 7), (1, "a", None), (1, "a", None))
    ) == [(2, 7)]


def test_an_id_may_have_several_columns() -> None:
    query = counting(key=None, ids=("k", "id")).start_local(SCHEMA)
    assert repeats(push(query, (1, "a", 7), (1, "b", 7), (2, "a", 7), (2, None, 7), (3, None, 7))) == [(2, 7)]


def test_a_late_repeat_is_a_repeat_and_a_late_row_is_late() -> None:
    query = counting(within=1000).start_local(SCHEMA)
    push(query, (1, "a", 7), (50, "a", 8))
    output = push(query, (2, "a", 7), (3, "a", 9))
    assert (repeats(output), output.late["id"].to_list()) == ([(2, 7)], [9])


@pytest.mark.parametrize(
    "kind",
    [TENS, ev.sliding(us(10), us(5)), ev.sessions(us(5)), ev.rows(3), ev.global_window()],
    ids=lambda k: k.describe(),
)
def test_the_results_are_those_of_the_rows_without_repeats(kind: Any) -> None:
    rng = Random(7)
    rows = [(at, rng.choice("ab"), number) for number, at in enumerate(range(0, 200, 3))]
    bundles = [rows[i : i + 5] for i in range(0, len(rows), 5)]
    twice = [bundle + [row for row in bundle if rng.random() < 0.5] for bundle in bundles]
    pipeline = counting(within=500, kind=kind)
    plain = ev.stream("t", key="k", watermark=ev.bounded_delay("0s")).window(kind)
    once = plain.agg(ids=ev.collect_sorted("id"), n=ev.count())
    observed, expected = pipeline.start_local(SCHEMA), once.start_local(SCHEMA)
    for repeated, bundle in zip(twice, bundles, strict=True):
        assert (
            push(observed, *repeated).panes.drop("pane", strict=False).rows()
            == push(expected, *bundle).panes.drop("pane", strict=False).rows()
        )
        observed = pipeline.start_local(saved=observed.save())


def test_repeats_in_a_random_history_are_those_of_a_model() -> None:
    rng = Random(3)
    query = counting(within=10, delay=5).start_local(SCHEMA)
    firsts: dict[tuple[str, int], list[int]] = {}
    watermark = -(2**62)
    for i in range(60):
        bundle = [(i * 2 + rng.randint(-12, 6), rng.choice("ab"), rng.randint(0, 3)) for _ in range(rng.randint(0, 6))]
        expected = []
        for t, k, number in bundle:
            known = firsts.setdefault((k, number), [])
            if any(abs(t - first) <= 10 for first in known):
                expected.append((t, number))
            else:
                known.append(t)
        output = push(query, *bundle)
        assert sorted(repeats(output)) == sorted(expected)
        watermark = max([watermark, *(t - 5 for t, _, _ in bundle)])
        firsts = {name: [first for first in known if first + 10 >= watermark] for name, known in firsts.items()}
        assert query._state.ids["ids 0"].height == sum(map(len, firsts.values()))


def test_the_sides_of_a_join_have_ids_of_their_own() -> None:
    join = ev.join(stream(), stream(), within=us(50)).start_local({"left": SCHEMA, "right": SCHEMA})
    output = join.push({"left": frame((1, "a", 7), (2, "a", 7)), "right": frame((1, "a", 7))}, now=0)
    assert (output.panes.height, output.counts.dead) == (1, {"duplicate": 1})


def test_a_processor_gets_no_repeats() -> None:
    rows = ev.stream("t", key="k", watermark="0 seconds").deduplicate("id", within=us(20))
    totals = rows.process(RunningTotal(), output={"k": pl.String, "total": pl.Int64})
    query = totals.start_local({**SCHEMA, "v": pl.Int64})
    bundle = pl.DataFrame({"t": [1, 2, 3], "k": ["a"] * 3, "id": [1, 1, 2], "v": [10, 10, 5]})
    assert query.push(bundle, now=0).counts.dead == {"duplicate": 1}
    again = totals.start_local(saved=query.save())
    assert again.push(bundle, now=0).counts.dead == {"duplicate": 3}


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (lambda: ev.stream("t").deduplicate("id"), "needs within='1 hour'"),
        (lambda: ev.stream("t").deduplicate(within="1 hour"), "needs the columns of an id"),
        (lambda: ev.stream("t").deduplicate("id", "id", within="1 hour"), "each once"),
        (lambda: ev.stream("t").deduplicate(5, within="1 hour"), "names of the columns"),
        (lambda: ev.stream("t").deduplicate("id", within="0 seconds"), "within of deduplicate"),
        (
            lambda: ev.stream("t").deduplicate(),
            r"\.deduplicate\('id', within='1 hour'\).*first_sequence=0, gaps='allowed'",
        ),
        (lambda: stream().deduplicate("id", within="1 hour"), "already called"),
        (lambda: counting(ids=("idd",)).start_local(SCHEMA), "no column 'idd'"),
    ],
)
def test_a_mistake_is_rejected(make: Any, answer: str) -> None:
    with pytest.raises(ev.PlanError, match=answer):
        make()


def test_the_plan_says_what_is_set_aside() -> None:
    text = stream(within=3_600_000_000).window(TENS).agg(n=ev.count()).explain()
    assert "repeats of 'id' within 1h are dead letters" in text

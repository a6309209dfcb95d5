"""Strategies are checked when they are written down, and say in words what they do."""

from datetime import timedelta

import polars as pl
import pytest

from eventide.errors import PlanError
from eventide.watermarks import ascending, bounded_delay, no_watermark, processing_time, punctuated

REJECTED = [
    (lambda: bounded_delay(30), "has no unit"),
    (lambda: bounded_delay("-1s"), "must not be negative"),
    (lambda: bounded_delay("5s", idle_timeout="0s"), "idle_timeout of bounded_delay.*longer than zero"),
    (lambda: bounded_delay("5s", idle_timeout=60), "idle_timeout of bounded_delay.*has no unit"),
    (lambda: bounded_delay("5s", sequence="n", gap_timeout="-1s"), "gap_timeout of bounded_delay.*negative"),
    (lambda: bounded_delay("5s", max_future_skew="-1s"), "max_future_skew of bounded_delay.*negative"),
    (lambda: bounded_delay("5s", chunk="c", last_chunk="l"), "chunk needs sequence"),
    (lambda: bounded_delay("5s", sequence="n", last_chunk="l"), "last_chunk needs chunk"),
    (
        lambda: bounded_delay("5s", sequence="n", chunk="c"),
        "chunk needs last_chunk: without it no sequence is ever known to be complete",
    ),
    (lambda: bounded_delay("5s", first_chunk=0), "first_chunk needs chunk"),
    (lambda: bounded_delay("5s", sequence="n", chunk="c", last_chunk="l", first_chunk=-1), "at least 0"),
    (lambda: bounded_delay("5s", sequence="n", chunk="c", last_chunk="l", first_chunk=True), "at least 0"),
    (lambda: bounded_delay("5s", gap_timeout="1m"), "gap_timeout needs sequence"),
    (lambda: bounded_delay("5s", origin="o", on_return="catchup"), "Did you mean 'catch_up'"),
    (lambda: bounded_delay("5s", expect_origins=3), "expect_origins needs origin"),
    (lambda: bounded_delay("5s", origin="o", origins_timeout="1m"), "origins_timeout needs expect_origins"),
    (lambda: bounded_delay("5s", origin="o", expect_origins=0), "neither a number of origins nor their names"),
    (lambda: bounded_delay("5s", origin="o", expect_origins=True), "neither a number of origins nor their names"),
    (lambda: bounded_delay("5s", origin="o", expect_origins="berlin"), "neither a number of origins nor their names"),
    (lambda: bounded_delay("5s", origin="o", expect_origins=[]), "neither a number of origins nor their names"),
    (lambda: bounded_delay("5s", watermark_key=256), "from 0 to 255"),
    (lambda: bounded_delay("5s", origin=3), "origin=3 is a int, not the name of a column"),
    (lambda: bounded_delay("5s", origin=""), "not the name of a column"),
    (lambda: bounded_delay("5s", origin="n", sequence="n"), "'n' is given as origin and as sequence"),
    (lambda: bounded_delay("5s", orign="o"), "no option 'orign'. Did you mean 'origin'"),
    (lambda: processing_time("5s", origin="o"), r"processing_time\(\) has no option 'origin'"),
    (lambda: no_watermark(idle_timeout="1m"), r"no_watermark\(\) has no option 'idle_timeout'"),
    (lambda: punctuated(None), "not the name of a column"),
]


@pytest.mark.parametrize(("build", "message"), REJECTED)
def test_a_mistake_is_rejected_when_it_is_written_down(build, message):
    with pytest.raises(PlanError, match=message):
        build()


def test_a_sequence_without_an_origin_is_fine():
    assert bounded_delay("5s", sequence="n").columns() == ("n",)


def test_none_means_that_an_option_is_not_given():
    assert bounded_delay("5s", origin=None, idle_timeout=None) == bounded_delay("5s")


def test_the_default_first_chunk_may_be_spelt_out():
    assert bounded_delay("5s", first_chunk=1) == bounded_delay("5s")


def test_strategies_are_values():
    assert bounded_delay("60s", origin="o") == bounded_delay(timedelta(minutes=1), origin="o")
    assert hash(bounded_delay("5s", origin="o", expect_origins=["a"])) == hash(
        bounded_delay("5s", origin="o", expect_origins=["a"])
    )


def test_lag_of_zero_is_as_ascending():
    rows = pl.DataFrame({"ts": [5, 9]})
    assert bounded_delay("0s").summarise(rows, "ts", 0).equals(ascending().summarise(rows, "ts", 0))


def test_expected_names_may_be_partition_numbers():
    assert bounded_delay("5s", origin="p", expect_origins=range(2)).options.expect_origins == ("0", "1")


def test_columns_are_named_once():
    strategy = punctuated("mark", origin="o", sequence="n", chunk="c", last_chunk="l")
    assert strategy.columns() == ("o", "n", "c", "l", "mark")


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (bounded_delay("5s"), "bounded delay 5s"),
        (ascending(watermark_key=3), "ascending, watermark key 3"),
        (processing_time("1m", max_future_skew="5s"), "processing time, 1m behind, at most 5s ahead of the clock"),
        (bounded_delay("5s", max_future_skew="1 day"), "bounded delay 5s"),
        (bounded_delay("5s", max_future_skew=None), "bounded delay 5s, any time ahead of the clock"),
        (punctuated("mark"), "punctuated by 'mark'"),
        (no_watermark(), "no watermark"),
        (
            bounded_delay(
                "5s",
                origin="o",
                sequence="n",
                chunk="c",
                last_chunk="l",
                gap_timeout="1h",
                idle_timeout="1m",
                on_return="catch_up",
                expect_origins=["a", "b"],
                origins_timeout="30s",
            ),
            "bounded delay 5s, per 'o', gap-free by 'n' in chunks 'c', gaps skipped after 1h, idle after 1m, origins "
            "that return are left out until they catch up, waits for 2 origins for at most 30s",
        ),
    ],
)
def test_a_strategy_is_described_in_one_line(strategy, words):
    assert strategy.describe() == words


SCHEMA = {"o": pl.String(), "n": pl.Int64(), "c": pl.Int32(), "l": pl.Boolean(), "mark": pl.Int64()}


def test_columns_of_the_right_types_are_accepted():
    punctuated("mark", origin="o", sequence="n", chunk="c", last_chunk="l").check(SCHEMA)


@pytest.mark.parametrize(
    ("column", "dtype", "message"),
    [
        ("o", pl.List(pl.Int64), "has no text form"),
        ("o", pl.Binary(), "has no text form"),
        ("n", pl.String(), "sequence column 'n' is String; it must hold whole numbers"),
        ("c", pl.Float64(), "chunk column 'c' is Float64; it must hold whole numbers"),
        ("l", pl.Int8(), "last_chunk column 'l' is Int8; it must be a boolean"),
    ],
)
def test_columns_of_wrong_types_are_rejected(column, dtype, message):
    strategy = bounded_delay("5s", origin="o", sequence="n", chunk="c", last_chunk="l")
    with pytest.raises(PlanError, match=message):
        strategy.check(SCHEMA | {column: dtype})


@pytest.mark.parametrize("strategy", [bounded_delay("5s", origin="mrak"), punctuated("mrak")])
def test_a_missing_column_is_rejected_with_a_hint(strategy):
    with pytest.raises(PlanError, match=r"no column 'mrak'.*Did you mean 'mark'"):
        strategy.check(SCHEMA)


@pytest.mark.parametrize(
    ("numbers", "declared", "faults"),
    [
        ([1, 2], [10, None], None),
        ([1, 0], [10, 20], [False, True]),
        ([1, None], [10, 20], [False, True]),
        ([1, 2], [10, 2**63 - 1], [False, True]),
        ([0, 2], [10, 2**63 - 1], [True, True]),
    ],
    ids=["none", "number too low", "number missing", "punctuation unusable", "one of each"],
)
def test_each_fault_alone_makes_a_row_unusable(numbers, declared, faults):
    rows = pl.DataFrame({"n": numbers, "wm": declared}, schema={"n": pl.Int64, "wm": pl.Int64})
    observed = punctuated("wm", sequence="n").faults(rows)
    assert (None if observed is None else observed.to_list()) == faults

"""Origins that are forgotten: when, what returns, and that state stays bounded."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from eventide.errors import PlanError
from eventide.plan.fingerprint_parts import strategy_text
from eventide.time import MIN
from eventide.watermarks import InputTracker, Watermark, ascending, bounded_delay, empty_summary


def us(micros: int) -> timedelta:
    return timedelta(microseconds=micros)


class Stream:
    """A tracker of origins ``o`` that are idle after 10 and forgotten after 160 microseconds."""

    def __init__(self, **options):
        settings = {"origin": "o", "idle_timeout": us(10), "forget_after": us(160)} | options
        self.strategy = ascending(**settings)
        self.tracker = InputTracker(self.strategy)

    def batch(self, now, **times):
        rows = [(name, at, n) for name, at in times.items() for at, n in [at if isinstance(at, tuple) else (at, 1)]]
        summary = empty_summary()
        if rows:
            frame = pl.DataFrame(rows, schema={"o": pl.String, "ts": pl.Int64, "n": pl.Int64}, orient="row")
            summary = self.strategy.summarise(frame, "ts", now)
        return self.tracker.advance(summary, now).time

    def origins(self):
        return self.tracker.metrics().origins

    def restarted(self):
        twin = object.__new__(Stream)
        twin.strategy, twin.tracker = self.strategy, InputTracker.restore(self.strategy, self.tracker.snapshot())
        return twin


def test_an_idle_origin_far_behind_the_watermark_is_forgotten():
    stream = Stream()
    assert stream.batch(0, a=100, b=100) == 100
    assert stream.batch(20, b=259) == 259
    assert stream.tracker.has_origin("a") and stream.origins() == 2
    assert stream.batch(30, b=270) == 270
    assert not stream.tracker.has_origin("a") and stream.tracker.forgotten_origins == ("a",)
    assert stream.origins() == 1 and stream.tracker.metrics().forgotten_origins == 1
    stream.batch(40, b=280)
    assert stream.tracker.forgotten_origins == () and stream.tracker.metrics().forgotten_origins == 0


def test_an_origin_that_the_watermark_waits_for_is_never_forgotten():
    stream = Stream(idle_timeout=us(10**6))
    stream.batch(0, a=100, b=100)
    assert stream.batch(1, b=10_000) == 100
    stream.tracker.advance(empty_summary(), 2, notes=[Watermark(0, 5_000)])
    assert stream.tracker.has_origin("a")


def test_old_rows_keep_an_origin_in_memory():
    stream = Stream()
    stream.batch(0, a=100, b=100)
    stream.batch(20, b=250)
    stream.batch(30, a=90, b=255)  # late, and a sign of life
    stream.batch(50, b=400)
    assert stream.tracker.has_origin("a")
    stream.batch(60, b=420)
    assert not stream.tracker.has_origin("a")


def test_an_origin_that_was_ahead_is_forgotten_by_its_own_time():
    stream = Stream()
    stream.batch(0, a=1_000, b=100)
    stream.batch(20, b=1_100)
    assert stream.tracker.has_origin("a")
    stream.batch(30, b=1_159)
    assert stream.tracker.has_origin("a")
    stream.batch(40, b=1_200)
    assert not stream.tracker.has_origin("a")


def test_a_forgotten_origin_that_returns_is_new():
    stream = Stream(sequence="n")
    stream.batch(0, a=(100, 1), b=(100, 1))
    stream.batch(20, b=(400, 2))
    assert not stream.tracker.has_origin("a")
    stream.batch(30, a=(390, 2), b=(500, 3))
    assert [(gap.origin, gap.first, gap.last) for gap in stream.tracker.metrics().gaps] == [("a", 1, 1)]
    assert stream.batch(31, a=(410, 1), b=(510, 4)) == 410  # it is waited for as every new origin


def test_a_retired_origin_is_forgotten_too():
    stream = Stream()
    stream.batch(0, a=100, b=100)
    stream.tracker.retire("a")
    stream.batch(1, b=400)
    assert not stream.tracker.has_origin("a")
    assert stream.tracker.snapshot()["retired"] == []


def test_numbers_that_were_seen_are_forgotten_with_their_origin():
    stream = Stream(sequence="n")
    stream.strategy = stream.strategy.deduplicating()
    stream.tracker = InputTracker(stream.strategy)
    stream.batch(0, a=(100, 1), b=(100, 1))
    asked = pl.DataFrame({"origin": ["a", "b"], "sequence": [1, 1]})
    assert stream.tracker.has_seen(asked).to_list() == [True, True]
    stream.batch(20, b=(400, 2))
    assert stream.tracker.has_seen(asked).to_list() == [False, True]


def test_while_nothing_is_active_nothing_is_forgotten():
    stream = Stream()
    stream.batch(0, a=100, b=100)
    assert stream.batch(20) == 100
    stream.tracker.advance(empty_summary(), 30, notes=[Watermark(0, 5_000)])
    assert stream.origins() == 2 and stream.tracker.idle


def test_a_number_is_given_again_and_nothing_of_its_last_origin_shows():
    stream = Stream()
    stream.batch(0, a=900, b=100)
    stream.batch(20, b=1_200)
    assert not stream.tracker.has_origin("a")
    assert stream.batch(21, b=1_300, c=1_250) == 1_250
    assert len(stream.tracker.snapshot()["origins"]) == 3
    assert stream.tracker.metrics().slowest == (("c", 1_250), ("b", 1_300))


def test_the_origin_without_a_name_is_forgotten_and_returns():
    stream = Stream()
    frame = pl.DataFrame({"o": [None, "b"], "ts": [100, 100]}, schema={"o": pl.String, "ts": pl.Int64})
    stream.tracker.advance(stream.strategy.summarise(frame, "ts", 0), 0)
    stream.batch(20, b=400)
    assert stream.tracker.forgotten_origins == (None,)
    assert stream.restarted().origins() == 1
    stream.tracker.advance(stream.strategy.summarise(frame, "ts", 21), 21)
    assert stream.origins() == 2


def test_a_restart_forgets_the_same():
    stream, restarted = Stream(), Stream()
    for step in range(200):
        names = {f"d{step}": 10 * step, f"d{step - 1}": 10 * step, "steady": 10 * step}
        assert stream.batch(20 * step, **names) == restarted.batch(20 * step, **names)
        assert stream.tracker.forgotten_origins == restarted.tracker.forgotten_origins
        restarted = restarted.restarted()
    assert repr(stream.tracker.snapshot()) == repr(restarted.tracker.snapshot())
    assert stream.origins() < 25


def test_a_copy_does_not_forget_with_its_twin():
    stream = Stream()
    stream.batch(0, a=100, b=100)
    twin = stream.tracker.copy()
    stream.batch(20, b=400)
    assert twin.has_origin("a") and not stream.tracker.has_origin("a")
    assert twin.metrics().origins == 2


def test_the_option_may_be_added_and_removed():
    stream = Stream(forget_after=None)
    stream.batch(0, a=100, b=100)
    stream.batch(20, b=400)
    forgetful = Stream()
    forgetful.tracker = InputTracker.restore(forgetful.strategy, stream.tracker.snapshot())
    forgetful.batch(30, b=410)
    assert forgetful.tracker.has_origin("a")  # since when it is idle is not known
    forgetful.batch(40, b=600)
    assert not forgetful.tracker.has_origin("a")
    again = InputTracker.restore(stream.strategy, forgetful.tracker.snapshot())
    assert not again.has_origin("a") and again.has_origin("b")
    assert strategy_text(stream.strategy) == strategy_text(forgetful.strategy)


def test_a_watermark_that_was_lowered_forgets_by_its_new_time():
    stream = Stream()
    stream.batch(0, a=1_000, b=1_000)
    stream.batch(20, b=1_100)
    stream.tracker.lower_to(Watermark(0, 500))
    assert stream.batch(21, b=600) == 600
    assert stream.tracker.has_origin("a")
    stream.batch(22, b=700)
    assert not stream.tracker.has_origin("a")


def test_nothing_is_forgotten_before_there_is_a_watermark():
    stream = Stream(expect_origins=["a", "b", "c"])
    stream.batch(0, a=100, b=100)
    assert stream.batch(500, b=5_000) == MIN
    assert stream.tracker.has_origin("a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idle_timeout": "1m"}, "forget_after needs origin"),
        ({"origin": "o"}, "forget_after needs idle_timeout: an origin that the watermark waits for is never forgotten"),
        (
            {"origin": "o", "idle_timeout": "1m", "forget_after": "0s"},
            "forget_after of bounded_delay.*longer than zero",
        ),
    ],
)
def test_a_mistake_is_rejected_when_the_strategy_is_built(options, message):
    with pytest.raises(PlanError, match=message):
        bounded_delay("1s", **{"forget_after": "30 days"} | options)


def test_explain_shows_it():
    strategy = bounded_delay("1s", origin="device", idle_timeout="1m", forget_after="30 days")
    assert strategy.describe() == "bounded delay 1s, per 'device', idle after 1m, idle origins forgotten after 30d"

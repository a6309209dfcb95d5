"""A test stream runs a pipeline step by step, and says clearly what came instead of what was expected."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import eventide as ev
from eventide.errors import EventideError
from eventide.plan import Pipeline
from eventide.testing import TestStream, pane, retraction
from eventide.time import MAX, MIN


def scores(watermark: object = None, lateness: str = "1 hour") -> Pipeline:
    return (
        ev.stream(time="ts", key="user", watermark=watermark or ev.no_watermark())  # type: ignore[arg-type]
        .window(ev.tumbling("2 minutes"))
        .trigger(
            ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness=lateness, mode="retracting"
        )
        .agg(total=ev.sum("score"))
    )


def row(ts: object, user: str | None = "a", score: int = 5) -> dict[str, object]:
    return {"ts": ts, "user": user, "score": score}


def failure(stream: TestStream, *panes: object) -> str:
    with pytest.raises(AssertionError) as raised:
        stream.expect(*panes)  # type: ignore[arg-type]
    return str(raised.value)


class TestInput:
    @pytest.mark.parametrize(
        "time",
        [
            "12:00:30",
            "1970-01-01T12:00:30Z",
            datetime(1970, 1, 1, 12, 0, 30, tzinfo=UTC),
            (12 * 3600 + 30) * 1_000_000,
        ],
    )
    def test_times_can_be_written_in_many_ways(self, time: object) -> None:
        TestStream(scores()).add(row(time)).expect(pane(window=("12:00", "12:02")))

    def test_a_day_is_that_of_short_times(self) -> None:
        stream = TestStream(scores(), day="2026-03-29").add(row("12:00:30"))
        stream.expect(pane(window=("2026-03-29T12:00", "2026-03-29T12:02")))
        assert stream.panes["window_start"][0] == datetime(2026, 3, 29, 12, tzinfo=UTC)

    def test_rows_of_one_add_are_one_bundle(self) -> None:
        TestStream(scores()).add(row("12:00"), row("12:01")).expect(pane(total=10))
        TestStream(scores()).add(row("12:00")).add(row("12:01")).expect(
            pane(total=5), retraction(total=5), pane(total=10)
        )

    def test_a_bundle_can_be_a_frame(self) -> None:
        frame = pl.DataFrame({"ts": [0], "user": ["a"], "score": [5]})
        TestStream(scores()).add(frame).expect(pane(window=("00:00", "00:02"), total=5))
        TestStream(scores()).add(frame.to_arrow()).expect(pane(total=5))

    def test_a_watermark_can_be_passed_with_the_rows(self) -> None:
        TestStream(scores()).add(row("12:00"), watermark="12:02").expect(pane(total=5, pane_timing="ON_TIME"))

    def test_a_watermark_before_the_first_rows_counts(self) -> None:
        stream = TestStream(scores(lateness="1 minute")).advance_watermark("13:00").expect_nothing().add(row("12:00"))
        stream.expect_late({"ts": "12:00"}).expect_nothing()

    def test_missing_values_are_null(self) -> None:
        TestStream(scores()).add(row("12:00"), {"ts": "12:00", "score": 1}).expect(pane(user="a"), pane(user=None))

    def test_rows_that_do_not_fit_are_rejected(self) -> None:
        stream = TestStream(scores()).add(row("12:00"))
        with pytest.raises(EventideError, match="Did you mean 'user'"):
            stream.add({"ts": "12:00", "usr": "a"})
        with pytest.raises(EventideError, match="the column 'score'"):
            stream.add(row("12:00", score="many"))  # type: ignore[arg-type]
        with pytest.raises(EventideError, match="add rows as dicts"):
            TestStream(scores()).add([row("12:00")])

    def test_a_schema_gives_types_that_rows_do_not_show(self) -> None:
        stream = TestStream(scores(), schema={"score": pl.Float64}).add(row("12:00"))
        assert stream.panes.schema["total"] == pl.Float64


class TestClock:
    def test_it_begins_at_midnight_of_the_day(self) -> None:
        TestStream(scores(), day="2026-03-29").add(row("12:00")).expect(pane(emitted_at="2026-03-29T00:00"))

    def test_a_bundle_can_have_a_batch_time(self) -> None:
        TestStream(scores(), clock="12:05").add(row("12:00"), at="12:06:30").expect(pane(emitted_at="12:06:30"))

    def test_it_does_not_go_back(self) -> None:
        with pytest.raises(EventideError, match="is at 12:05 and cannot go back to 12:04"):
            TestStream(scores(), clock="12:05").add(row("12:00"), at="12:04")

    def test_time_that_passes_fires_triggers(self) -> None:
        slow = (
            ev.stream(time="ts")
            .window(ev.tumbling("1 hour"))
            .trigger(ev.every("10 seconds"), mode="discarding")
            .agg(n=ev.count())
        )
        stream = TestStream(slow).add({"ts": "12:00"}).advance_processing_time("9 seconds").expect_nothing()
        stream.advance_processing_time(timedelta(seconds=1)).expect(pane(n=1, emitted_at="00:00:10"))
        stream.add({"ts": "12:00"}).idle(to="00:01").expect(pane(n=1, emitted_at="00:01"))

    def test_only_polled_time_makes_origins_idle(self) -> None:
        two = scores(ev.ascending(origin="user", idle_timeout="2 minutes"))
        stream = TestStream(two).add(row("12:00", "a"), row("12:30", "b")).ignore()
        stream.advance_processing_time("1 hour").expect_watermark("12:00")
        stream.idle("2 minutes").expect_watermark("12:30")

    def test_say_how_long_or_until_when(self) -> None:
        with pytest.raises(EventideError, match="not both"):
            TestStream(scores()).idle()


class TestExpectations:
    def test_all_panes_since_the_last_expectation_count(self) -> None:
        stream = TestStream(scores()).add(row("12:00")).add(row("12:02")).expect(pane(total=5), pane(total=5))
        stream.expect_nothing()
        assert "1 unexpected" in failure(stream.add(row("12:04")))

    def test_only_named_fields_are_compared(self) -> None:
        stream = TestStream(scores()).add(row("12:00"))
        assert "total is 5, not 6" in failure(stream, pane(total=6))
        stream.expect(pane(pane_timing="EARLY"))

    def test_a_failed_expectation_leaves_everything_to_the_next(self) -> None:
        stream = TestStream(scores()).add(row("12:00"))
        failure(stream)
        stream.expect(pane(total=5)).expect_nothing()

    def test_every_field_of_a_pane_can_be_named(self) -> None:
        TestStream(scores()).add(row("12:00")).advance_watermark("12:02").ignore().add(row("12:01"), at="00:05").expect(
            retraction(pane_timing="ON_TIME", pane_index=1, pane_nonspeculative_index=0, pane_is_first=False, total=5,
                       emitted_at="00:05"),
            pane(pane_timing="LATE", pane_index=2, pane_nonspeculative_index=1, pane_is_first=False, pane_is_last=False,
                 total=10, emitted_at="00:05", window_time="12:01:59.999999", window_start="12:00", window_end="12:02"),
        )  # fmt: skip

    def test_a_pane_is_no_retraction(self) -> None:
        assert "diff is -1, not 1" not in failure(TestStream(scores()).add(row("12:00")), retraction(total=5))

    def test_an_unknown_field_is_rejected(self) -> None:
        with pytest.raises(EventideError, match=r"pane\(totl=…\): there is no field 'totl'. Did you mean 'total'"):
            TestStream(scores()).add(row("12:00")).expect(pane(totl=5))

    def test_approximate_values_can_be_expected(self) -> None:
        third = ev.stream(time="ts").window(ev.tumbling("2 minutes")).agg(m=ev.mean("v"))
        stream = TestStream(third).add({"ts": "12:00", "v": 1}, {"ts": "12:00", "v": 0}, {"ts": "12:00", "v": 0}).end()
        stream.expect(pane(m=pytest.approx(1 / 3)))

    def test_late_rows_and_dead_letters(self) -> None:
        stream = TestStream(scores(lateness="1 minute")).add(row("12:10"), watermark="12:10").ignore()
        stream.add(row("12:00", score=1), row(None, score=2))
        with pytest.raises(AssertionError, match="1 missing, 1 unexpected"):
            stream.expect_late({"score": 3})
        with pytest.raises(AssertionError, match="reason is null_time, not future"):
            stream.expect_dead({"score": 2}, reason="future")
        stream.expect_late({"score": 1, "ev_watermark": "12:10"}).expect_dead({"score": 2}, reason="null_time")
        stream.expect_nothing()

    def test_the_watermark(self) -> None:
        stream = (
            TestStream(scores(ev.bounded_delay("1 minute")))
            .expect_watermark(None)
            .add(row("12:10"))
            .expect_watermark("12:09")
        )
        with pytest.raises(AssertionError, match="is 12:09, not 12:10"):
            stream.expect_watermark("12:10")
        assert stream.end().watermark_us == MAX

    def test_nothing_follows_the_end(self) -> None:
        stream = TestStream(scores()).add(row("12:00")).end()
        with pytest.raises(EventideError, match="the stream has ended"):
            stream.add(row("12:00"))

    def test_a_context_checks_that_nothing_is_left(self) -> None:
        with pytest.raises(AssertionError, match="1 unexpected"), TestStream(scores()) as stream:
            stream.add(row("12:00"))

    def test_a_strict_stream_wants_everything_expected_before_the_next_input(self) -> None:
        stream = TestStream(scores(), strict=True).add(row("12:00"))
        with pytest.raises(AssertionError, match="1 unexpected"):
            stream.add(row("12:00"))
        stream = TestStream(scores(), strict=True).add(row(None))
        with pytest.raises(AssertionError, match="No dead letters expected, 1 received"):
            stream.advance_watermark("12:00")


class TestReport:
    def test_it_reports_the_received_rows_and_the_history(self) -> None:
        stream = TestStream(scores(lateness="1 minute"), clock="12:05").add(row("12:00:30"), row("12:01", "b", 3))
        stream.expect(pane(user="a"), pane(user="b"))
        stream.add(row("12:01:30", score=2), at="12:06").advance_watermark("12:03").add(row("12:00"), row(None, "z"))
        report = failure(
            stream,
            retraction(user="a", total=5),
            pane(user="a", total=7),
            pane(user="a", total=8, pane_timing="ON_TIME", emitted_at="12:09"),
            pane(user="c"),
        )
        assert report == Path(__file__).with_name("report.txt").read_text(encoding="utf-8").rstrip("\n")

    def test_big_bundles_are_shortened(self) -> None:
        stream = TestStream(scores()).add(*(row("12:00") for _ in range(100)))
        assert "… and 89 more" in failure(stream)


class TestChain:
    def test_each_pipeline_gets_the_panes_of_the_one_before(self) -> None:
        everyone = (
            ev.stream(time="window_time")
            .window(ev.inherit())
            .trigger(
                ev.after_watermark(early=ev.on_update(), late=ev.on_update()),
                allowed_lateness="1 hour",
                mode="retracting",
            )
            .agg(all=ev.sum("total"))
        )
        stream = (
            TestStream(scores().then(everyone))
            .add(row("12:00", "a"), row("12:00", "b", 3))
            .expect(pane(all=8, pane_index=0))
        )
        stream.add(row("12:01", "b", 1)).expect(retraction(all=8), pane(all=9, pane_index=1))


class TestTimeline:
    def test_it_shows_rows_and_their_fate_watermarks_and_panes(self) -> None:
        stream = TestStream(scores(lateness="1 minute"), clock="12:05").add(row("12:00", score=5), watermark="12:04")
        stream.add(row("12:00", score=6), row("12:04:30", score=7), at="12:06").add(row(None, score=8))
        timeline = stream.timeline()
        assert [(event.label, event.fate) for event in timeline.events] == [
            ("5", "window"),
            ("6", "late"),
            ("7", "window"),
        ]
        minute = 60_000_000
        assert timeline.watermarks == ((725 * minute, MIN), (725 * minute, 724 * minute))
        assert [(pane.key, pane.label, pane.timing, pane.diff) for pane in timeline.panes] == [
            ("a", "5", "ON_TIME", 1),
            ("a", "7", "EARLY", 1),
        ]

    def test_a_picture_is_written(self, tmp_path: Path) -> None:
        TestStream(scores()).add(row("12:00")).picture(tmp_path / "it.html", title="One row")
        assert "<h1>One row</h1>" in (tmp_path / "it.html").read_text(encoding="utf-8")

    def test_windows_counted_in_rows_have_none(self) -> None:
        by_row = ev.stream(time="ts").window(ev.rows(2)).agg(n=ev.count())
        stream = TestStream(by_row).add({"ts": "12:00"}, {"ts": "12:01"}).expect(pane(window=(1, 3), n=2))
        with pytest.raises(EventideError, match="these windows count rows"):
            stream.timeline()


def test_counts_are_of_all_bundles() -> None:
    stream = TestStream(scores(lateness="1 minute")).add(row("12:10"), watermark="12:10").add(row("12:00"), row(None))
    assert (stream.counts.rows, stream.counts.kept, stream.counts.late, stream.counts.dead) == (
        3, 1, 1, {"null_time": 1},
    )  # fmt: skip


SIDE = ev.stream(time="ts", key="user", watermark=ev.ascending())
NEAR = ev.join(SIDE, SIDE, within="5 minutes", how="left")
TYPES = {"ts": pl.Datetime("us", "UTC"), "user": pl.String}
SCHEMAS = {"left": TYPES, "right": TYPES}


def test_rows_of_several_inputs_are_added_by_name() -> None:
    stream = TestStream(NEAR).add(left=[{"ts": "12:00", "user": "a"}], right={"ts": "12:03", "user": "a"})
    stream.expect(pane(user="a", ts="12:00", ts_right="12:03")).expect_watermark("12:00")
    stream.add(left=[{"ts": "12:10", "user": "b"}]).expect_nothing()
    stream.advance_watermark("12:16", key="right").expect(pane(user="b", ts_right=None))
    stream.end("left").expect_nothing()
    stream.end().expect_nothing()


def test_late_rows_and_dead_letters_of_several_inputs_name_their_input() -> None:
    stream = TestStream(NEAR, schema=SCHEMAS).add(left=[{"ts": "12:10", "user": "a"}])
    stream.add(left=[{"ts": "12:00", "user": "b"}], right=[{"ts": None, "user": "c"}])
    stream.expect_late({"ev_input": "left", "ts": "12:00", "user": "b"})
    stream.expect_dead({"ev_input": "right", "user": "c"}, reason="null_time").expect_nothing()


def test_the_history_shows_the_input_of_each_row_and_what_became_of_it() -> None:
    stream = TestStream(NEAR, schema=SCHEMAS).add(left=[{"ts": "12:10", "user": "a"}])
    stream.add(left=[{"ts": "12:00", "user": "b"}], right=[{"ts": None, "user": "c"}])
    with pytest.raises(AssertionError) as failure:
        stream.expect_late()
    message = str(failure.value)
    assert "left 12:00 b" in message and "late left 12:00 b" in message and "dead null_time right null c" in message


def test_rows_of_several_inputs_without_a_name_are_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"\.add\(left=\[\{…\}\], right=\[\{…\}\]\)"):
        TestStream(NEAR).add({"ts": "12:00", "user": "a"})
    with pytest.raises(ev.PlanError, match=r"there is no such input. There are: 'left', 'right'"):
        TestStream(NEAR).add(middle=[{"ts": "12:00", "user": "a"}])
    with pytest.raises(ev.PlanError, match="this pipeline has one input"):
        TestStream(SIDE.window(ev.tumbling("1 minute")).agg(n=ev.count())).add(left=[{"ts": "12:00", "user": "a"}])
    with pytest.raises(ev.PlanError, match=r"several inputs. Write schema="):
        TestStream(NEAR, schema={"ts": pl.Int64})

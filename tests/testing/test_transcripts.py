"""Transcript files are checked when they are read, rejected with a hint, and fail with a report."""

import json
from pathlib import Path

import jsonschema
import pytest

from eventide.errors import EventideError
from eventide.testing.transcripts import load, loads, run, schema
from eventide.testing.transcripts.text_format import read_document, read_pane, read_row

GOOD = """\
name: a window is complete when the watermark reaches its end
pipeline: {key: user, window: tumbling 2 minutes, agg: {total: sum score}}
columns: ts user score
steps:
  - add: |
      12:00:30 a 5
      12:01:30 a 2
  - watermark: 12:02
    expect: + a [12:00, 12:02) total=7 ON_TIME#0
"""


def rejection(text: str) -> str:
    with pytest.raises(EventideError) as raised:
        loads(text, name="story.yaml")
    return str(raised.value)


def failure(text: str) -> str:
    (transcript,) = loads(text, name="story.yaml")
    with pytest.raises(AssertionError) as raised:
        run(transcript)
    return str(raised.value)


def test_a_file_is_read_and_run(tmp_path: Path) -> None:
    (tmp_path / "story.yaml").write_text(GOOD, encoding="utf-8")
    (transcript,) = load(tmp_path / "story.yaml")
    stream = run(transcript)
    assert stream is not None
    assert stream.panes["total"].to_list() == [7]


class TestForm:
    def test_the_schema_is_valid_and_shipped(self) -> None:
        jsonschema.Draft202012Validator.check_schema(schema())
        json.dumps(schema())

    @pytest.mark.parametrize(
        ("wrong", "right", "message"),
        [
            ("pipline:", "pipeline:", "story.yaml:1: there is no 'pipline' here. Did you mean 'pipeline'?"),
            ("window: tumblng", "window: tumbling", "story.yaml:2: the pipeline of"),
            ("window: tumblng", "window: tumbling", "there is no 'tumblng'. Did you mean 'tumbling'?"),
            ("sum scroe", "sum score", "scroe"),
            ("watermak: 12:02", "watermark: 12:02", "story.yaml:8: at steps.1: there is no 'watermak' here. Did you"),
            ("12:01:30 a", "12:01:30 a 2", "story.yaml:7: '12:01:30 a' has 2 values, but there are 3 columns"),
            ("expect: a [12:00", "expect: + a [12:00", "a pane begins with '+ ', a retraction with '- '"),
            ("total=7 ON TIME", "total=7 ON_TIME#0", "story.yaml:9: '+ a [12:00, 12:02) total=7 ON TIME': 'ON'"),
            ("expect: + [12:00", "expect: + a [12:00", "after the sign, write 'user [start, end)'"),
            ("watermark: [12]", "watermark: 12:02", "at steps.1.watermark: [12] does not fit. Write a time"),
            ("name: [", "name: a", "story.yaml:2: this is not YAML"),
            ("columns: ts user score\ncolumns: ts", "columns: ts user score", "story.yaml:4: the key 'columns' occurs"),
            ("steps: 5\nday: 12\n", "steps:", "story.yaml"),
        ],
    )  # fmt: skip
    def test_a_mistake_is_rejected_with_its_place_and_advice(self, wrong: str, right: str, message: str) -> None:
        assert GOOD.count(right) == 1 or right in ("steps:", "name: a", "12:01:30 a 2")
        text = GOOD.replace(right, wrong, 1)
        if wrong == "sum scroe":
            with pytest.raises(EventideError, match=message):
                run(loads(text)[0])
            return
        assert message in rejection(text)

    def test_a_transcript_needs_steps_or_a_rejection(self) -> None:
        assert "A transcript needs a `name`, and `steps`" in rejection("name: nothing")

    def test_modes_are_checked(self) -> None:
        assert "Did you mean 'retracting'?" in rejection(GOOD.replace("agg:", "mode: retractng, agg:"))


class TestYaml:
    def test_times_are_text_and_words_are_words(self) -> None:
        content = read_document("[12:00, 12:00:30, on, yes, 2026-03-29, 5, -1.5, true, null, ~]", "x").content
        assert content == ["12:00", "12:00:30", "on", "yes", "2026-03-29", 5, -1.5, True, None, None]

    def test_rows_may_be_lists_or_mappings(self) -> None:
        rows = "[[12:00:30, a, 5], {ts: 12:01:30, user: a, score: 2}]"
        block = "|\n      12:00:30 a 5\n      12:01:30 a 2"
        assert block in GOOD
        run(loads(GOOD.replace(block, rows))[0])

    def test_what_a_file_says_holds_for_all_its_transcripts(self) -> None:
        text = """\
columns: ts user score
pipeline: {key: user, window: tumbling 2 minutes, agg: {total: sum score}}
transcripts:
  - name: one
    steps: [{add: 12:00 a 5}]
  - name: two
    pipeline: {window: tumbling 1 hour}
    steps: [{add: 12:00 a 5}, {watermark: end, expect: "+ a [12:00, 13:00) total=5"}]
"""
        first, second = loads(text)
        assert first.pipeline.plan.key == second.pipeline.plan.key == ("user",)
        run(second)


class TestLines:
    def test_values_are_typed(self) -> None:
        row = read_row("12:00 'two words' 5 2.5 true null [12:00, 12:02)", list("abcdefg"))
        assert list(row.values()) == ["12:00", "two words", 5, 2.5, True, None, ("12:00", "12:02")]

    def test_an_apostrophe_inside_a_word_is_a_letter(self) -> None:
        assert read_row("it's 5", ["a", "b"]) == {"a": "it's", "b": 5}

    def test_a_pane_with_everything(self) -> None:
        pane = read_pane("+ a null [-∞, +∞) words=[x, y] LATE#3 first last emitted_at=12:05", ["k", "l"])
        assert pane.fields == {
            "k": "a", "l": None, "window": ("-∞", "+∞"), "words": ["x", "y"], "pane_timing": "LATE",
            "pane_index": 3, "pane_is_first": True, "pane_is_last": True, "emitted_at": "12:05",
        }  # fmt: skip


class TestFailures:
    def test_a_wrong_value_is_reported_as_by_a_test_stream(self) -> None:
        message = failure(GOOD.replace("total=7", "total=8"))
        assert message.startswith(
            "story.yaml:8: 'a window is complete when the watermark reaches its end'\n1 pane expected"
        )
        assert "total is 7, not 8" in message
        assert "12:00:30 a 5" in message

    @pytest.mark.parametrize(
        ("before", "after", "message"),
        [
            ("    expect: + a [12:00, 12:02) total=7 ON_TIME#0\n", "", "No panes expected, 1 received"),
            ("ON_TIME#0", "ON_TIME#1", "pane_index is 0, not 1"),
            ("ON_TIME#0", "ON_TIME#0 pane_is_last=false", "pane_is_last is true, not false"),
            ("+ a", "+ b", "user is a, not b"),
            ("ON_TIME#0", "ON_TIME#0\n    reaches: 12:03", "is 12:02, not 12:03"),
            ("ON_TIME#0", "ON_TIME#0\n    counts: {rows: 3}", "rows is 2, not 3"),
            ("ON_TIME#0", "ON_TIME#0\n    late: 12:00 a 1", "1 late row expected, 0 received"),
            ("ON_TIME#0", "ON_TIME#0\n    dead: future 12:00 a 1", "1 dead letter expected, 0 received"),
            ("ON_TIME#0", "ON_TIME#0\n    fails: broken", "was expected to stop with a message that contains 'broken'"),
            ("ON_TIME#0", "ON_TIME#0\n  - add: null a 1", "No dead letters expected, 1 received"),
            ("ON_TIME#0", "ON_TIME#0\n  - add: 12:00 a 1", "No late rows expected, 1 received"),
            ("\nsteps:", "\nrejected: no\nsteps:", "was expected to be rejected, but was accepted"),
        ],
    )
    def test_a_wrong_expectation_fails(self, before: str, after: str, message: str) -> None:
        assert before in GOOD
        assert message in failure(GOOD.replace(before, after))

    def test_a_rejection_must_say_the_right_thing(self) -> None:
        text = GOOD.replace("agg:", "allowed_lateness: 1 mintue, agg:").replace("\nsteps:", "\nrejected: {}\nsteps:")
        run(loads(text.replace("{}", "Did you mean 'minute'"))[0])
        assert "the message was expected to contain 'elephant'" in failure(text.replace("{}", "elephant"))

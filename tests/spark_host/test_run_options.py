"""Options of ``run`` are checked before its rows, and its rows before anything is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import eventide as ev
from eventide.spark.dataflow import input_rows

STREAM = ev.stream(time="ts", watermark="1 second")
PIPELINE = STREAM.window(ev.tumbling("1 minute")).agg(n=ev.count())
OPTIONS: dict[str, tuple[Any, str]] = {
    "drain": ("no", "run(drain='no'): give True or False"),
    "available_now": (1, "run(available_now=1): give True or False"),
    "wait": ("10 seconds", "run(wait='10 seconds'): give True or False"),
    "whole_rows": (None, "run(whole_rows=None): give True or False"),
    "source_position": ("row", "run(source_position='row'): give True or False"),
    "single_writer": ("yes", "run(single_writer='yes'): give True or False"),
    "interval": ("-5 seconds", "interval of run()='-5 seconds' must not be negative"),
    "state": ("drivers", "state is kept in the 'driver' or on the 'executors'"),
    "state_memory": (-1, "run(state_memory=-1) is not a size"),
    "on_missing_file": ("ignore", "on_missing_file is one of 'fail', 'skip', not 'ignore'"),
    "name": (3, "run(name=3): give the query a name"),
    "on_batch": (3, "run(on_batch=3): give a function"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_wrong_value_of_an_option_is_rejected_before_the_rows_are_read(option: str) -> None:
    value, message = OPTIONS[option]
    options: dict[str, Any] = {"sink": "noop", "checkpoint": "checkpoint", option: value}
    with pytest.raises(ev.PlanError) as rejected:
        PIPELINE.run("data/nowhere/", **options)
    assert message in str(rejected.value)


def test_rows_of_several_sources_need_a_pipeline_with_several_inputs() -> None:
    rows: Any = [SimpleNamespace(isStreaming=True)] * 2
    with pytest.raises(ev.PlanError, match=r"one input, but rows of 2 were given.*unionByName.*ev\.union\("):
        input_rows(PIPELINE.plan, rows)
    both = ev.union(STREAM, STREAM).window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert input_rows(both.plan, rows) == rows


def test_addresses_in_a_list_are_read_like_a_single_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from eventide.spark import sources

    monkeypatch.setattr(sources, "_stream_at", lambda address: f"rows of {address}")
    assert sources.read_rows(["a/", "b/"]) == ["rows of a/", "rows of b/"]  # type: ignore[comparison-overlap,arg-type]

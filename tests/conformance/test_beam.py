"""Apache Beam's trigger transcripts and trigger unit tests, run on Eventide.

The suite is data outside this repository: next to it in ``../shared``, or where ``EVENTIDE_CONFORMANCE`` says. Times
are whole seconds, a row's value is its time, windows are written with their last second: [0, 10) is [0, 9]. Where
Eventide differs on purpose, ``DIFFERENCES`` says in what and why, and a test makes sure that it still does;
docs/design/beam.md is its mirror.
"""

import json
import os
import random
import re
from collections import defaultdict
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import eventide as ev
from eventide.plan import Pipeline
from eventide.testing.expectations import pair
from eventide.testing.hosts import LocalHost, StartHost
from tests.driver.harness import DriverHost
from tests.spark.harness import PagesHost

ROOT = Path(__file__).parents[2]
SUITE = Path(os.environ.get("EVENTIDE_CONFORMANCE", ROOT.parent / "shared" / "conformance" / "beam_transcripts.json"))
SECOND = 1_000_000
FAR = 10**9 * SECOND  # after every window of the suite; MAX would drain the stream
FOREVER = "100000000 hours"


class Difference(NamedTuple):
    field: str  # what differs
    reason: str


DIFFERENCES = {
    "timestamp_combiner_earliest_separate_bundles": Difference(
        "final",
        "Without lateness, a window expires in the step that completes it, so its on-time pane is the last.",
    ),
    "timestamp_combiner_custom_timestamping_earliest_1": Difference(
        "timestamp",
        "A kind of window only assigns windows: it cannot move the output time of a pane.",
    ),
}

if SUITE.exists():
    CONTENT = json.loads(SUITE.read_text(encoding="utf-8"))
else:
    CONTENT = {"cases": [], "historic_cases": [], "unit_cases": []}
    pytest.skip(
        f"Beam's suite is not here: {SUITE} does not exist. Set EVENTIDE_CONFORMANCE to its path.",
        allow_module_level=True,
    )

CASES = {case["id"]: case for case in (*CONTENT["cases"], *CONTENT["historic_cases"])}
UNIT_CASES = {case["id"]: case for case in CONTENT["unit_cases"]}
ERRORS = [id_ for id_, case in CASES.items() if case["expected_error_regex"]]
SEMANTIC = [id_ for id_ in CASES if id_ not in ERRORS and id_ not in DIFFERENCES]
ORDER_AGNOSTIC = [
    id_
    for id_ in SEMANTIC
    if CASES[id_]["trigger_fn"] == "Default" and CASES[id_]["accumulation_mode"] == "accumulating"
]


# Beam's words in ours.


def trigger(parsed: dict[str, Any]) -> Any:
    args = [trigger(arg) if isinstance(arg, dict) else arg for arg in parsed["args"]]
    options = {name: trigger(value) for name, value in parsed["kwargs"].items()}
    words = {
        "Default": lambda: ev.repeatedly(ev.after_watermark()),
        "AfterWatermark": ev.after_watermark,
        "AfterCount": ev.after_count,
        "Repeatedly": ev.repeatedly,
        "AfterAny": ev.any_of,
        "AfterAll": ev.all_of,
        "AfterEach": ev.in_order,
    }
    return words[parsed["fn"]](*args, **options)


def window(parsed: dict[str, Any]) -> Any:
    if parsed["fn"] == "GlobalWindows":
        return ev.global_window()
    size = f"{parsed['args'][0]} seconds"
    # Beam's custom window function differs from its fixed windows in the output time only (see DIFFERENCES).
    if parsed["fn"] in ("FixedWindows", "CustomTimestampingFixedWindowsWindowFn"):
        return ev.tumbling(size)
    assert parsed["fn"] == "Sessions", parsed
    return ev.sessions(size, touching="split")


def pipeline(case: dict[str, Any]) -> Pipeline:
    times = {"OUTPUT_AT_EOW": "end", "OUTPUT_AT_EARLIEST": "earliest", "OUTPUT_AT_LATEST": "latest"}
    lateness = case["allowed_lateness"]
    stream = (
        ev.stream(time="ts")
        .window(window(case["window_fn_parsed"]), output_time=times.get(case["timestamp_combiner"], "earliest"))
        .trigger(
            trigger(case["trigger_fn_parsed"]),
            allowed_lateness=FOREVER if lateness == "MAX" else f"{lateness} seconds",
            mode=case["accumulation_mode"],
            may_lose_data=True,
        )
    )
    return stream.agg(values=ev.collect_list("v"))


class Driver:
    """Plays actions, and keeps the panes that nobody has expected yet in Beam's words."""

    def __init__(self, pipeline: Pipeline, dtype: Any, start: StartHost = LocalHost) -> None:
        self._schema = {"ts": pl.Int64(), "v": dtype()}
        self._host = start(pipeline, self._schema)
        self.panes: list[dict[str, Any]] = []

    def bundle(self, rows: list[tuple[int, Any]]) -> None:
        self._push([(time * SECOND, value) for time, value in rows], None)

    def watermark(self, to: int) -> None:
        self._push([], to)

    def expect(self, expected: list[dict[str, Any]]) -> None:
        def fits(wanted: dict[str, Any], came: dict[str, Any]) -> bool:
            return all(came[name] == value for name, value in wanted.items())

        pairing = pair(expected, self.panes, fits)
        assert not pairing.missing, f"Unmatched output: {pairing.missing} among {self.panes}"
        self.panes = list(pairing.unexpected)

    def check_empty(self) -> None:
        assert not self.panes, f"Unexpected output: {self.panes}"

    def _push(self, rows: list[tuple[int, Any]], watermark: int | None) -> None:
        frame = pl.DataFrame(rows, schema=self._schema, orient="row")
        came = self._host.bundle(frame, now=0, watermark=watermark, polled=True)
        self.panes += [self._in_beams_words(row) for row in self._micros(came.panes).to_dicts()]

    @staticmethod
    def _micros(panes: pl.DataFrame) -> pl.DataFrame:
        return panes.with_columns(pl.col("window_start", "window_end", "window_time").to_physical())

    @staticmethod
    def _in_beams_words(row: dict[str, Any]) -> dict[str, Any]:
        bounded = row["window_start"] is not None
        return {
            "window": [row["window_start"] // SECOND, (row["window_end"] - 1) // SECOND] if bounded else ["-∞", "+∞"],
            "bounds": (row["window_start"] // SECOND, row["window_end"] // SECOND) if bounded else None,
            "values": sorted(row["values"] or []),
            "timestamp": row["window_time"] // SECOND if row["window_time"] is not None else None,
            "index": row["pane_index"],
            "nonspeculative_index": row["pane_nonspeculative_index"],
            "early": row["pane_timing"] == "EARLY",
            "late": row["pane_timing"] == "LATE",
            "final": row["pane_is_last"],
        }


def play(case: dict[str, Any], start: StartHost = LocalHost, *, ignore: str | None = None, split: Any = None) -> None:
    driver = Driver(pipeline(case), pl.Int64, start)
    for step in case["transcript"]:
        action, params = step["action"], step["params"]
        if action == "expect":
            driver.expect([{k: v for k, v in wanted.items() if k != ignore} for wanted in params])
            continue
        driver.check_empty()
        if action == "input":
            for bundle in split(params) if split else [params]:
                driver.bundle([(time, time) for time in bundle])
        elif action == "watermark":
            driver.watermark(params * SECOND)
        else:
            assert action == "state", f"Beam's {action!r} is not known here"  # Beam's own harnesses ignore it too
    driver.check_empty()


def cut(rows: list[Any], size: int) -> list[list[Any]]:
    """Bundles of ``size``; a negative one takes the rows in reverse."""
    rows = rows if size > 0 else rows[::-1]
    return [rows[i : i + abs(size)] for i in range(0, len(rows), abs(size))]


SPLITS = {
    "reversed": lambda rows: [rows[::-1]],
    "shuffled": lambda rows: [random.Random(2).sample(rows, len(rows))],
    "bundles of 1": lambda rows: cut(rows, 1),
    "bundles of 2": lambda rows: cut(rows, 2),
}


@pytest.fixture(params=["process", "driver", pytest.param("executors", marks=pytest.mark.long)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> StartHost:
    """One process, or the stages of a query on Spark with state in either place."""
    fates = cycle(["", "restart", "repeat"])
    hosts: dict[str, StartHost] = {
        "process": LocalHost,
        "driver": partial(DriverHost, tmp_path, fate=lambda: next(fates)),
        "executors": partial(PagesHost, buckets=2, tasks=2),
    }
    return hosts[request.param]


@pytest.mark.parametrize("case", SEMANTIC)
def test_transcript(case: str, start: StartHost) -> None:
    play(CASES[case], start)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("case", ORDER_AGNOSTIC)
def test_order_and_bundles_do_not_matter(case: str, split: str) -> None:
    play(CASES[case], split=SPLITS[split])


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_expectations_are_noticed(case: str) -> None:
    with pytest.raises(AssertionError) as raised:
        play(CASES[case])
    assert re.search(CASES[case]["expected_error_regex"], str(raised.value))


def play_unit(case: dict[str, Any], size: int, start: StartHost) -> dict[Any, list[set[str]]]:
    driver = Driver(pipeline(case), pl.String, start)
    for bundle in cut(case["data"], size):
        driver.bundle([tuple(row) for row in bundle])
    driver.watermark(FAR)
    for bundle in cut(case["late_data"], size):
        driver.bundle([tuple(row) for row in bundle])
    came: dict[Any, list[set[str]]] = defaultdict(list)
    for pane in driver.panes:
        came[pane["bounds"]].append(set(pane["values"]))
    return came


def expected_panes(case: dict[str, Any]) -> dict[Any, list[set[str]]]:
    return {tuple(window["window"]): [set(values) for values in window["panes"]] for window in case["expected_panes"]}


@pytest.mark.parametrize(
    ("case", "size"),
    [(id_, size) for id_, case in UNIT_CASES.items() for size in case["bundle_sizes"]],
)
def test_unit_case(case: str, size: int, start: StartHost) -> None:
    assert play_unit(UNIT_CASES[case], size, start) == expected_panes(UNIT_CASES[case])


@pytest.mark.parametrize("case", list(DIFFERENCES))
def test_difference_is_real_and_the_only_one(case: str) -> None:
    with pytest.raises(AssertionError, match="Unmatched output"):
        play(CASES[case])
    play(CASES[case], ignore=DIFFERENCES[case].field)


def test_differences_are_documented() -> None:
    page = (ROOT / "docs" / "design" / "beam.md").read_text(encoding="utf-8")
    for case, difference in DIFFERENCES.items():
        row = next((line for line in page.splitlines() if line.startswith(f"| `{case}` |")), "")
        assert difference.reason in row, f"docs/design/beam.md does not tell the difference of {case}"

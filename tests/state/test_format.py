"""The stored format: what is written is read, golden states stay readable, and other bytes are rejected."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide._formats import FORMATS
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.state.format import StateHeader, dump, load
from tests.state.golden import PLANS, continue_from, operator_of, read

REWRITE = "If this format is not released yet, rewrite the golden states: python -m tests.state.golden"
BODY = dump({"kind": "head"})


def test_every_stored_format_has_its_first_number() -> None:
    assert set(FORMATS.values()) == {1}


@pytest.mark.parametrize("name", PLANS)
def test_a_golden_state_that_was_saved_whole_is_read(name: str) -> None:
    golden = read(name)
    operator, state = WindowedAggregate.load(PLANS[name]().plan, golden.whole)
    assert continue_from(operator, state) == golden.output, REWRITE


@pytest.mark.parametrize("name", PLANS)
def test_a_golden_state_in_pages_is_read(name: str) -> None:
    golden, operator = read(name), operator_of(name)
    assert golden.header.inline_pages and golden.header.stored_pages == len(golden.stored_pages) == 1
    store = golden.store
    state, manifest = operator.read(golden.header.body, store)
    with manifest.open(store):
        assert continue_from(operator, state) == golden.output, REWRITE


def test_the_golden_states_cover_all_parts_of_the_format() -> None:
    cells = load(read("cells").header.body)["store"]["cells"]
    assert cells["pages"]["index"].any() and cells["slices"].height and len(cells["least"]) > 1
    panes, store = load(read("panes").header.body)["store"]["table"], read("panes").store
    pages = [load(store.get(number)) for number in panes["pages"]["number"]]
    assert panes["pages"]["gone"].any() and not panes["pages"]["gone"].all()
    assert any({"rows", "ids"} <= page.keys() for page in pages)


@given(pages=st.dictionaries(st.integers(1, 2**40), st.binary(max_size=50)), stored=st.integers(0, 9))
def test_a_header_is_read_as_it_was_written(pages: dict[int, bytes], stored: int) -> None:
    header = StateHeader(BODY, pages, stored)
    assert StateHeader.from_bytes(header.to_bytes()) == header


def test_an_unknown_format_of_a_header_is_rejected_with_its_number() -> None:
    data = bytearray(StateHeader(BODY, {1: b"page"}).to_bytes())
    data[11] = 3
    with pytest.raises(ev.DataError, match="has format 3, but this version of Eventide reads format 1"):
        StateHeader.from_bytes(bytes(data))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"!"], ids=["cut off", "longer"])
def test_a_damaged_header_is_rejected(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ev.DataError, match="damaged"):
        StateHeader.from_bytes(change(StateHeader(BODY, {1: b"page"}).to_bytes()))


def test_bytes_that_are_no_header_are_rejected() -> None:
    with pytest.raises(ev.DataError, match="not a state that Eventide saved"):
        StateHeader.from_bytes(b"something else, long enough to be one")


CONTENT = {
    "number": -(2**63),
    "text": "é",
    "nothing": None,
    "nested": {"list": [1, [2.5, None], {"deep": True}]},
    "frames": [pl.DataFrame({"a": [1, None], "b": [[1.5], []]}), pl.DataFrame(schema={"x": pl.Datetime("us", "UTC")})],
    "series": pl.Series("s", ["a", None]),
}


def test_what_is_dumped_is_loaded() -> None:
    loaded = load(dump(CONTENT))
    for frame, other in zip(CONTENT["frames"], loaded["frames"], strict=True):
        assert frame.equals(other) and frame.schema == other.schema
    assert loaded["series"].equals(CONTENT["series"]) and loaded["series"].name == "s"
    plain = ("number", "text", "nothing", "nested")
    assert {name: loaded[name] for name in plain} == {name: CONTENT[name] for name in plain}


def test_the_same_content_is_the_same_bytes() -> None:
    assert dump(CONTENT) == dump(CONTENT)


@pytest.mark.parametrize("data", [b"", b"eventid", b"x" * 100], ids=["empty", "short", "something else"])
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(ev.DataError, match=r"not a state that Eventide saved"):
        load(data)


def test_an_unknown_format_is_rejected() -> None:
    data = bytearray(dump({}))
    data[11] = 9
    with pytest.raises(ev.DataError, match="has format 9, but this version of Eventide reads format 1"):
        load(bytes(data))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"!"], ids=["cut off", "longer"])
def test_damaged_bytes_are_rejected(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ev.DataError, match="damaged"):
        load(change(dump(CONTENT)))


def _pipeline(**changes: object) -> ev.Pipeline:
    size, delay = changes.get("size", "1 minute"), changes.get("delay", "10 seconds")
    stream = ev.stream(time="t", key="k", watermark=ev.bounded_delay(delay))  # type: ignore[arg-type]
    return stream.window(ev.tumbling(size)).agg(n=changes.get("n", ev.count()))  # type: ignore[arg-type]


def _saved() -> bytes:
    query = _pipeline().start_local()
    query.push(pl.DataFrame({"t": [1], "k": ["a"], "v": [2]}), now=0)
    return query.save()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": "2 minutes"}, r"the window changed from tumbling\(1m\) to tumbling\(2m\)"),
        ({"delay": "1 second"}, r"the watermark changed from bounded_delay\(10s\) to bounded_delay\(1s\)"),
        ({"n": ev.sum("v")}, r"the aggregate n changed from count\(\) to sum\(v\)"),
    ],
    ids=["window", "watermark", "aggregate"],
)
def test_state_of_another_plan_is_rejected_with_what_changed(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        _pipeline(**changes).start_local(saved=_saved())


def test_a_function_is_the_same_wherever_it_lies_in_memory() -> None:
    def pipeline() -> ev.Pipeline:
        return _pipeline(n=ev.reduce(lambda a, b: a + b, "v"))

    query = pipeline().start_local()
    query.push(pl.DataFrame({"t": [1], "k": ["a"], "v": [2]}), now=0)
    assert pipeline().start_local(saved=query.save()).drain(now=1).panes["n"].to_list() == [2]


def test_a_query_that_has_seen_nothing_has_nothing_to_save() -> None:
    with pytest.raises(ev.PlanError, match="No rows have been seen yet"):
        _pipeline().start_local().save()


def test_a_query_with_a_schema_can_be_saved_before_its_first_row() -> None:
    query = _pipeline().start_local({"t": pl.Int64, "k": pl.String, "v": pl.Int64})
    later = _pipeline().start_local(saved=query.save())
    assert later.push(pl.DataFrame({"t": [1], "k": ["a"], "v": [2]}), now=0).counts.kept == 1


class Scaled(ev.Aggregate):
    """A user's own aggregate, without a word about its column."""

    def __init__(self, column: str) -> None:
        self.column = column

    def bind(self, source: object) -> ev.Parts:
        name = "scaled"
        total = ev.Accumulator(name, pl.Int64(), pl.col(self.column).sum() * 2, pl.col(name).sum(), empty=0)
        return ev.Parts([total], pl.col(name))


def test_what_the_words_leave_out_counts_as_well() -> None:
    query = _pipeline(n=Scaled("v")).start_local()
    query.push(pl.DataFrame({"t": [1], "k": ["a"], "v": [2]}), now=0)
    with pytest.raises(ev.PlanError, match=r"the aggregate n changed from .* column: v} to .* column: t}"):
        _pipeline(n=Scaled("t")).start_local(saved=query.save())


def test_a_header_that_is_cut_off_is_damage() -> None:
    with pytest.raises(ev.DataError, match="damaged"):
        load(dump(CONTENT)[:40])

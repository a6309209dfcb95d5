"""State as bytes: what was saved is what is loaded, and nothing else is accepted."""

import polars as pl
import pytest

import eventide as ev
from eventide.state import snapshot

CONTENT = {
    "number": -(2**63),
    "text": "é",
    "nothing": None,
    "nested": {"list": [1, [2.5, None], {"deep": True}]},
    "frames": [pl.DataFrame({"a": [1, None], "b": [[1.5], []]}), pl.DataFrame(schema={"x": pl.Datetime("us", "UTC")})],
    "series": pl.Series("s", ["a", None]),
}


def test_what_is_dumped_is_loaded() -> None:
    loaded = snapshot.load(snapshot.dump(CONTENT))
    for one, other in zip(CONTENT["frames"], loaded["frames"], strict=True):  # type: ignore[arg-type]
        assert one.equals(other) and one.schema == other.schema
    assert loaded["series"].equals(CONTENT["series"]) and loaded["series"].name == "s"
    plain = ("number", "text", "nothing", "nested")
    assert {name: loaded[name] for name in plain} == {name: CONTENT[name] for name in plain}


def test_the_same_content_is_the_same_bytes() -> None:
    assert snapshot.dump(CONTENT) == snapshot.dump(CONTENT)


@pytest.mark.parametrize("data", [b"", b"eventid", b"x" * 100], ids=["empty", "short", "something else"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ev.DataError, match=r"not a state that Eventide saved"):
        snapshot.load(data)


def test_an_unknown_format_is_refused() -> None:
    data = bytearray(snapshot.dump({}))
    data[11] = 9
    with pytest.raises(ev.DataError, match="has format 9, but this version of Eventide reads format 1"):
        snapshot.load(bytes(data))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"!"], ids=["cut off", "longer"])
def test_damaged_bytes_are_refused(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ev.DataError, match="damaged"):
        snapshot.load(change(snapshot.dump(CONTENT)))


def _pipeline(**changes: object) -> ev.Pipeline:
    size, delay = changes.get("size", "1 minute"), changes.get("delay", "10 seconds")
    stream = ev.stream(time="t", key="k", watermark=ev.bounded_delay(delay))  # type: ignore[arg-type]
    return stream.window(ev.tumbling(size)).agg(n=changes.get("n", ev.count()))  # type: ignore[arg-type]


def _saved() -> bytes:
    query = _pipeline().start_local()
    query.push(pl.DataFrame({"t": [1], "k": ["a"], "v": [2]}), now=0)
    return query.save()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size": "2 minutes"}, "the window changed from tumbling 1m to tumbling 2m"),
        ({"delay": "1 second"}, "the watermark changed from bounded delay 10s to bounded delay 1s"),
        ({"n": ev.sum("v")}, r"the aggregate n changed from count\(\) to sum\(v\)"),
    ],
    ids=["window", "watermark", "aggregate"],
)
def test_state_of_another_plan_is_refused_with_what_changed(changes: dict[str, object], told: str) -> None:
    with pytest.raises(ev.PlanError, match=told):
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
    with pytest.raises(ev.PlanError, match="the aggregate n: column changed from v to t"):
        _pipeline(n=Scaled("t")).start_local(saved=query.save())


def test_a_header_that_is_cut_off_is_damage() -> None:
    with pytest.raises(ev.DataError, match="damaged"):
        snapshot.load(snapshot.dump(CONTENT)[:40])

"""How sources and sinks are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide.cli.addresses import FILES, Address, read_address, read_sources
from eventide.cli.places import sink
from eventide.errors import PlanError


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("parquet:/data/in", Address("parquet", "/data/in")),
        ("json:s3a://shop/in", Address("json", "s3a://shop/in")),
        ("parquet:/data/2026-0?", Address("parquet", "/data/2026-0?")),
        ("csv:/in?header=true&sep=;", Address("csv", "/in", {"header": "true", "sep": ";"})),
        ("csv:/in?sep=%26", Address("csv", "/in", {"sep": "&"})),
        ("json:/in?schema=ts timestamp, n int", Address("json", "/in", {"schema": "ts timestamp, n int"})),
        ("kafka:orders@a:9092,b:9092", Address("kafka", "orders", {}, "a:9092,b:9092")),
        ("eventide:sqlite:///s.db#orders", Address("eventide", "sqlite:///s.db#orders", {}, "orders")),
        ("eventide:sqlite:///s.db#o?start=latest", Address("eventide", "sqlite:///s.db#o", {"start": "latest"}, "o")),
        ("rate:10", Address("rate", "10")),
        ("rate", Address("rate", "")),
    ],
)
def test_a_source_is_read(text: str, read: Address) -> None:
    assert read_address(text, "source") == read


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("console", "console(rows=20)"),
        ("console:?rows=5", "console(rows=5)"),
        ("noop", "noop()"),
        ("files:/out", "files('/out', format='parquet')"),
        ("json:/out", "files('/out', format='json')"),
        ("csv:/out?header=true", "files('/out', format='csv', header='true')"),
        ("sqlite:///p.db#revenue", "table('sqlite:///p.db', name='revenue')"),
        ("sqlite:///p.db", "table('sqlite:///p.db')"),
        ("eventide:sqlite:///s.db#r?routing_key=shop", "stream('sqlite:///s.db#r', routing_key='shop')"),
        (
            "postgresql://me:secret@db/shop?sslmode=require#sales.revenue",
            "table('postgresql://me:…@db/shop?sslmode=require', name='sales.revenue')",
        ),
    ],
)
def test_a_sink_is_made(text: str, made: str) -> None:
    assert repr(sink(read_address(text, "sink"))) == made


def test_a_topic_is_a_sink() -> None:
    made = repr(sink(read_address("kafka:panes@a:9092", "sink")))
    assert made.startswith("spark_format('kafka'") and "topic='panes'" in made and "'a:9092'" in made


@pytest.mark.parametrize(
    ("text", "end", "said"),
    [
        ("parket:/in", "source", "Did you mean 'parquet'?"),
        ("console", "source", "console is no source"),
        ("rate:5", "sink", "rate is no sink"),
        ("parquet", "source", "write parquet:PATH"),
        ("parquet:", "sink", "write parquet:PATH"),
        ("kafka:orders", "source", "write kafka:TOPIC@HOST:PORT"),
        ("eventide:sqlite:///s.db", "source", "write eventide:STORE#STREAM"),
        ("rate:fast", "source", "write rate:ROWS_PER_SECOND"),
        ("sqlite:///", "sink", "write sqlite:///FILE#TABLE"),
        ("sqlite:///#revenue", "sink", "write sqlite:///FILE#TABLE"),
        ("console:?rows=x", "sink", "write console:?rows=50"),
        ("console:?rows=0", "late", "write console:?rows=50"),
        ("console:?bogus=1", "sink", "there is no option 'bogus' here. Its options are: rows."),
        ("noop:?rows=1", "sink", "there is no option 'rows' here. Leave it out."),
        ("parquet:/out?format=csv", "sink", "there is no option 'format' here"),
        ("eventide:sqlite:///s.db#o?key=shop", "sink", "Its options are: routing_key, writer_id, token."),
        ("postgres", "late", "--late 'postgres': write postgresql://"),
    ],
)
def test_what_is_no_address_is_refused_with_how_to_write_it(text: str, end: str, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_address(text, end)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_refusal_hides_the_password() -> None:
    with pytest.raises(PlanError) as refused:
        read_address("mysql://me:secret@db/shop", "sink")
    assert "secret" not in str(refused.value)


@given(
    st.sampled_from(FILES), st.text(st.characters(codec="ascii", exclude_characters="?", categories=["L", "N", "P"]))
)
def test_a_path_without_a_question_mark_is_taken_as_it_is(kind: str, path: str) -> None:
    if path:
        assert read_address(f"{kind}:{path}", "source") == Address(kind, path)


def test_several_sources_have_names() -> None:
    assert read_sources(["left=parquet:/a", "right=json:/b?x=1"]) == {
        "left": Address("parquet", "/a"),
        "right": Address("json", "/b", {"x": "1"}),
    }


def test_one_source_needs_no_name() -> None:
    assert read_sources(["parquet:/year=2026/"]) == {None: Address("parquet", "/year=2026/")}


def test_of_several_sources_each_needs_a_name() -> None:
    with pytest.raises(PlanError, match="each has a name"):
        read_sources(["left=parquet:/a", "parquet:/b"])


def test_an_input_has_one_source() -> None:
    with pytest.raises(PlanError, match="given twice"):
        read_sources(["left=parquet:/a", "left=parquet:/b"])

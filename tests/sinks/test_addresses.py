"""How sources and sinks are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventide._addresses import FILES, Address, read_address, read_sources, split_table
from eventide.errors import PlanError
from eventide.sinks import as_sink


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
        ("data/orders/", Address("parquet", "data/orders/")),
        ("orders.csv?header=true", Address("csv", "orders.csv", {"header": "true"})),
        ("/data/*.json.gz", Address("json", "/data/*.json.gz")),
        ("s3a://shop/orders", Address("parquet", "s3a://shop/orders")),
        ("hdfs://names:8020/orders.orc", Address("orc", "hdfs://names:8020/orders.orc")),
        ("./orders.jsonl", Address("json", "./orders.jsonl")),
    ],
)
def test_a_source_is_read(text: str, read: Address) -> None:
    assert read_address(text, "source") == read


@pytest.mark.parametrize(
    ("text", "text_of_sink"),
    [
        ("console", "console(rows=20)"),
        ("noop", "noop()"),
        ("out/panes/", "files('out/panes/', format='parquet')"),
        ("out/panes.json", "files('out/panes.json', format='json')"),
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
def test_a_sink_is_made(text: str, text_of_sink: str) -> None:
    assert repr(as_sink(text)) == text_of_sink


def test_a_topic_is_a_sink() -> None:
    text = repr(as_sink("kafka:panes@a:9092"))
    assert text.startswith("spark_format('kafka'") and "topic='panes'" in text and "'a:9092'" in text


@pytest.mark.parametrize(
    ("text", "end", "message"),
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
        ("console:?rows=5", "sink", "sinks.console(rows=…) has it in Python, --limit on the command line"),
        ("console:?bogus=1", "sink", "there is no option 'bogus' here. Leave it out."),
        ("panes.db", "sink", "write sqlite:///FILE#TABLE"),
        ("panes.db#revenue", "sink", "write sqlite:///FILE#TABLE"),
        ("panes", "sink", "For a directory write panes/."),
        ("mysql://db/shop", "sink", 'sinks.spark_format("jdbc", url=…, dbtable=…)'),
        ("noop:?rows=1", "sink", "there is no option 'rows' here. Leave it out."),
        ("parquet:/out?format=csv", "sink", "there is no option 'format' here"),
        ("eventide:sqlite:///s.db#o?key=shop", "sink", "Its options are: routing_key, writer_id, token."),
        ("postgres", "late", "The sink of late rows 'postgres': there is no kind 'postgres'. Write postgresql://"),
    ],
)
def test_what_is_no_address_is_rejected_with_how_to_write_it(text: str, end: str, message: str) -> None:
    with pytest.raises(PlanError) as rejected:
        read_address(text, end)  # type: ignore[arg-type]
    assert message in str(rejected.value)


def test_a_refusal_hides_the_password() -> None:
    with pytest.raises(PlanError) as rejected:
        read_address("mysql://me:secret@db/shop", "sink")
    assert "secret" not in str(rejected.value)


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


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("sqlite:///x.db#rev", ("sqlite:///x.db", "rev")),
        ("sqlite:///x.db", ("sqlite:///x.db", None)),
        ("sqlite:///x.db#", ("sqlite:///x.db", None)),
        ("sqlite:///a#b/x.db", ("sqlite:///a#b/x.db", None)),
        ("postgresql://me:a#b@db/shop", ("postgresql://me:a#b@db/shop", None)),
        ("postgresql://me:a#b@db/shop#sales.rev", ("postgresql://me:a#b@db/shop", "sales.rev")),
    ],
)
def test_the_table_follows_the_last_hash_of_an_address(url: str, parts: tuple[str, str | None]) -> None:
    assert split_table(url) == parts


def test_tables_of_a_lakehouse_have_addresses() -> None:
    assert repr(as_sink("delta:/data/revenue")) == "delta('/data/revenue')"
    assert repr(as_sink("iceberg:shop.revenue?catalog=prod")) == "iceberg('shop.revenue')"
    with pytest.raises(PlanError, match="name the table with its namespace"):
        as_sink("iceberg:revenue")

"""The files of Spark that a rescale rewrites: offsets, source logs, state stores. No Spark is started."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

import eventide as ev
from eventide.operators.redistribution import BucketSnapshot
from eventide.spark.buckets import bucket_labels
from eventide.spark.source_log import LoggedOffsets
from eventide.spark.state_import import StateImport, _renumber, relocate
from eventide.spark.state_processor import ImportProcessor
from eventide.spark.state_store import header_facts
from eventide.spark.storage import LocalStorage
from eventide.state import format as snapshot
from eventide.state.format import StateHeader
from tests.pages.divided_state import DividedState

NO_SESSION: Any = object()  # a checkpoint that is rejected needs no session
HEAD = snapshot.dump({"kind": "head"})


def log(checkpoint: Path, name: str, *lines: str) -> None:
    path = checkpoint / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *lines]))


def offsets(checkpoint: Path, *sources: str) -> LoggedOffsets:
    log(checkpoint, "offsets/7", json.dumps({"batchTimestampMs": 5, "conf": {"a": "1", "b": "2"}}), *sources)
    (checkpoint / "offsets" / ".7.crc").touch()
    return LoggedOffsets.read(LocalStorage(checkpoint), 7)


def test_settings_are_replaced_and_sources_stay(tmp_path: Path) -> None:
    offsets(tmp_path, '{"logOffset":1}', "-").rewrite({"b": "3"}, before=False, after=False)
    again = LoggedOffsets.read(LocalStorage(tmp_path), 7)
    assert again.header == {"batchTimestampMs": 5, "conf": {"a": "1", "b": "3"}}
    assert again.sources == ('{"logOffset":1}', "-")
    assert not (tmp_path / "offsets" / ".7.crc").exists()  # Spark would compare the new content with it


@pytest.mark.parametrize(
    ("before", "after", "sources"), [(True, False, ("0", "-")), (False, True, ("0", "-", "9", "-"))]
)
def test_a_source_of_ticks_comes_or_goes_at_the_end(
    tmp_path: Path, before: bool, after: bool, sources: tuple[str, ...]
) -> None:
    offsets(tmp_path, "0", "-", "9").rewrite({}, before=before, after=after)
    assert LoggedOffsets.read(LocalStorage(tmp_path), 7).sources == sources


def test_the_checkpoint_of_a_custom_query_is_rejected_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "state/0").mkdir(parents=True)
    with pytest.raises(ev.PlanError, match=r"a query of df\.transform\(pipeline\) or ev\.outputs\(\).* new checkpoint"):
        ev.rescale(tmp_path, buckets=2, spark=NO_SESSION)


def test_an_import_on_workers_without_eventide_says_so(tmp_path: Path) -> None:
    spark = MagicMock()
    rows = spark.readStream.schema().parquet().groupBy().transformWithState()
    query = rows.writeStream.outputMode().format().trigger().option().start()
    query.awaitTermination.side_effect = RuntimeError("…\nModuleNotFoundError: No module named 'eventide'\n\tat …")
    states = StateImport(spark, 7, LocalStorage(tmp_path))
    states.add(DividedState([BucketSnapshot(HEAD)]))
    with pytest.raises(ev.PlanError, match="Install pyspark-eventide on them"):
        states.run()


def test_another_format_of_the_offset_log_is_rejected(tmp_path: Path) -> None:
    offsets(tmp_path)
    (tmp_path / "offsets" / "7").write_text("v2\n{}")
    with pytest.raises(ev.DataError, match="has format 'v2'"):
        LoggedOffsets.read(LocalStorage(tmp_path), 7)


def test_commands_up_to_the_batch_are_known_from_the_log_of_their_source(tmp_path: Path) -> None:
    def entry(name: str, batch: int) -> str:
        return json.dumps({"path": f"file:///c/eventide/control/{name}", "timestamp": 1, "batchId": batch})

    log(tmp_path, "sources/1/1.compact", entry("first.json", 0), entry("a%20b.json", 1))
    log(tmp_path, "sources/1/2", entry("later.json", 2))
    (tmp_path / "sources" / "1" / ".2.crc").write_bytes(b"\x00")
    assert offsets(tmp_path, "0", '{"logOffset":1}', "9").commands_read(ticks=True) == {
        "first.json",
        "a b.json",
    }
    assert offsets(tmp_path, "0", "-").commands_read(ticks=False) == set()


def test_the_files_of_a_store_get_another_version_with_their_check_sums(tmp_path: Path) -> None:
    names = ["1_ab-1.zip", ".1_ab-1.zip.crc", "1.zip", "1_ab-1.changelog", "SSTs"]
    store = tmp_path / "state" / "0" / "3"
    (store / "SSTs").mkdir(parents=True)
    for name in names[:-1]:
        (store / name).touch()
    _renumber(LocalStorage(tmp_path), 42)
    assert sorted(file.name for file in store.iterdir()) == [
        ".42_ab-1.zip.crc",
        "42.zip",
        "42_ab-1.changelog",
        "42_ab-1.zip",
        "SSTs",
    ]


def test_the_metadata_of_an_operator_names_the_checkpoint_where_it_will_be(tmp_path: Path) -> None:
    store = {
        "storeName": "default",
        "stateSchemaFilePaths": ["file:/before/checkpoint/state/0/_stateSchema/default/0_x"],
    }
    metadata = tmp_path / "state" / "0" / "_metadata" / "v2"
    metadata.mkdir(parents=True)
    (metadata / "0").write_text(f"v2\n{json.dumps({'stateStoreInfo': [store]})}")
    (metadata / ".0.crc").touch()
    relocate(LocalStorage(tmp_path), LocalStorage("/data/state/revenue"))
    assert [file.name for file in metadata.iterdir()] == ["0"]  # Spark would compare the new content with the checksum
    content = json.loads((metadata / "0").read_text().split("\n")[1])
    assert content["stateStoreInfo"][0]["stateSchemaFilePaths"] == [
        "file:/data/state/revenue/state/0/_stateSchema/default/0_x"
    ]


def test_imported_pages_are_stored_as_an_operator_stores_them(tmp_path: Path) -> None:
    buckets = [BucketSnapshot(HEAD, {1: b"small", 2: b"x" * 40_000}), BucketSnapshot(HEAD, {1: b"other"})]
    StateImport(None, 7, LocalStorage(tmp_path)).add(DividedState(buckets))  # type: ignore[arg-type]
    files = [tmp_path / "pages" / f"0-{label}.parquet" for label in bucket_labels(2)]
    rows = [Row(**row) for file in files for row in pq.read_table(file).to_pylist()]
    stored: dict[str, Any] = {}
    in_map: dict[int, bytes] = {}
    processor = ImportProcessor(0, header_facts(2, 0), "7.rescaled")
    processor._header = SimpleNamespace(update=lambda value: stored.update(head=value))  # type: ignore[assignment]
    processor._page_map = lambda: SimpleNamespace(  # type: ignore[assignment, return-value]
        updateValue=lambda key, value: in_map.update({key[0]: value[0]})
    )
    first = [row for row in rows if row["bucket"] == bucket_labels(2)[0]]
    behind = Row(bucket=0, store=1, page=0, body=b"")
    assert list(processor.handleInputRows((0,), iter([*first, behind]), None)) == [behind]
    version, facts, head = stored["head"]
    assert version == "7.rescaled"
    assert json.loads(facts) == {"buckets": 2, "depth": 0, "output_watermarks": {}, "ancestors": []}
    assert StateHeader.from_bytes(head) == StateHeader(HEAD, {1: b"small"}, 1) and in_map == {2: b"x" * 40_000}

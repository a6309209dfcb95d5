"""States as formats 1 and 2 wrote them, kept beside this file. ``python -m tests.state.golden`` writes them anew.

Do that only while the formats have not been released: from then on they must be read as they are. A head of format 2
is one of format 1 with pages in it, so its states come to the same.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

import eventide as ev
from eventide.operators.bundle import Bundle, Output
from eventide.operators.windowed import State, WindowedAggregate
from eventide.state.heads import Head
from eventide.time import MAX
from eventide.watermarks import Watermark
from tests.state.paged import Paged, Store

FILES = Path(__file__).parent / "format_1"
WITH_PAGES = Path(__file__).parent / "format_2"
SCHEMA = {"t": pl.Int64(), "k": pl.String(), "v": pl.Float64(), "origin": pl.String()}
SECOND = 1_000_000
KEYS = ["a", "b", *"cdefghijkl", "ü", None]


def _stream() -> ev.Stream:
    return ev.stream(
        time="t", key="k", watermark=ev.bounded_delay("90 seconds", origin="origin", idle_timeout="10 minutes")
    )


def _agg(stream: Any) -> ev.Pipeline:
    pipeline: ev.Pipeline = stream.agg(
        n=ev.count(), total=ev.sum("v"), last=ev.last("v"), every=ev.collect_list("v"), most=ev.max("v")
    )
    return pipeline


PLANS = {
    "cells": lambda: _agg(_stream().window(ev.tumbling("1 second"))),
    "panes": lambda: _agg(
        _stream()
        .window(ev.tumbling("20 seconds"))
        .trigger(ev.after_watermark(early=ev.on_update(), late=ev.on_update()))
        .lateness("10 seconds")
        .retracting()
    ),
    "sessions": lambda: _agg(_stream().window(ev.sessions("3 seconds"))),
    "cut": lambda: _agg(_stream().window(ev.sessions("3 seconds", max_duration="8 seconds"))),
    "rows": lambda: _agg(_stream().window(ev.rows(5, every=2))),
}


def operator_of(name: str) -> WindowedAggregate:
    return WindowedAggregate(PLANS[name]().plan, SCHEMA)


def bundles(name: str) -> list[Bundle]:
    """Rows that advance: a large bundle, and small ones."""
    rng = Random(name)
    found = []
    for i in range(20):
        many = 60 if i == 1 else rng.choice([0, 1, 3, 3])
        rows = [
            ((i + rng.randint(-5, 45)) * SECOND, rng.choice(KEYS), rng.random(), rng.choice("xy")) for _ in range(many)
        ]
        found.append(Bundle(pl.DataFrame(rows, schema=SCHEMA, orient="row"), i * SECOND))
    return found


def goes_on(operator: WindowedAggregate, state: State) -> list[Any]:
    """What comes of a state: a few more rows, then the end."""
    rows = [(70 * SECOND, "a", 0.5, "x"), (33 * SECOND, "b", 0.25, "y"), (-99 * SECOND, None, 1.0, "x")]
    step = operator.step(state, Bundle(pl.DataFrame(rows, schema=SCHEMA, orient="row"), 20 * SECOND))
    end = operator.step(step.state, Bundle(operator.no_rows(), 30 * SECOND, (Watermark(0, MAX),)))
    return [_plain(step.output), _plain(end.output)]


def _plain(output: Output) -> Any:
    frames = [frame.rows() for frame in (output.panes, output.late, output.dead)]
    return json.loads(json.dumps([frames, output.counts.kept, output.open_panes], default=str))


def read(name: str) -> dict[str, Any]:
    """A stored state: saved whole, its head and its pages, and what it should come to."""
    content = json.loads(gzip.decompress((FILES / f"{name}.json.gz").read_bytes()))
    pages = {int(number): base64.b64decode(body) for number, body in content["pages"].items()}
    head, whole = (base64.b64decode(content[part]) for part in ("head", "whole"))
    return {"whole": whole, "head": head, "store": Store(pages), "comes_to": content["comes_to"]}


def read_with_pages(name: str) -> tuple[bytes, Store]:
    """A stored head of format 2 as it was kept, and the pages that did not lie in it."""
    content = json.loads(gzip.decompress((WITH_PAGES / f"{name}.json.gz").read_bytes()))
    pages = {int(number): base64.b64decode(body) for number, body in content["pages"].items()}
    return base64.b64decode(content["head"]), Store(pages)


def write_with_pages(name: str) -> None:
    """The state of format 1 once more; the first page lies in the store, the others in the head."""
    stored = read(name)
    pages = dict(sorted(stored["store"].pages.items()))
    first = min(pages)
    content = {"pages": {first: _text(pages.pop(first))}, "head": _text(Head(stored["head"], pages, 1).to_bytes())}
    WITH_PAGES.mkdir(exist_ok=True)
    (WITH_PAGES / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def write(name: str) -> None:
    operator = operator_of(name)
    host = Paged(operator)
    for bundle in bundles(name):
        host.step(lambda state, bundle=bundle: operator.step(state, bundle))  # type: ignore[misc]
    assert host.head is not None
    content = {
        "comes_to": goes_on(operator, host.state),
        "whole": _text(operator.save(host.state)),
        "head": _text(host.head),
        "pages": {number: _text(body) for number, body in host.store.pages.items()},
    }
    FILES.mkdir(exist_ok=True)
    (FILES / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    for each in PLANS:
        write(each)
        write_with_pages(each)

"""Golden states of the current format, stored in ``golden_states``. ``python -m tests.state.golden`` rewrites them.

Rewrite them only as long as the format is not released. A released format must stay readable.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

import eventide as ev
from eventide.operators.operator import Bundle, Output
from eventide.operators.windowed_aggregate import State, WindowedAggregate
from eventide.state.format import StateHeader
from eventide.time import MAX
from eventide.watermarks import Watermark
from tests.state.harness import Paged, Store

FOLDER = Path(__file__).parent / "golden_states"
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
        .trigger(
            ev.after_watermark(early=ev.on_update(), late=ev.on_update()),
            allowed_lateness="10 seconds",
            mode="retracting",
        )
    ),
    "sessions": lambda: _agg(_stream().window(ev.sessions("3 seconds"))),
    "capped_sessions": lambda: _agg(_stream().window(ev.sessions("3 seconds", max_duration="8 seconds"))),
    "rows": lambda: _agg(_stream().window(ev.rows(5, every=2))),
}


@dataclass(frozen=True)
class GoldenState:
    """A stored state, saved whole and in pages, and the output of continuing from it."""

    whole: bytes
    header: StateHeader  # with all pages inline but the first
    stored_pages: dict[int, bytes]
    output: list[Any]

    @property
    def store(self) -> Store:
        """All pages."""
        return Store({**self.stored_pages, **self.header.inline_pages})


def operator_of(name: str) -> WindowedAggregate:
    return WindowedAggregate(PLANS[name]().plan, SCHEMA)


def bundles(name: str) -> list[Bundle]:
    """Rows that advance: a large bundle, and small ones."""
    rng = Random(name)
    sequence = []
    for i in range(20):
        count = 60 if i == 1 else rng.choice([0, 1, 3, 3])
        rows = [
            ((i + rng.randint(-5, 45)) * SECOND, rng.choice(KEYS), rng.random(), rng.choice("xy")) for _ in range(count)
        ]
        sequence.append(Bundle(pl.DataFrame(rows, schema=SCHEMA, orient="row"), i * SECOND))
    return sequence


def continue_from(operator: WindowedAggregate, state: State) -> list[Any]:
    """Return the output for a few more rows and the end of the stream."""
    rows = [(70 * SECOND, "a", 0.5, "x"), (33 * SECOND, "b", 0.25, "y"), (-99 * SECOND, None, 1.0, "x")]
    step = operator.step(state, Bundle(pl.DataFrame(rows, schema=SCHEMA, orient="row"), 20 * SECOND))
    end = operator.step(step.state, Bundle(operator.no_rows(), 30 * SECOND, (Watermark(0, MAX),)))
    return [_plain(step.output), _plain(end.output)]


def _plain(output: Output) -> Any:
    frames = [frame.rows() for frame in (output.panes, output.late, output.dead)]
    return json.loads(json.dumps([frames, output.counts.kept, output.open_panes], default=str))


def read(name: str) -> GoldenState:
    content = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    pages = {int(number): base64.b64decode(body) for number, body in content["pages"].items()}
    whole, header = (base64.b64decode(content[part]) for part in ("whole", "header"))
    return GoldenState(whole, StateHeader.from_bytes(header), pages, content["output"])


def write(name: str) -> None:
    operator = operator_of(name)
    host = Paged(operator)
    for bundle in bundles(name):
        host.step(lambda state, bundle=bundle: operator.step(state, bundle))  # type: ignore[misc]
    assert host.head is not None
    inline = dict(sorted(host.store.pages.items()))
    first = min(inline)
    stored = {first: inline.pop(first)}
    content = {
        "output": continue_from(operator, host.state),
        "whole": _text(operator.save(host.state)),
        "header": _text(StateHeader(host.head, inline, len(stored)).to_bytes()),
        "pages": {number: _text(body) for number, body in stored.items()},
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    for plan in PLANS:
        write(plan)

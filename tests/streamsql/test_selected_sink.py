"""A sink behind a SELECT follows the output watermark only if it would by itself: batches would run for it."""

from __future__ import annotations

from typing import Any

import pytest

from eventide import sinks
from eventide.sinks.sink import Sink, WatermarkSink
from eventide.streamsql.expressions import column
from eventide.streamsql.select_clause import Projection
from eventide.streamsql.spark_io import selected_sink


class Following:
    def open(self, schema: Any, info: Any) -> None: ...

    def write(self, batch: Any, batch_id: int, info: Any) -> None: ...

    def advance(self, output_watermark: int, info: Any) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(("sink", "follows"), [(sinks.noop(), False), (Following(), True)])
def test_a_selected_sink_follows_the_watermark_if_its_sink_does(sink: Sink, follows: bool) -> None:
    selected = selected_sink(sink, Projection({"n": column("n")}, None))
    assert selected is not sink and isinstance(selected, Sink)
    assert isinstance(selected, WatermarkSink) is follows

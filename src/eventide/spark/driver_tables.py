"""Inputs that are tables beside streams: they are read in the first batch, and end with it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from eventide.operators.saving import State
from eventide.spark.driver_input import Collected
from eventide.spark.feeding import Feed
from eventide.spark.scan import Scan
from eventide.spark.stage import Stage
from eventide.spark.types import from_spark
from eventide.watermarks import Trackers


class TableInputs:
    """The inputs of a query that do not stream. Spark cannot read them in a streaming plan, so the driver does."""

    def __init__(self, stage: Stage, feeds: Sequence[Feed]) -> None:
        self._stage = stage
        self._feeds = {edge: feed for edge, feed in enumerate(feeds) if not feed.streaming}

    def collect(self, state: State, now: int) -> Collected:
        """Return the rows of tables that have not been read, and the end of each; nothing after the first batch."""
        if not self._feeds:
            return Collected(())
        assert isinstance(state.tracker, Trackers)
        stamps, notes, operator = [], [], self._stage.operator()
        for edge, feed in self._feeds.items():
            name = self._stage.plan.edges[edge].name
            if name in state.tracker.ended:
                continue
            assert not isinstance(feed.rows, Scan)
            columns = [f"`{column.replace('`', '``')}`" for column in feed.schema]
            rows = from_spark(feed.rows.select(*columns).toArrow().to_batches(), feed.schema)
            stamps.append(operator.stamp(rows, now, state.watermark, edge))
            notes.append(json.dumps({"do": "end", "input": name}))
        return Collected(stamps, notes)

"""A batch DataFrame is a stream of one bundle that is drained at once; it needs no state store."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from eventide.spark.page import Page
from eventide.spark.stage import Stage
from eventide.spark.stamping import as_batch
from eventide.spark.stateful import absorb, in_order, results


def operate_once(stage: Stage) -> Callable[[pa.Table], pa.Table]:
    """All pages of one bucket to its results. A plain function with types: Spark reads its signature."""

    def bucket(pages: pa.Table) -> pa.Table:
        rows = in_order(pages.to_pylist(maps_as_pydicts="strict"))
        step, _ = absorb(stage, stage.operator().initial(), rows, {})
        passing = [Page(**row) for row in rows if "." in row["kind"]]
        return pa.Table.from_batches([as_batch([*results(stage, rows[0]["bucket"], step, {}), *passing])])

    bucket.__annotations__ = {"pages": pa.Table, "return": pa.Table}
    return bucket

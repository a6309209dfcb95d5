"""The time of a batch as Spark has logged it: a batch that is run again has the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def batch_time() -> Column:
    """In microseconds, for rows that are few: pages, names of files.

    Spark writes the time into the Java code that it generates, so every batch would have code of its own to compile, in
    the driver and in the tasks. It generates none for what is sorted, which takes longer for each row.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.element_at(F.array_sort(F.array(F.unix_micros(F.current_timestamp()))), 1)


def batch_time_per_row() -> Column:
    """Return the same for rows that are many.

    Spark hands arrays to generated code by reference, so the code does not change with the batch. The index is
    not a constant for the optimizer, which would otherwise write the time into the code.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return F.get(F.array(F.unix_micros(F.current_timestamp())), F.spark_partition_id() * 0)

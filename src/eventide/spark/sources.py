"""Sources on Spark: addresses (``kafka:orders@broker:9092``), Kafka topics, and the position of a row in its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eventide._addresses import FILES, Address, read_address
from eventide._databases import without_password
from eventide._hints import with_option_hints
from eventide._jvm import hidden_columns
from eventide.errors import PlanError, shown
from eventide.local.files import no_files
from eventide.operators.operator import StreamOperator
from eventide.operators.windowed_aggregate import WindowedAggregate
from eventide.panes import PREFIX
from eventide.plan.errors import names_of_late_rows
from eventide.spark.connect_session import is_connect
from eventide.spark.dataflow import SparkInput
from eventide.spark.errors import no_session, not_spark_rows
from eventide.spark.scan import Scan
from eventide.spark.types import polars_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from eventide.spark.dataflow import Source


_METADATA = "_metadata"
_FILE, _ROW, _BLOCK = f"{PREFIX}source_file", f"{PREFIX}source_row", f"{PREFIX}source_block"
_FILES = (
    {_FILE: "_metadata.file_path", _ROW: "_metadata.row_index"},  # Parquet
    {_FILE: "_metadata.file_path", _BLOCK: "_metadata.file_block_start"},  # any other file
)
_KAFKA = {
    f"{PREFIX}source_topic": "topic",
    f"{PREFIX}source_partition": "partition",
    f"{PREFIX}source_offset": "offset",
}


def with_source_position(input: SparkInput, operator: StreamOperator) -> SparkInput:
    """Return the rows with their position in the source, where the source knows it.

    Joins, processors and calls see all columns of a row, so nothing is added to theirs.
    """
    if type(operator) is not WindowedAggregate or operator.plan.inputs or isinstance(input.rows, Scan):
        return input
    position = _position(input.rows)
    if not position:
        return input
    from pyspark.sql import functions as F  # noqa: N812

    if taken := [name for name in input.rows.columns if name.lower() in position]:
        raise names_of_late_rows(taken)
    rows = input.rows.withColumns({name: F.col(column) for name, column in position.items()})
    schema = polars_schema(rows.select(*position).schema)
    return replace(input, rows=rows, schema=input.schema | schema)


def _position(rows: DataFrame) -> Mapping[str, str]:
    """Return the columns of the source with the position of a row; none if it has no such columns."""
    if set(_KAFKA.values()) <= set(rows.columns):
        return _KAFKA
    if _METADATA in rows.columns:  # a column of the user
        return {}
    fields = {f"{_METADATA}.{name}" for name in _file_metadata(rows)}
    return next((candidate for candidate in _FILES if fields.issuperset(candidate.values())), {})


def _file_metadata(rows: DataFrame) -> list[str]:
    """Return the metadata columns of files; none for other sources, and after a union or a join.

    The analyzed plan shows whether there is such a column. Without access to the plan the column is selected; Spark
    logs an error for a query that selects a missing one.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    names = hidden_columns(rows)
    if names is not None and names.count(_METADATA) != 1:
        return []
    try:
        metadata = rows.select(_METADATA).schema[_METADATA].dataType
    except AnalysisException:
        return []
    return metadata.fieldNames() if isinstance(metadata, StructType) else []


_MESSAGE_COLUMNS = ("partition", "offset", "timestamp")  # of Kafka, in addition to the fields of the messages


@with_option_hints
def scan_kafka(
    topic: str | Sequence[str],
    *,
    servers: str | Sequence[str],
    schema: str | StructType | None = None,
    streaming: bool = True,
    spark: SparkSession | None = None,
    **options: Any,
) -> DataFrame:
    """Read the messages of one or more topics, as a stream.

    With ``schema`` (``"ts timestamp, shop string"``, or a ``StructType``) a message is a JSON object, and its fields
    are the columns. The columns ``partition``, ``offset`` and ``timestamp`` of the message follow (with several topics
    also ``topic``), unless the schema has a column of that name. A message that is not JSON has nulls in the columns of
    the schema: without a time, it becomes a dead letter. Without ``schema`` the columns are those of Spark's Kafka
    source.

    ``options`` are those of Spark's reader: ``startingOffsets="earliest"``, ``maxOffsetsPerTrigger=1_000_000``,
    ``**{"kafka.security.protocol": "SSL"}``. With ``streaming=False`` the available messages are a table.

    >>> import eventide as ev
    >>> orders = ev.scan_kafka("orders", servers="broker:9092", schema="ts timestamp, shop string")  # doctest: +SKIP
    >>> per_partition = ev.bounded_delay("30 seconds", origin="partition", idle_timeout="2 minutes")
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise no_session("scan_kafka()")
    places = {"kafka.bootstrap.servers": _joined("servers", servers), "subscribe": _joined("topic", topic)}
    reader = (active.readStream if streaming else active.read).format("kafka").options(**options)
    try:
        messages = reader.options(**places).load()
    except AnalysisException as cause:
        if cause.getCondition() != "KAFKA_DATA_SOURCE_NOT_ENABLED":
            raise
        raise _no_kafka(active.version) from cause
    if schema is None:
        return messages
    return _parsed(messages, schema, _MESSAGE_COLUMNS if isinstance(topic, str) else ("topic", *_MESSAGE_COLUMNS))


def _parsed(messages: DataFrame, schema: str | StructType, columns: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    body = F.from_json(F.col("value").cast("string"), schema).alias("body")
    rows = messages.select(body, *columns)
    fields = {name.lower() for name in rows.select("body.*").columns}
    return rows.select("body.*", *(name for name in columns if name not in fields))


def _joined(what: str, names: str | Sequence[str]) -> str:
    several = [names] if isinstance(names, str) else list(names)
    if not several or not all(isinstance(name, str) and name for name in several):
        raise _bad_topic(what, names)
    return ",".join(several)


def source_at(
    spark: SparkSession, address: Address, *, streaming: bool = True, fused: bool = False
) -> DataFrame | Scan:
    """Return the rows at an address: as a stream, or those that are available now.

    With ``fused`` the stamp reads them where that is possible, which is fastest. Then Spark cannot compute columns
    before the pipeline.
    """
    options = dict(address.options)
    if fused and streaming and (scan := _scan(spark, address)) is not None:
        return scan
    if address.kind in FILES:
        return _files(spark, address, options, streaming=streaming)
    if address.kind == "kafka":
        schema = options.pop("schema", None)
        servers = str(address.name)
        return scan_kafka(address.place, servers=servers, schema=schema, streaming=streaming, spark=spark, **options)
    reader = (spark.readStream if streaming else spark.read).options(**options)
    if address.kind == "rate":
        return reader.format("rate").option("rowsPerSecond", address.place or "1").load()
    return reader.format("eventide").load(address.place)


def sources_at(
    spark: SparkSession, addresses: Mapping[str | None, Address], *, streaming: bool = True, fused: bool = False
) -> DataFrame | Scan | dict[str, Any]:
    """Return the rows of one source, or those of several by the names of their inputs."""
    rows = {name: source_at(spark, address, streaming=streaming, fused=fused) for name, address in addresses.items()}
    return rows[None] if list(rows) == [None] else {str(name): source for name, source in rows.items()}


def read_rows(rows: Source | str | Mapping[str, str]) -> Source:
    """Return the rows of ``run``. Addresses are read as streams in the active session."""
    sources = rows.values() if isinstance(rows, Mapping) else rows if isinstance(rows, list | tuple) else [rows]
    for value in sources:
        if not isinstance(value, str | Scan) and not hasattr(value, "isStreaming"):
            raise not_spark_rows(".run() takes a DataFrame of Spark, or an address such as 'data/orders/'", value)
    if isinstance(rows, str):
        return _stream_at(rows)
    if isinstance(rows, Mapping):
        return {name: _stream_at(source) if isinstance(source, str) else source for name, source in rows.items()}
    if isinstance(rows, list | tuple):
        return [_stream_at(source) if isinstance(source, str) else source for source in rows]
    return rows


def _stream_at(address: str) -> DataFrame | Scan:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None:
        raise PlanError(
            f"The source {without_password(address)!r} needs a SparkSession: create one with ev.spark_session(). "
            "In this process, without Spark: pipeline.local(…)."
        )
    return source_at(active, read_address(address, "source"))


def _files(spark: SparkSession, address: Address, options: dict[str, str], *, streaming: bool) -> DataFrame:
    schema = options.pop("schema", None) or _schema(spark, address, options)
    reader = (spark.readStream if streaming else spark.read).format(address.kind).options(**options)
    return reader.schema(schema).load(address.place)


def _scan(spark: SparkSession, address: Address) -> Scan | None:
    """Return the fastest way to read a source, where there is one: without options, and plain files."""
    from pyspark.errors import AnalysisException

    if is_connect(spark):
        return None
    if address.kind == "eventide" and not address.options:
        from eventide.spark.scan import scan_stream

        return scan_stream(address.place, spark=spark)
    if address.kind != "parquet" or address.options or any(letter in address.place for letter in "*?[{"):
        return None
    from eventide.spark.scan import scan_parquet

    try:
        return scan_parquet(address.place, spark=spark)
    except (PlanError, AnalysisException):
        return None


def _schema(spark: SparkSession, address: Address, options: Mapping[str, str]) -> Any:
    """Return the columns of the files that exist now."""
    from pyspark.errors import AnalysisException

    reader_options = dict(options) | ({"inferSchema": "true"} if address.kind == "csv" else {})
    try:
        schema = spark.read.format(address.kind).options(**reader_options).load(address.place).schema
    except AnalysisException as cause:
        if cause.getCondition() not in ("UNABLE_TO_INFER_SCHEMA", "PATH_NOT_FOUND"):
            raise
        raise no_files(address.place) from cause
    if not schema.fields:
        raise no_files(address.place)
    return schema


def _no_kafka(version: str) -> PlanError:
    """Return the error of a Spark without its Kafka connector, which is a separate package."""
    package = f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    return PlanError(
        f"This Spark does not have its Kafka connector. Add --conf {package} on the command line, or the same setting "
        "in ev.spark_session(config={…}). Where Spark cannot download it, set spark.jars to the paths of its jars."
    )


def _bad_topic(what: str, value: object) -> PlanError:
    example = "servers='broker:9092'" if what == "servers" else "scan_kafka('orders', …)"
    return PlanError(f"scan_kafka(): {what} is {shown(value)}. Give a name or a list of names, such as {example}.")

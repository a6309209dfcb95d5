"""Names that people know from elsewhere, and what they are called here: hints for attributes that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_MODULE = {
    "avg": "ev.mean(column)",
    "average": "ev.mean(column)",
    "hop": "ev.sliding(size, every)",
    "hopping": "ev.sliding(size, every)",
    "sliding_window": "ev.sliding(size, every)",
    "slide": "ev.sliding(size, every)",
    "tumble": "ev.tumbling(size)",
    "tumbling_window": "ev.tumbling(size)",
    "fixed_windows": "ev.tumbling(size)",
    "window": "ev.stream(…).window(ev.tumbling(size))",
    "session_window": "ev.sessions(gap)",
    "session": "ev.sessions(gap) for windows, ev.spark_session() for Spark",
    "count_rows": "ev.count()",
    "stddev": "ev.std(column)",
    "variance": "ev.var(column)",
    "percentile": "ev.quantile(column, 0.95)",
    "approx_count_distinct": "ev.approx_distinct(column)",
    "collect": "ev.collect_list(column)",
    "array_agg": "ev.collect_list(column)",
    "allowed_lateness": ".emit(allowed_lateness='1 hour') of a stream",
    "grace": ".emit(allowed_lateness='1 hour') of a stream",
    "watermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "with_watermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "withWatermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "bounded_out_of_orderness": "ev.bounded_delay('30 seconds')",
    "lag": "ev.bounded_delay('30 seconds')",
    "monotonous_timestamps": "ev.ascending()",
    "col": 'the name of a column, such as ev.sum("price")',
    "after_end_of_window": "ev.after_watermark()",
    "read_stream": "spark.readStream, ev.scan_parquet(…) or a Polars frame",
}

_STREAM = {
    "local": ".agg(…) first: .window(ev.tumbling('1 minute')).agg(n=ev.count()).local(rows)",
    "run": ".agg(…) first, then ev.run(pipeline, rows, panes=…, checkpoint=…)",
    "start_local": ".agg(…) first: .window(ev.tumbling('1 minute')).agg(n=ev.count()).start_local()",
    "aggregate": ".agg(n=ev.count())",
    "count": ".agg(n=ev.count())",
    "sum": ".agg(total=ev.sum(column))",
    "group_by": "key= of ev.stream(…)",
    "groupBy": "key= of ev.stream(…)",
    "groupby": "key= of ev.stream(…)",
    "key_by": "key= of ev.stream(…)",
    "keyBy": "key= of ev.stream(…)",
    "with_watermark": "watermark= of ev.stream(…)",
    "withWatermark": "watermark= of ev.stream(…)",
    "allowed_lateness": ".emit(allowed_lateness='1 hour')",
    "allowedLateness": ".emit(allowed_lateness='1 hour')",
    "filter": "a filter of the rows: rows.filter(…) before the pipeline, or WHERE in ev.sql(…)",
    "where": "a filter of the rows: rows.where(…) before the pipeline, or WHERE in ev.sql(…)",
    "select": "a selection of the rows: rows.select(…) before the pipeline, or ev.sql(…)",
    "windowBy": ".window(ev.tumbling('1 minute'))",
    "dropDuplicates": ".deduplicate()",
}

_PIPELINE = {
    "run": "ev.run(pipeline, rows, panes=…, checkpoint=…) on Spark, .local(rows) in this process",
    "start": "ev.run(pipeline, rows, panes=…, checkpoint=…) on Spark, .start_local() in this process",
    "transform": "events.transform(pipeline) of a Spark DataFrame",
    "show": ".local(rows).panes",
    "collect": ".local(rows).panes",
    "panes": ".local(rows).panes",
    "write": "ev.run(pipeline, rows, panes=sink, checkpoint=…)",
    "writeStream": "ev.run(pipeline, rows, panes=sink, checkpoint=…)",
    "window": "a second pipeline over the panes: ev.run([first, second], rows, …)",
}

FAMILIAR = {"eventide": _MODULE, "Stream": _STREAM, "Pipeline": _PIPELINE}


def no_attribute(owner: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an attribute that does not exist, with what is probably meant.

    It ends without a period, because Python adds a suggestion of its own where it has one.

    >>> no_attribute("eventide", "avg", [])
    'There is no eventide.avg: use ev.mean(column)'
    >>> no_attribute("Stream", "agregate", ["agg", "window"])
    'There is no Stream.agregate'
    >>> no_attribute("eventide", "tumblng", ["tumbling"])
    "There is no eventide.tumblng. Did you mean: 'tumbling'?"
    """
    familiar: Mapping[str, str] = FAMILIAR[owner]
    if name in familiar:
        return f"There is no {owner}.{name}: use {familiar[name]}"
    close = get_close_matches(name, [word for word in known if not word.startswith("_")], n=1, cutoff=0.7)
    return f"There is no {owner}.{name}" + (f". Did you mean: {close[0]!r}?" if close else "")

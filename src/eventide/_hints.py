"""Names that people know from elsewhere, and what they are called here: hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from eventide.errors import PlanError, did_you_mean, shown

P = ParamSpec("P")
T = TypeVar("T")

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
    "FixedWindows": "ev.tumbling(size)",
    "SlidingWindows": "ev.sliding(size, every)",
    "Sessions": "ev.sessions(gap)",
    "TimeWindows": "ev.tumbling(size)",
    "TumblingEventTimeWindows": "ev.tumbling(size)",
    "window": "ev.stream(…).window(ev.tumbling(size))",
    "session_window": "ev.sessions(gap)",
    "session": "ev.sessions(gap) for windows, ev.spark_session() for Spark",
    "count_rows": "ev.count()",
    "stddev": "ev.std(column)",
    "variance": "ev.var(column)",
    "percentile": "ev.quantile(column, 0.95)",
    "approx_count_distinct": "ev.approx_distinct(column)",
    "percentile_approx": "ev.approx_quantile(column, 0.95)",
    "n_unique": "ev.count_distinct(column)",
    "nunique": "ev.count_distinct(column)",
    "countDistinct": "ev.count_distinct(column)",
    "sort": "ev.collect_sorted(column)",
    "collect": "ev.collect_list(column)",
    "array_agg": "ev.collect_list(column)",
    "allowed_lateness": ".emit(allowed_lateness='1 hour') of a stream",
    "grace": ".emit(allowed_lateness='1 hour') of a stream",
    "watermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "with_watermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "withWatermark": 'ev.stream(time="ts", watermark="30 seconds")',
    "bounded_out_of_orderness": "ev.bounded_delay('30 seconds')",
    "lag": "ev.bounded_delay('30 seconds')",
    "clock_lag": "ev.processing_time('30 seconds')",
    "none": "ev.no_watermark()",
    "each": "ev.on_update()",
    "range": "ev.join(…, within=('-2 minutes', '0 seconds'))",
    "monotonous_timestamps": "ev.ascending()",
    "col": 'the name of a column, such as ev.sum("price")',
    "after_end_of_window": "ev.after_watermark()",
    "WindowAggregator": "eventide.standalone.WindowAggregator",
    "SessionAggregator": "eventide.standalone.SessionAggregator",
    "JoinWindow": "eventide.standalone.JoinWindow",
    "SessionJoinWindow": "eventide.standalone.SessionJoinWindow",
    "Refused": "eventide.standalone.Refused",
    "policies": "eventide.compat",
    "run": "pipeline.run(rows, sink=…, checkpoint=…)",
    "sql_pipeline": "ev.sql(query)",
    "readStream": "spark.readStream, ev.scan_parquet(…) or a Polars frame",
    "kafka": 'ev.scan_kafka(topic, servers="broker:9092", schema="ts timestamp, …")',
    "read_kafka": 'ev.scan_kafka(topic, servers="broker:9092", schema="ts timestamp, …")',
    "read_stream": "spark.readStream, ev.scan_parquet(…) or a Polars frame",
}

_EMITTED = {
    "allowed_lateness": ".window(…).emit(allowed_lateness='1 hour')",
    "allowedLateness": ".window(…).emit(allowed_lateness='1 hour')",
    "lateness": ".window(…).emit(allowed_lateness='1 hour')",
    "accumulating": ".window(…).emit(mode='accumulating')",
    "discarding": ".window(…).emit(mode='discarding')",
    "retracting": ".window(…).emit(mode='retracting')",
    "retain": ".window(…).emit(allowed_lateness='1 hour') for a time, .limit_state(rows=…) for rows, keep= of a join",
    "suppress": ".window(…).emit(): one pane when the window is complete is the default",
}

_WINDOW_FIRST = "{} after .window(…): windows have it, as in .window(ev.tumbling('1 minute')){}"

_STREAM = {
    "agg": ".window(ev.tumbling('1 minute')).agg(…), or .window(ev.global_window()).agg(…) for a window over all",
    "emit": _WINDOW_FIRST.format(".emit(…)", ".emit(early='10 seconds')"),
    "trigger": _WINDOW_FIRST.format(".trigger(…)", ".trigger(ev.on_update())"),
    "limit_state": _WINDOW_FIRST.format(".limit_state(…)", ".limit_state(rows=10_000)"),
    "local": ".agg(…) first: .window(ev.tumbling('1 minute')).agg(n=ev.count()).local(rows)",
    "run": ".agg(…) first, then pipeline.run(rows, sink=…, checkpoint=…)",
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
    **_EMITTED,
    "filter": "a filter of the rows: rows.filter(…) before the pipeline, or WHERE in ev.sql(…)",
    "where": "a filter of the rows: rows.where(…) before the pipeline, or WHERE in ev.sql(…)",
    "select": "a selection of the rows: rows.select(…) before the pipeline, or ev.sql(…)",
    "map": "rows.with_columns(…) before the pipeline, or an operator of your own: .process(processor, output=…)",
    "join": "ev.join(stream, other, within=…)",
    "union": "ev.union(stream, other)",
    "withColumn": "rows.withColumn(…) before the pipeline",
    "windowBy": ".window(ev.tumbling('1 minute'))",
    "dropDuplicates": ".deduplicate('id', within='1 hour')",
    "drop_duplicates": ".deduplicate('id', within='1 hour')",
    "dropDuplicatesWithinWatermark": ".deduplicate('id', within='1 hour')",
    "distinct": ".deduplicate('id', within='1 hour')",
}

_WINDOWED = {
    "window": "one window per pipeline: start again from the stream, or put a second pipeline behind this one",
    "process": ".process(…) of the stream, before .window(…)",
    "map_async": ".map_async(…) of the stream, before .window(…)",
    "deduplicate": ".deduplicate() of the stream, before .window(…)",
    **{name: _STREAM[name] for name in ("local", "run", "start_local", "aggregate", "count", "sum")},
    **_EMITTED,
}

_PIPELINE = {
    "start": "pipeline.run(rows, sink=…, checkpoint=…) on Spark, .start_local() in this process",
    "transform": "events.transform(pipeline) of a Spark DataFrame",
    "show": ".local(rows).panes",
    "collect": ".local(rows).panes",
    "to_pandas": ".local(rows).panes.to_pandas()",
    "open": ".start_local()",
    "agg": "a second pipeline over the panes: first.then(second)",
    "panes": ".local(rows).panes",
    "write": "pipeline.run(rows, sink=…, checkpoint=…)",
    "writeStream": "pipeline.run(rows, sink=…, checkpoint=…)",
    "window": "a second pipeline over the panes: first.then(second)",
}

_LATENESS = "How late rows may be is allowed_lateness= of .emit(…), after .window(…)."
_OPTIONS = {
    "bounded_delay": {"grace": _LATENESS, "allowed_lateness": _LATENESS, "idle_after": "Use idle_timeout=."},
    "stream": {"grace": _LATENESS, "allowed_lateness": _LATENESS, "unit": "Use time_unit=.", "by": "Use key=."},
    ".emit": {"grace": "Use allowed_lateness=.", "lateness": "Use allowed_lateness=."},
    ".run": {
        "trigger": "Use interval='10 seconds', or available_now=True.",
        "panes": "Use sink=.",
        "output": "Use sink=.",
        "checkpointLocation": "Use checkpoint=.",
        "availableNow": "Use available_now=True.",
    },
    "rows": {"offset": "Use by=, the column of offsets."},
    "join": {"over": "Use within=('-2 minutes', '0 seconds') for times, or last=3 for the last rows."},
}

FAMILIAR = {
    "eventide": _MODULE,
    "Stream": _STREAM,
    "WindowedStream": _WINDOWED,
    "Pipeline": _PIPELINE,
    "SqlPipeline": _PIPELINE,
}


def with_option_hints(function: Callable[P, T]) -> Callable[P, T]:
    """A function that names the option which is meant by one that it does not have, or that has no name.

    >>> @with_option_hints
    ... def rows(size, *, by=None): ...
    >>> rows(3, offset="n")
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: rows() has no option 'offset'. Use by=, the column of offsets.
    >>> rows(3, "n")
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: rows(…, 'n'): say what it is, such as by='n'. The options are: by.
    """
    parameters = signature(function).parameters
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    options = [name for name, kind in kinds.items() if kind is kind.KEYWORD_ONLY]
    known = [name for name, kind in kinds.items() if name != "self" and kind is not kind.VAR_POSITIONAL]
    most = None if any(kind is kind.VAR_POSITIONAL for kind in kinds.values()) else len(kinds) - len(options)
    called = ("." if "self" in kinds else "") + function.__name__

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> T:
        for name in named:
            if name not in kinds:
                hint = _OPTIONS.get(called, {}).get(name) or did_you_mean(name, known)
                raise PlanError(f"{called}() has no option {name!r}. {hint}")
        if most is not None and len(args) > most and options:
            raise _without_name(called, args[most], options)
        return function(*args, **named)

    return checked


def _without_name(called: str, value: Any, options: Iterable[str]) -> PlanError:
    first, *_ = names = list(options)
    return PlanError(
        f"{called}(…, {shown(value)}): say what it is, such as {first}={shown(value)}. "
        f"The options are: {', '.join(names)}."
    )


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

"""Options and arguments as people write them, and what they are called here; ``_hints`` makes messages of them."""

from __future__ import annotations

from collections.abc import Mapping

_LATENESS = "How late rows may be is allowed_lateness= of .emit(…), after .window(…)."
_AGGREGATE = {"filter": "Use where=.", "condition": "Use where=.", "when": "Use where=.", "col": "Use column=."}
_WATERMARK = {"idle_after": "Use idle_timeout=.", "grace": _LATENESS, "allowed_lateness": _LATENESS}
_INTERVAL = "How often batches run is interval= of pipeline.run(…)."

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "stream": {
        "grace": _LATENESS,
        "allowed_lateness": _LATENESS,
        "unit": "Use time_unit=.",
        "by": "Use key=.",
        "ts": "Use time=.",
        "timestamp": "Use time=.",
        "delay": "Use watermark=.",
        "lag": "Use watermark=.",
    },
    **dict.fromkeys(("bounded_delay", "ascending", "processing_time", "punctuated"), _WATERMARK),
    "tumbling": {"every": "Windows that overlap are ev.sliding(size, every).", "length": "Use size=."},
    "sliding": {
        "slide": "Use every=.",
        "step": "Use every=.",
        "hop": "Use every=.",
        "period": "Use every=.",
        "length": "Use size=.",
    },
    "sessions": {"timeout": "Use gap=, or max_duration= for the longest session.", "max_length": "Use max_duration=."},
    "calendar": {"timezone": "Use tz=.", "time_zone": "Use tz=.", "zone": "Use tz=."},
    "rows": {"offset": "Use by=, the column of offsets.", "step": "Use every=."},
    ".window": {"at": "Use output_time=.", "timestamp_combiner": "Use output_time=."},
    ".emit": {
        "grace": "Use allowed_lateness=.",
        "lateness": "Use allowed_lateness=.",
        "every": "Use early=.",
        "accumulation_mode": "Use mode=.",
        "fire_only_updated": "Use skip_unchanged=.",
        "trigger": "Use .trigger(…) in place of .emit(…).",
        "interval": _INTERVAL,
    },
    ".trigger": {
        "early": "Use .emit(early=…), or ev.after_watermark(early=…).",
        "late": "Use .emit(late=…), or ev.after_watermark(late=…).",
        "accumulation_mode": "Use mode=.",
        "fire_only_updated": "Use skip_unchanged=.",
        "interval": _INTERVAL,
        "processingTime": f"It says when panes are emitted. {_INTERVAL}",
        "availableNow": "It says when panes are emitted. Use available_now=True of pipeline.run(…).",
    },
    ".limit_state": {"time": "Use .emit(allowed_lateness=…).", "lateness": "Use .emit(allowed_lateness=…)."},
    ".run": {
        "trigger": "Use interval='10 seconds', or available_now=True.",
        "processingTime": "Use interval='10 seconds'.",
        "panes": "Use sink=.",
        "output": "Use sink=.",
        "checkpointLocation": "Use checkpoint=.",
        "availableNow": "Use available_now=True.",
        "once": "Use available_now=True.",
        "outputMode": "Use .emit(mode=…) of the stream; a table sink applies the retractions.",
        "spark": "The session is that of the DataFrame, or the active one.",
    },
    ".local": {"sink": "The panes are .local(rows).panes.", "checkpoint": "A run in this process has none."},
    "join": {
        "over": "Use within=('-2 minutes', '0 seconds') for times, or last=3 for the last rows.",
        "window": "Rows of the same window are joined by ev.window_join(…).",
        "key": "Use on=, or key= of both streams.",
    },
    ".push": {"clock": "Use now=.", "at": "Use now=.", "time": "Use now=."},
    ".advance_watermark": {"by": "Use to=, the instant.", "at": "Use to=.", "watermark": "Use to=."},
    ".skip_gap": {"to": "Use up_to=.", "until": "Use up_to=."},
    ".idle": {"seconds": "Write .idle('5 seconds').", "until": "Use to=."},
    ".advance_processing_time": {"seconds": "Write .advance_processing_time('5 seconds').", "until": "Use to=."},
    "scan_kafka": {"bootstrap_servers": "Use servers=.", "bootstrapServers": "Use servers=."},
    **dict.fromkeys(("count", "count_distinct", "sum", "mean", "min", "max", "first", "last"), _AGGREGATE),
    "top_n": {"by": "The keys with the greatest values of a column are ev.top_n_by_key(value, key, n).", **_AGGREGATE},
    "first": {"by": "The first value by another column is ev.min_by(column, by).", **_AGGREGATE},
    "last": {"by": "The last value by another column is ev.max_by(column, by).", **_AGGREGATE},
}

# What a call looks like, for one that lacks an argument.
EXAMPLES: Mapping[str, str] = {
    "stream": 'ev.stream("ts", key="shop", watermark="30 seconds")',
    "tumbling": 'ev.tumbling("1 minute")',
    "sliding": 'ev.sliding("10 minutes", "1 minute")',
    "sessions": 'ev.sessions("10 minutes")',
    "cumulate": 'ev.cumulate("1 hour", "1 day")',
    "rows": "ev.rows(100)",
    "calendar": 'ev.calendar("month", tz="Europe/Berlin")',
    "bounded_delay": 'ev.bounded_delay("30 seconds")',
    "processing_time": 'ev.processing_time("1 minute")',
    "punctuated": 'ev.punctuated("mark")',
    "every": 'ev.every("10 seconds")',
    "sum": 'ev.sum("price")',
    "quantile": 'ev.quantile("price", 0.95)',
    "approx_quantile": 'ev.approx_quantile("price", 0.95)',
    "top_n": 'ev.top_n("price", 3)',
    "max_by": 'ev.max_by("shop", "price")',
    "min_by": 'ev.min_by("shop", "price")',
    "join": 'ev.join(orders, payments, within=("0 seconds", "1 hour"))',
    "window_join": 'ev.window_join(orders, payments, window=ev.tumbling("1 minute"))',
    "scan_kafka": 'ev.scan_kafka("orders", servers="broker:9092", schema="ts timestamp, shop string")',
    "sql": 'ev.sql("SELECT …")',
    "pipeline": "events.transform(pipeline) with a DataFrame of Spark, or pipeline.local(rows) in this process",
    "cogroup": "ev.cogroup({'orders': orders, 'visits': visits}, window=ev.tumbling('1 minute'))",
    "configure": "ev.configure(SparkSession.builder)",
    "table": 'sinks.table("sqlite:///shop.db", name="revenue")',
    ".window": '.window(ev.tumbling("1 minute"))',
    ".trigger": '.trigger(ev.every("10 seconds"))',
    ".process": '.process(Alert(), output={"shop": pl.String})',
    ".map_async": '.map_async(look_up, output={"country": pl.String})',
    ".local": ".local(rows)",
    ".run": '.run(orders, sink="sqlite:///shop.db#revenue", checkpoint="checkpoints/revenue")',
    "TestStream": "TestStream(pipeline)",
    ".then": "first.then(second)",
    ".advance_watermark": ".advance_watermark('2026-03-01T12:05:00Z')",
    ".expect_watermark": ".expect_watermark('12:05')",
    ".retire": ".retire('till')",
    ".lower_watermark": ".lower_watermark('2026-03-01T12:00:00Z')",
    ".pass_deadlines": ".pass_deadlines('2026-03-01T12:05:00Z')",
    ".picture": ".picture('test.html')",
}

# What is probably meant by an argument without a name.
UNNAMED: Mapping[str, str] = {
    **dict.fromkeys(("bounded_delay", "ascending", "processing_time", "punctuated"), "origin"),
    "scan_kafka": "servers",
    "sessions": "max_duration",
}
TOO_MANY: Mapping[str, str] = {
    "after_watermark": "For earlier panes write after_watermark(early=ev.every('10 seconds')).",
    "no_watermark": "A delay is ev.bounded_delay('30 seconds').",
    **dict.fromkeys(
        ("count", "sum", "mean", "min", "max"), "Each result has one column: a=ev.sum('x'), b=ev.sum('y')."
    ),
    "pane": "Name the fields: pane(user='a', total=5).",
    "retraction": "Name the fields: retraction(user='a', total=5).",
    ".then": "Chain them one by one: first.then(second).then(third).",
    "quantile": "Each result has one quantile: p50=ev.quantile('x', 0.5), p90=ev.quantile('x', 0.9).",
}
TOO_MANY_VALUES: Mapping[str, str] = {  # frames, streams, pipelines and the like
    ".window": "A pipeline has one kind of window; .then(…) adds a second pipeline.",
    ".local": "Several bundles are a list: .local([first, second]).",
    ".trigger": "Combine triggers, as in ev.any_of(first, second).",
    "join": "More than two streams are joined one after the other, or united by ev.union(…).",
    "cogroup": "Name the streams: ev.cogroup({'orders': orders, 'visits': visits}, window=…).",
    "TestStream": "Several pipelines are one value: first.then(second).",
}

# Commands and options of the command line.
COMMANDS: Mapping[str, str] = {
    "control": "drain, retire, skip-gap, advance-watermark or end",
    "note": "advance-watermark",
    "skip": "skip-gap",
    "start": "run",
    "submit": "run",
    "stop": "drain to close all windows, or Ctrl-C in the process of the query",
    "cancel": "drain to close all windows, or Ctrl-C in the process of the query",
    "status": "inspect",
    "list": "inspect for one query, or dashboard for all queries of a directory",
    "metrics": "inspect",
    "test": "run --local",
    "backfill": "run --available-now",
    "check": "doctor",
}
COMMAND_OPTIONS: Mapping[str, str] = {
    "--once": "--available-now",
    "--batch": "--available-now",
    "--processing-time": "--interval",
    "--every": "--interval",
    "--output": "--sink",
    "--out": "--sink",
    "--to": "--sink",
    "--panes": "--sink",
    "--dead-letters": "--dead",
    "--checkpoint-location": "--checkpoint",
    "--checkpoint-dir": "--checkpoint",
    "--config": "--conf",
}

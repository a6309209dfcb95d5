"""Mistakes that people make, and the messages that they get. The code is followed by its message.

``python -m tests.plan.test_mistakes`` writes the real messages into this file.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import eventide as ev
from eventide import sinks
from eventide.standalone import WindowAggregator
from eventide.testing import TestStream, pane
from tests.cli.typed import typed

MISTAKES = """
## Columns

>>> counts.local(rows.rename({"ts": "time"}))
time: there is no column 'ts' in the rows. There are: 'time', 'shop', 'price'.

>>> counts.local(rows.rename({"shop": "store"}))
key: there is no column 'shop' in the rows. There are: 'ts', 'store', 'price'.

>>> minutes.agg(total=ev.sum("prise")).local(rows)
sum(prise): there is no column 'prise'. Did you mean 'price'?

>>> minutes.agg(total=ev.sum("shop")).local(rows)
sum(shop): column 'shop' is String, but sum needs numbers. Cast it to a number first, or use ev.collect_list('shop')
to gather texts.

>>> minutes.agg(shop=ev.count())
.agg(shop=…): 'shop' is a key column. Choose another name for this result.

>>> minutes.agg(diff=ev.count())
.agg(diff=…): 'diff' is a column that every pane has. Choose another name for this result.

>>> ev.stream(rows)
time=a value of type DataFrame: name the column of the event time, or use time=ev.ingestion_time() if there is none.

>>> ev.stream("ts", key=rows["shop"])
key=a value of type Series: a key is a column name, or a list of column names.

>>> ev.stream("ts", "shop")
stream(…, 'shop'): say what it is, such as key='shop'. The options are: key, watermark, time_unit.

>>> ev.stream("ts", keys="shop")
stream() has no option 'keys'. Did you mean 'key'?

>>> ev.stream(key="shop")
stream() needs time=. Write for example ev.stream("ts", key="shop", watermark="30 seconds").

>>> ev.stream("ts", key=pl.col("shop").str.to_lowercase())
key=a value of type Expr: a key is a column name, or a list of column names. Compute the column before:
rows.with_columns(…).

>>> ev.stream("ts", key=["shop", "shop"])
key: the column 'shop' is named twice.

>>> ev.stream("ts", time="sent")
stream() has time= twice, with its name and without it. Leave one out.

>>> ev.stream("ts", delay="30 seconds")
stream() has no option 'delay'. Use watermark=.

## Durations

>>> ev.tumbling("1")
size of tumbling()='1' is not a duration. Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M', or a
timedelta.

>>> ev.tumbling(60)
size of tumbling()=60 has no unit. Write it with one, as in '30 seconds', '5m' or '250ms'.

>>> ev.tumbling("1 mintue")
size of tumbling()='1 mintue': there is no unit of time 'mintue'. Did you mean 'minute'?

>>> ev.tumbling("1 month")
size of tumbling()='1 month': a month has no fixed length, so it cannot be a duration. For windows of whole months
use calendar('month'); otherwise write days, such as '30 days'.

>>> ev.tumbling("-1 minute")
size of tumbling()='-1 minute' must not be negative.

## Windows

>>> stream.agg(n=ev.count())
There is no Stream.agg: use .window(ev.tumbling('1 minute')).agg(…), or .window(ev.global_window()).agg(…) for a
window over all

>>> stream.window("1 minute")
'1 minute' is not a window. Name its kind, such as ev.tumbling('1 minute').

>>> stream.window(ev.tumbling)
.window() needs a window, not the function tumbling. Call it: ev.tumbling(…).

>>> ev.cumulate("1 day", "6 hours")
cumulate(step, size): the step is longer than the window. Swap them: ev.cumulate('6h', '1d').

>>> ev.sliding("1 minute", "10 minutes")
sliding(size, every): windows of 1m every 10m leave gaps, whose rows belong to no window. Swap them:
ev.sliding('10m', '1m'). If gaps are meant, add gaps='allowed'.

>>> ev.sliding("1 minute", "10 minutes", gaps=True)
sliding(gaps=True): write gaps='allowed', or leave it out.

>>> ev.sql("SELECT COUNT(*) AS n FROM HOP(orders, DESCRIPTOR(ts), 10 minutes, 1 minute)")
sliding(size, every): windows of 1m every 10m leave gaps, whose rows belong to no window. Swap them:
ev.sliding('10m', '1m'). If gaps are meant, add gaps='allowed'. line 1, column 27: SELECT COUNT(*) AS n FROM
HOP(orders, DESCRIPTOR(ts), 10 minutes, 1 minute) ^^^

>>> ev.calendar("day", tz="Berlin")
There is no time zone 'Berlin'. Did you mean 'Europe/Berlin'?

>>> ev.calendar("fortnight")
calendar(): there is no unit 'fortnight'. There are: 'hour', 'day', 'week', 'month', 'quarter', 'year'.

>>> ev.rows("100")
size='100' is not a number of rows: it must be an integer of at least 1. For windows in time use tumbling() or
sliding().

>>> ev.rows(100, offset="number")
rows() has no option 'offset'. Use by=, the column of offsets.

>>> ev.tumbling("1 day", "6 hours")
tumbling(…, '6 hours'): say what it is, such as offset='6 hours'. The options are: offset.

>>> ev.sessions("10 minutes", "1 hour")
sessions(…, '1 hour'): say what it is, such as max_duration='1 hour'. The options are: touching, max_duration.

>>> ev.sessions("30 minutes", max_duration="10 minutes")
sessions(): max_duration (10m) is shorter than gap (30m), so that even a single row's session would be cut. Make
max_duration at least as long as gap.

>>> stream.window()
.window() needs kind=. Write for example .window(ev.tumbling("1 minute")).

>>> stream.window(60)
.window() needs a window such as ev.tumbling('1 minute'), not 60.

>>> stream.window(ev.tumbling("1 minute"), ev.sessions("1 minute"))
.window(…, sessions with gap 1m): too many arguments. A pipeline has one kind of window; .then(…) adds a second
pipeline.

>>> stream.window(ev.tumbling("1 minute"), at="end")
.window() has no option 'at'. Use output_time=.

>>> ev.sliding("10 minutes")
sliding() needs every=. Write for example ev.sliding("10 minutes", "1 minute").

>>> ev.sliding("10 minutes", slide="1 minute")
sliding() has no option 'slide'. Use every=.

>>> ev.tumbling("1 minute", every="10 seconds")
tumbling() has no option 'every'. Windows that overlap are ev.sliding(size, every).

>>> ev.global_window("1 day")
global_window('1 day'): it takes no arguments.

>>> ev.calendar("day", timezone="Europe/Berlin")
calendar() has no option 'timezone'. Use tz=.

>>> ev.inherit(5)
inherit(5): it takes no arguments.

## Watermarks

>>> ev.stream("ts", watermark=30)
watermark=30 has no unit. Write it with one: watermark='30 seconds'.

>>> ev.stream("ts", watermark="soon")
delay of bounded_delay()='soon' is not a duration. Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M',
or a timedelta.

>>> ev.stream("ts", watermark=ev.bounded_delay)
watermark=the function bounded_delay is not a watermark. Call it: ev.bounded_delay(…).

>>> ev.stream("ts", watermark=ev.tumbling("1 minute"))
watermark=tumbling 1m: use a watermark such as watermark=ev.bounded_delay('30 seconds').

>>> ev.bounded_delay("30 seconds", grace="1 hour")
bounded_delay() has no option 'grace'. How late rows may be is allowed_lateness= of .emit(…), after .window(…).

>>> ev.bounded_delay("30 seconds", idle_timout="1 hour")
bounded_delay() has no option 'idle_timout'. Did you mean 'idle_timeout'?

>>> ev.bounded_delay("30 seconds", "partition")
bounded_delay(…, 'partition'): say what it is, such as origin='partition'. The options are: at_latest, origin,
sequence, first_sequence, gaps, gap_timeout, chunk, last_chunk, first_chunk, idle_timeout, on_return, forget_after,
expect_origins, origins_timeout, max_future_skew, watermark_key.

>>> ev.no_watermark("30 seconds")
no_watermark('30 seconds'): too many arguments. A delay is ev.bounded_delay('30 seconds').

## Triggers

>>> minutes.emit(early=10)
early of .emit()=10 has no unit. Write it with one, as in '30 seconds', '5m' or '250ms'.

>>> minutes.emit("10 seconds")
.emit('10 seconds'): name the argument, such as .emit(early='10 seconds') or .emit(allowed_lateness='10 seconds').

>>> minutes.emit(early="10")
early of .emit()='10' is not a duration. Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M', or a
timedelta.

>>> minutes.emit(allowed_lateness="soon")
allowed_lateness of .emit()='soon' is not a duration. Write a duration such as '30 seconds', '5m', '1h 30m',
'PT1H30M', or a timedelta.

>>> minutes.emit(grace="1 hour")
.emit() has no option 'grace'. Use allowed_lateness=.

>>> minutes.emit(mode="update")
.emit(): mode='update' is not known. There are: 'accumulating', 'discarding', 'retracting'.

>>> minutes.emit(mode="RETRACTING")
.emit(): mode='RETRACTING' is not known. Did you mean 'retracting'?

>>> minutes.emit(late=ev.on_update())
.emit(): late=… emits panes for late rows, but no row may be late. Add allowed_lateness='1 hour', or remove late=.

>>> minutes.trigger("10 seconds")
.trigger() needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not '10 seconds'.

>>> minutes.trigger(ev.every)
.trigger() needs a trigger such as ev.after_watermark() or ev.every('10 seconds'), not the function every. Call it:
every(…).

>>> minutes.trigger(ev.after_count(5)).agg(n=ev.count())
The trigger 'after 5 rows' may lose data: it can finish before the window is complete: rows that arrive afterwards
would never be emitted. Wrap it in ev.repeatedly(…), or use it as early= of ev.after_watermark(). To accept it, use
.trigger(…, may_lose_data=True).

>>> minutes.emit(early=True)
early of .emit()=True is a bool, not a duration. Write a duration such as '30 seconds', '5m', '1h 30m', 'PT1H30M',
or a timedelta.

>>> minutes.emit(trigger=ev.on_update())
.emit() has no option 'trigger'. Use .trigger(…) in place of .emit(…).

>>> minutes.emit(accumulation_mode="discarding")
.emit() has no option 'accumulation_mode'. Use mode=.

>>> minutes.trigger()
.trigger() needs trigger=. Write for example .trigger(ev.every("10 seconds")).

>>> minutes.trigger(ev.on_update(), ev.every("10 seconds"))
.trigger(…, repeatedly (10s of processing time after the first new row)): too many arguments. Combine triggers, as
in ev.any_of(first, second).

>>> minutes.trigger(processingTime="10 seconds")
.trigger() has no option 'processingTime'. It says when panes are emitted. How often batches run is interval= of
pipeline.run(…).

>>> ev.after_watermark("10 seconds")
after_watermark('10 seconds'): too many arguments. For earlier panes write after_watermark(early=ev.every('10
seconds')).

>>> minutes.limit_state(time="1 hour")
.limit_state() has no option 'time'. Use .emit(allowed_lateness=…).

>>> minutes.limit_state(bytes="plenty")
.limit_state(bytes='plenty'): give a size such as '64m' or '1g', or an integer.

>>> minutes.limit_state(rows="10k")
.limit_state(rows='10k'): give an integer of at least 1.

>>> minutes.limit_state(10_000)
.limit_state(10000): say what it is, such as rows=10000. The options are: rows, bytes.

## Aggregates

>>> minutes.agg()
There is no aggregate. Write for example n=ev.count(), total=ev.sum("price").

>>> minutes.agg(ev.count())
.agg(count()): each result has a name, such as .agg(n=ev.count()).

>>> minutes.agg(n=ev.count("*"))
ev.count('*'): to count rows, write ev.count(). To count the values of a column, name it.

>>> minutes.agg(n=ev.sum(5))
sum takes the name of a column, not 5. Write for example ev.sum("price").

>>> ev.sum(pl.col("price").map_elements(abs, return_dtype=pl.Int64))
sum: col("price").python_udf() contains a Python function, or a part that cannot be checked to read one row at a
time. Compute the column before: rows.with_columns(…). For a Python function over the rows of a window use
ev.fold(…).

>>> ev.sum(pl.col("price").map_batches(abs, return_dtype=pl.Int64))
sum: col("price").python_udf() contains a Python function, or a part that cannot be checked to read one row at a
time. Compute the column before: rows.with_columns(…). For a Python function over the rows of a window use
ev.fold(…).

>>> ev.sum("price", where=pl.col("shop").map_elements(len, return_dtype=pl.Int64) > 4)
sum(where=…): [(col("shop").python_udf()) > (dyn int: 4)] contains a Python function, or a part that cannot be
checked to read one row at a time. Compute the column before: rows.with_columns(…). For a Python function over the
rows of a window use ev.fold(…).

>>> ev.sum(pl.element())
sum: element() is an element of a list, not a column. Name the column, such as pl.col('price').

>>> minutes.agg(n=ev.count)
n=the function count is not an aggregate. Call it: n=ev.count().

>>> minutes.agg(n=ev.sum)
n=the function sum is not an aggregate. Call it: n=ev.sum(column).

>>> minutes.agg(n="count")
n='count' is not an aggregate. Write n=ev.count().

>>> minutes.agg(n="sum")
n='sum' is not an aggregate. Call it with a column: n=ev.sum(column).

>>> minutes.agg(n="price")
n='price' is not an aggregate. Name what to do with the column: n=ev.sum('price').

>>> minutes.agg(n=len)
n=the function len is not an aggregate. Write for example n=ev.sum("price").

>>> ev.quantile("price", 95)
quantile: q=95 is not between 0 and 1. For percent, divide by 100: 0.95.

>>> ev.top_n("price", 0)
top_n: n=0 is not a whole number of at least 1.

>>> ev.top_n("price", 3, by="shop")
top_n() has no option 'by'. The keys with the greatest values of a column are ev.top_n_by_key(value, key, n).

>>> ev.count(where="price > 3")
count: where='price > 3' would be the name of a column. Write the condition as an expression: where=pl.col('price')
> 3.

>>> ev.sum()
sum() needs column=. Write for example ev.sum("price").

>>> ev.sum("price", "tax")
sum(…, 'tax'): too many arguments. Each result has one column: a=ev.sum('x'), b=ev.sum('y').

>>> ev.sum("price", filter="paid")
sum() has no option 'filter'. Use where=.

>>> ev.mean(None)
mean takes the name of a column, not None. Write for example ev.mean("price").

>>> ev.quantile("price")
quantile() needs q=. Write for example ev.quantile("price", 0.95).

>>> ev.quantile("price", 0.5, 0.9)
quantile(…, 0.9): too many arguments. Each result has one quantile: p50=ev.quantile('x', 0.5), p90=ev.quantile('x',
0.9).

>>> ev.max_by("shop")
max_by() needs by=. Write for example ev.max_by("shop", "price").

>>> ev.first("price", by="ts")
first() has no option 'by'. The first value by another column is ev.min_by(column, by).

>>> minutes.agg(n="sum(price)")
n='sum(price)' is not an aggregate. Write n=ev.sum('price').

>>> minutes.agg(n="avg(price)")
n='avg(price)' is not an aggregate. Write n=ev.mean('price').

>>> minutes.agg(n="avg")
n='avg' is not an aggregate. Write n=ev.mean(column).

>>> minutes.agg(n="nunique")
n='nunique' is not an aggregate. Write n=ev.count_distinct(column).

>>> minutes.agg(n="SUM(price)")
n='SUM(price)' is not an aggregate. Write n=ev.sum('price').

>>> minutes.agg(n="sum(price * 2)")
n='sum(price * 2)' is not an aggregate. Write n=ev.sum(expression) with an expression of Polars, such as
pl.col('price') * 2.

>>> minutes.agg(n="quantile")
n='quantile' is not an aggregate. Call it with a column: n=ev.quantile(column, 0.95).

>>> minutes.agg(n="p95")
n='p95' is not an aggregate. Write n=ev.quantile(column, 0.95).

>>> minutes.agg(n=pl.col("price").mean())
n=col("price").mean() is not an aggregate. Write n=ev.mean('price').

>>> minutes.agg(n=pl.col("price").count())
n=col("price").count() is not an aggregate. Write n=ev.count('price').

>>> minutes.agg(n=pl.len())
n=len() is not an aggregate. Write n=ev.count().

>>> minutes.agg(n=(pl.col("price") * 2).sum())
n=[(col("price")) * (dyn int: 2)].sum() is not an aggregate. Pass the expression without .sum():
n=ev.sum(expression).

>>> minutes.agg(n=pl.col("price") * 2)
n=[(col("price")) * (dyn int: 2)] is not an aggregate. Name what to do with the values: n=ev.sum(expression).

>>> minutes.agg(n=pl.col("price").sum() / pl.col("tax").sum())
n=[(col("price").sum()) / (col("tax").sum())] is not an aggregate. Write an aggregate for each part, such as
n=ev.sum('price'), and compute the rest from the panes.

>>> minutes.agg(n=("price", "mean"))
n=('price', 'mean') is not an aggregate. Write n=ev.mean('price').

>>> minutes.agg(pl.col("price").mean().alias("average"))
.agg(col("price").mean().alias("average")): each result has a name, such as .agg(average=ev.mean('price')).

>>> minutes.agg({"price": "mean"})
.agg({'price': 'mean'}): each result has a name, such as .agg(n=ev.mean('price')).

## Calls

>>> counts.then()
.then() needs following=. Write for example first.then(second).

>>> counts.then(counts, counts)
.then(…, a value of type Pipeline): too many arguments. Chain them one by one: first.then(second).then(third).

>>> counts.explain(1)
.explain(1): it takes no arguments.

>>> counts.local(rows.rename({"ts": "_c0", "shop": "_c1", "price": "_c2"}))
key: there is no column 'shop' in the rows. There are: '_c0', '_c1', '_c2'. If the first line of the CSV files has
the names, add ?header=true to their address.

>>> counts.local(rows.select("ts").rename({"ts": "ts;shop;price"}))
key: there is no column 'shop' in the rows. There are: 'ts;shop;price'. If the CSV files are separated by ';', add
sep= to their address.

>>> counts.start_local(rows.schema).push(rows, now="12:00")
instant='12:00' is a time of day without a date. Write an instant such as '2024-05-01T12:00:00Z', or give a datetime
or a date.

>>> counts.start_local(rows.schema).push(rows, clock=5)
.push() has no option 'clock'. Use now=.

>>> counts.start_local(rows.schema).skip_gap("till", to=5)
.skip_gap() has no option 'to'. Use up_to=.

>>> counts.start_local(rows.schema).retire()
.retire() needs origin=. Write for example .retire('till').

>>> TestStream(counts).add({"ts": "12:00 PM"})
ts='12:00 PM' is not a time. Write '12:00' or '12:00:30.5' for a time on the day of the test, TestStream(day=…), or
ISO-8601 with its date, such as '2026-03-01T12:00:00Z'.

>>> TestStream(counts).advance_watermark()
.advance_watermark() needs to=. Write for example .advance_watermark('2026-03-01T12:05:00Z').

>>> TestStream(counts).advance_watermark(by="10 seconds")
.advance_watermark() has no option 'by'. Use to=, the instant.

>>> TestStream(counts).idle(seconds=5)
.idle() has no option 'seconds'. Write .idle('5 seconds').

>>> TestStream(counts).expect_dead(reasn="null_time")
.expect_dead() has no option 'reasn'. Did you mean 'reason'?

>>> TestStream(counts).expect_watermark()
.expect_watermark() needs at=. Write for example .expect_watermark('12:05').

>>> TestStream(counts, day="12:00")
day='12:00' is a time of day without a date. Write an instant such as '2024-05-01T12:00:00Z', or give a datetime or
a date.

>>> pane("kiel", 5)
pane('kiel'): too many arguments. Name the fields: pane(user='a', total=5).

## Rows

>>> counts.local(pd.DataFrame({"ts": []}))
rows must be a Polars or Arrow frame (or a list of them, one a bundle), not a pandas DataFrame. Convert it with
polars.from_pandas(rows).

>>> counts.local(rows.lazy())
rows must be a Polars or Arrow frame (or a list of them, one a bundle), not LazyFrame. Collect a LazyFrame first:
rows.collect().

>>> counts.local({"ts": ["2026-03-01"]})
rows must be a Polars or Arrow frame (or a list of them, one a bundle), not dict. For a list or a dict use
polars.DataFrame(rows).

>>> counts.local([{"ts": "2026-03-01"}])
rows must be a Polars or Arrow frame (or a list of them, one a bundle), not dict. For a list or a dict use
polars.DataFrame(rows).

>>> counts.local("orders")
The source 'orders': there is no kind 'orders'. Kinds are: parquet, json, csv, orc, kafka, eventide, rate. For a
directory write orders/.

>>> counts.local(rows, clock="12:00")
clock='12:00': give a list with the batch time of each bundle.

>>> counts.run("data/orders/", sink="console", checkpoint="checkpoints/counts", trigger="10 seconds")
.run() has no option 'trigger'. Use interval='10 seconds', or available_now=True.

>>> counts.local(rows, bundle_by="arrived")
bundle_by='arrived': there is no column 'arrived'. There are: 'ts', 'shop', 'price'.

>>> counts.run(rows, sink="console", checkpoint="checkpoints/counts")
.run() takes a DataFrame of Spark, or an address such as 'data/orders/', not a DataFrame of polars. In this process,
without Spark: pipeline.local(rows). On Spark: spark.createDataFrame(…).

>>> counts.run(rows.to_pandas(), sink="console", checkpoint="checkpoints/counts")
.run() takes a DataFrame of Spark, or an address such as 'data/orders/', not a DataFrame of pandas. In this process,
without Spark: pipeline.local(rows). On Spark: spark.createDataFrame(…).

>>> counts.run(5, sink="console", checkpoint="checkpoints/counts")
.run() takes a DataFrame of Spark, or an address such as 'data/orders/', not 5. In this process, without Spark:
pipeline.local(rows). On Spark: spark.createDataFrame(…).

>>> stream.deduplicate("id", "1 hour")
.deduplicate('id', '1 hour'): name the period: .deduplicate('id', within='1 hour').

>>> stream.deduplicate(["id", "till"], within="1 hour")
.deduplicate(['id', 'till']): pass the names without a list: .deduplicate('id', 'till', within='1 hour').

>>> counts.local([])
local([]): there is no frame, so the columns are not known. Give at least one, which may have no rows.

>>> counts.local(rows, clock=["12:00"])
clock='12:00' is a time of day without a date. Write an instant such as '2024-05-01T12:00:00Z', or give a datetime
or a date.

>>> counts.local(rows, bundle_by="shop")
bundle_by='shop': the column is String and has no times. Name the column of arrival times, such as
bundle_by='arrived_at', or give a number of rows.

>>> counts()
pipeline() needs rows=. Write for example events.transform(pipeline) with a DataFrame of Spark, or
pipeline.local(rows) in this process.

>>> counts | counts
Pipelines have no operator |. Chain them: first.then(second).

>>> stream | stream
Streams have no operator |. Unite them: ev.union(first, second).

>>> ev.configure()
configure() needs builder=. Write for example ev.configure(SparkSession.builder).

>>> counts.local()
.local() needs rows=. Write for example .local(rows).

>>> counts.local(rows, rows)
.local(…, a value of type DataFrame): too many arguments. Several bundles are a list: .local([first, second]).

>>> counts.run("data/orders/")
.run() needs sink= and checkpoint=. Write for example .run(orders, sink="sqlite:///shop.db#revenue",
checkpoint="checkpoints/revenue").

>>> counts.run("data/orders/", sink="console")
.run() needs checkpoint=. Write for example .run(orders, sink="sqlite:///shop.db#revenue",
checkpoint="checkpoints/revenue").

>>> counts.run("data/orders/", sink="console", checkpoint="")
run(checkpoint=''): name a directory for the state and the progress of this query, such as
checkpoint='checkpoints/revenue'.

>>> counts.run("data/orders/", sink="consol", checkpoint="checkpoints/counts")
The sink 'consol': there is no kind 'consol'. Did you mean 'console'? Kinds are: console, noop, parquet, json, csv,
orc, sqlite, postgresql, delta, iceberg, kafka, eventide. For a directory write consol/.

>>> counts.run("data/orders/", sink="console", checkpoint="checkpoints/counts", state="auto")
run(state='auto'): state is kept in the 'driver' or on the 'executors'.

>>> counts.run("data/orders/", sink="console", checkpoint="checkpoints/counts", once=True)
.run() has no option 'once'. Use available_now=True.

>>> counts(rows)
df.transform(pipeline) and pipeline(df) take DataFrames of Spark, not a DataFrame of polars. In this process,
without Spark: pipeline.local(rows). On Spark: spark.createDataFrame(…).

>>> counts.start_local(rows)
start_local(schema=a value of type DataFrame): name the columns and their types, such as rows.schema or {'ts':
pl.String, 'price': pl.Int64}.

>>> ev.sql(5)
The query is int. Give it as a text: ev.sql('SELECT …').

## Joins

>>> ev.join(counts, stream, within="1 minute")
join: the input 'left' is a pipeline, not a stream. Describe its panes as a stream here, such as
ev.stream('window_time', key='shop', watermark='0 seconds'), and give the panes as the rows of this input.

>>> ev.union(stream, counts)
union: input 2 is a pipeline, not a stream. Describe its panes as a stream here, such as ev.stream('window_time',
key='shop', watermark='0 seconds'), and give the panes as the rows of this input.

>>> ev.cogroup(stream, stream)
cogroup(…, a value of type Stream): too many arguments. Name the streams: ev.cogroup({'orders': orders, 'visits':
visits}, window=…).

>>> ev.cogroup(stream, stream, window=ev.tumbling("1 minute"))
cogroup(…, a value of type Stream): too many arguments. Name the streams: ev.cogroup({'orders': orders, 'visits':
visits}, window=…).

>>> ev.join(stream, stream)
join: pass either within= or last=: within=('-1 minute', '1 hour') joins rows by their distance in time, last=3 with
the right rows of the key that arrived last. For rows of the same window use ev.window_join.

>>> ev.join(stream, ev.stream("ts", watermark="1 minute"), within="1 minute")
join: one input has the key ['shop'], another []. Set keys of the same length, whose columns are compared pairwise,
or name the columns with on=.

>>> ev.join(stream, stream, within="1 minute", how="outer")
join: how='outer' is not known. There are: 'inner', 'left', 'right', 'full'.

>>> ev.join(stream, stream, within="1 minute").local(rows)
This pipeline has several inputs. Give the rows of each: {'left': …, 'right': …}.

>>> ev.join(stream, stream, "1 minute")
join(…, '1 minute'): say what it is, such as within='1 minute'. The options are: within, last, keep, forget_after,
on, how, where, suffix, max_matches.

>>> ev.join(stream, stream, over="1 minute")
join() has no option 'over'. Use within=('-2 minutes', '0 seconds') for times, or last=3 for the last rows.

>>> ev.join(stream)
join() needs right=. Write for example ev.join(orders, payments, within=("0 seconds", "1 hour")).

>>> ev.join(stream, stream, stream, within="1 minute")
join(…, a value of type Stream): too many arguments. More than two streams are joined one after the other, or united
by ev.union(…).

>>> ev.join(stream, stream, within="1 minute").local({"left": rows})
The input 'right' has no rows yet, so its columns are not known. Give it a frame, which may be empty, or name the
columns in start_local(schema=…).

>>> ev.union(web=stream, tills=ev.stream("ts"))
union: one input has the key ['shop'], another []. Set keys of the same length, whose columns are compared pairwise.

>>> ev.union([stream, stream])
union: input 1 is [a value of type Stream, a value of type Stream], not a stream. Pass what ev.stream(time=…, key=…,
watermark=…) returns, before .window(…) is called.

## Sinks

>>> sinks.as_sink("consol")
The sink 'consol': there is no kind 'consol'. Did you mean 'console'? Kinds are: console, noop, parquet, json, csv,
orc, sqlite, postgresql, delta, iceberg, kafka, eventide. For a directory write consol/.

>>> sinks.as_sink("revenue")
The sink 'revenue': there is no kind 'revenue'. Kinds are: console, noop, parquet, json, csv, orc, sqlite,
postgresql, delta, iceberg, kafka, eventide. For a directory write revenue/.

>>> sinks.as_sink("revenue.db")
The sink 'revenue.db': write sqlite:///FILE#TABLE, such as sqlite:///panes.db#revenue.

>>> sinks.as_sink("print")
The sink 'print': there is no kind 'print'. Write console.

>>> sinks.as_sink("postgres://me:secret@db/shop#revenue")
The sink 'postgres://me:…@db/shop#revenue': there is no kind 'postgres'. Write postgresql://me:…@db/shop#revenue.

>>> sinks.table("postgres://db/shop")
sinks.table('postgres://db/shop'): tables are in PostgreSQL (postgresql://user:password@host:5432/database) or
SQLite (sqlite:///path.db).

>>> sinks.as_sink("mysql://db/shop")
The sink 'mysql://db/shop': there is no kind 'mysql'. Kinds are: console, noop, parquet, json, csv, orc, sqlite,
postgresql, delta, iceberg, kafka, eventide. For other databases there is sinks.spark_format("jdbc", url=…,
dbtable=…), which appends.

>>> sinks.as_sink("kafka:orders")
The sink 'kafka:orders': write kafka:TOPIC@HOST:PORT, such as kafka:orders@broker:9092.

>>> sinks.as_sink(sinks.console)
sinks.console makes a sink, but is none itself. Call it: sinks.console(…).

>>> sinks.as_sink(lambda batch: None)
<lambda> is called as <lambda>(batch, batch_id), which it does not allow. Let it take two arguments.

>>> sinks.table("shop.db")
sinks.table('shop.db'): tables are in PostgreSQL (postgresql://user:password@host:5432/database) or SQLite
(sqlite:///path.db). Write 'sqlite:///shop.db'.

>>> sinks.tabel
There is no eventide.sinks.tabel. Did you mean: 'table'?

>>> sinks.parquet
There is no eventide.sinks.parquet: use sinks.files(path)

>>> sinks.kafka
There is no eventide.sinks.kafka: use an address, such as sink='kafka:orders@broker:9092'

## Names that other systems have

>>> ev.avg
There is no eventide.avg: use ev.mean(column)

>>> ev.hopping
There is no eventide.hopping: use ev.sliding(size, every)

>>> ev.tumble
There is no eventide.tumble: use ev.tumbling(size)

>>> ev.sliding_window
There is no eventide.sliding_window: use ev.sliding(size, every)

>>> ev.FixedWindows
There is no eventide.FixedWindows: use ev.tumbling(size)

>>> ev.allowed_lateness
There is no eventide.allowed_lateness: use .emit(allowed_lateness='1 hour') of a stream

>>> ev.range
There is no eventide.range: use ev.join(…, within=('-2 minutes', '0 seconds'))

>>> ev.lag
There is no eventide.lag: use ev.bounded_delay('30 seconds')

>>> ev.session
There is no eventide.session: use ev.sessions(gap) for windows, ev.spark_session() for Spark

>>> ev.tumblng
There is no eventide.tumblng. Did you mean: 'tumbling'?

>>> stream.local
There is no Stream.local: use .agg(…) first: .window(ev.tumbling('1 minute')).agg(n=ev.count()).local(rows)

>>> stream.groupBy
There is no Stream.groupBy: use key= of ev.stream(…)

>>> stream.lateness
There is no Stream.lateness: use .window(…).emit(allowed_lateness='1 hour')

>>> stream.withWatermark
There is no Stream.withWatermark: use watermark= of ev.stream(…)

>>> stream.windw
There is no Stream.windw. Did you mean: 'window'?

>>> counts.transform
There is no Pipeline.transform: use events.transform(pipeline) of a Spark DataFrame

>>> counts.show
There is no Pipeline.show: use .local(rows).panes

>>> counts.writeStream
There is no Pipeline.writeStream: use pipeline.run(rows, sink=…, checkpoint=…)

>>> counts.agg
There is no Pipeline.agg: use a second pipeline over the panes: first.then(second)

>>> counts.explian
There is no Pipeline.explian. Did you mean: 'explain'?

>>> ev.TestStream
There is no eventide.TestStream: use eventide.testing.TestStream

>>> ev.SessionWindows
There is no eventide.SessionWindows: use ev.sessions(gap)

>>> ev.minutes
There is no eventide.minutes: use a text such as '5 minutes', or a timedelta

>>> ev.emit
There is no eventide.emit: use .emit(…) of a stream, after .window(…)

>>> ev.interval_join
There is no eventide.interval_join: use ev.join(left, right, within='1 hour')

>>> ev.accumulating
There is no eventide.accumulating: use .emit(mode='accumulating') of a stream

>>> minutes.mean("price")
There is no WindowedStream.mean: use .agg(average=ev.mean(column))

>>> minutes.groupBy("shop")
There is no WindowedStream.groupBy: use key= of ev.stream(…)

>>> stream.explain()
There is no Stream.explain: use .agg(…) first: a pipeline has .explain()

>>> counts.emit
There is no Pipeline.emit: use .emit(…) before .agg(…)

>>> counts.local(rows).to_pandas()
There is no LocalResult.to_pandas: use .panes.to_pandas()

>>> counts.local(rows).late_rows
There is no LocalResult.late_rows: use .late

## Tests

>>> TestStream(stream)
TestStream() needs a pipeline, which is what .agg(…) returns, not a value of type Stream. Complete it with .agg(…)
first.

>>> TestStream(counts).add("12:00")
.add('12:00'): add rows as dicts, such as .add({'ts': '12:00', 'user': 'a'}), or one frame.

>>> TestStream(counts, counts)
TestStream(…, a value of type Pipeline): too many arguments. Several pipelines are one value: first.then(second).

>>> TestStream(counts, today="2026-03-01")
TestStream() has no option 'today'. Did you mean 'day'?

>>> TestStream(counts).advance_processing_time(10)
by of .advance_processing_time()=10 has no unit. Write it with one, as in '30 seconds', '5m' or '250ms'.

>>> TestStream(counts).idle()
.idle(): say how long ('10 seconds'), or until when (to='12:05'), not both.

>>> TestStream(counts).advance_watermark_to("12:01")
There is no TestStream.advance_watermark_to: use .advance_watermark(time)

>>> TestStream(counts).add({"ts": "12:00", "shop": 5}, {"ts": "12:00", "shop": "kiel"})
.add(): the column 'shop': unexpected value while building Series of type Int64; found value of type String: "kiel".
Columns get their types from the first bundle; name others in schema=….

>>> WindowAggregator(ev.tumbling("1 minute"))
WindowAggregator() needs aggregates= and offset=.

>>> WindowAggregator(ev.rows(10, by="number"), {"n": ev.count()}, offset="offset", downstream=print)
WindowAggregator: windows by offset (by='number') need a pipeline, because offsets belong to an origin. Leave by= of
the window out: rows are then counted as they arrive.

>>> counts.start_local().close()
There is no LocalQuery.close: use .drain()

## SQL

>>> ev.sql("SELECT shop, count(*) FROM orders GROUP BY shop")
The event time of 'orders' is not known. Declare it before the query: CREATE STREAM orders WATERMARK FOR ts AS ts -
INTERVAL '30' SECOND; line 1, column 28: SELECT shop, count(*) FROM orders GROUP BY shop ^^^^^^

>>> ev.sql(PER_SHOP).explian
There is no SqlPipeline.explian. Did you mean: 'explain'?

>>> ev.sql(PER_SHOP).show
There is no SqlPipeline.show: use .local(rows).panes

>>> TestStream(ev.sql(PER_SHOP + " HAVING COUNT(*) > 1"))
This query filters or computes rows or results outside of its plan, so the plan alone is not the query. In a chain,
a TestStream and .start_local(), a query has keys, window columns and aggregates of columns by their names, without
WHERE and HAVING. Use .local(rows) or .run(…), or prepare the rows before the query.

>>> ev.sql("SELEC shop FROM orders")
The query cannot be read: 'FROM' has no place here. line 1, column 12: SELEC shop FROM orders ^^^^

## The command line

>>> eventide("run job.py")
There is no file 'job.py'. Name a Python file and its pipeline (job.py:revenue), or a SQL file.

>>> eventide("run job:revenue")
There is no module 'job'. It must be in the current directory or installed. For a file write its path: job.py:NAME.

>>> eventide("run job.py --trigger availableNow")
There is no --trigger: write --available-now.

>>> eventide("run examples/order_book.py:book rate:10 --interval 10")
--interval '10' is not a duration. Write it with a unit: '10 seconds'.

>>> eventide("advance-watermark checkpoints/revenue noon")
'noon' is not an instant. Write it with its day, such as 2026-03-01T12:00Z.

>>> eventide("explain nowhere.py:revenue")
There is no file 'nowhere.py'. Name a Python file and its pipeline (job.py:revenue), or a SQL file.

>>> eventide("drain checkpoints/revenu")
'checkpoints/revenu' is not the checkpoint of an Eventide query: it has no directory eventide/control. Name the
directory that was passed as checkpoint= or --checkpoint.

>>> eventide("run nowhere.py:revenue --local")
There is no file 'nowhere.py'. Name a Python file and its pipeline (job.py:revenue), or a SQL file.
"""

stream = ev.stream("ts", key="shop", watermark="30 seconds")
minutes = stream.window(ev.tumbling("1 minute"))
counts = minutes.agg(n=ev.count())
rows = pl.DataFrame({"ts": ["2026-03-01T12:00:00Z"], "shop": ["kiel"], "price": [3]})


def eventide(words: str) -> None:
    """Raise what a command says on stderr."""
    observed = typed(*words.split())
    raise SystemExit(observed.stderr.removeprefix("Error: "))


PER_SHOP = (
    "SELECT shop, COUNT(*) AS n FROM TUMBLE(orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY shop, window_start, window_end"
)
NAMES: dict[str, Any] = {
    "PER_SHOP": PER_SHOP, "ev": ev, "pd": pd, "pl": pl, "sinks": sinks, "TestStream": TestStream, "eventide": eventide,
    "WindowAggregator": WindowAggregator, "pane": pane,
    "stream": stream, "minutes": minutes, "counts": counts, "rows": rows,
}  # fmt: skip


def observed(code: str) -> str:
    """The message that this code raises."""
    try:
        value = eval(code, dict(NAMES))
    except (ev.PlanError, AttributeError, TypeError, SystemExit) as error:
        return str(error)
    raise AssertionError(f"{code} gives {value!r}")


def mistakes(text: str) -> Iterator[tuple[str, str]]:
    """The code of each mistake and the message below it, in one line."""
    for entry in re.split(r"^>>> ", re.sub(r"^##.*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]:
        code, _, message = entry.partition("\n")
        yield code, " ".join(message.split())


def test_there_are_many() -> None:
    assert len(dict(mistakes(MISTAKES))) >= 60


@pytest.mark.parametrize(("code", "message"), list(mistakes(MISTAKES)), ids=[code for code, _ in mistakes(MISTAKES)])
def test_a_mistake_gets_an_answer(code: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_jobs = [path for path in sys.path if not (Path(path) / "job.py").exists()]  # of tests that ran before
    monkeypatch.setattr(sys, "path", no_jobs)
    assert " ".join(observed(code).split()) == message


@pytest.mark.parametrize("code", [code for code, _ in mistakes(MISTAKES)])
def test_an_answer_says_what_to_do_and_is_short(code: str) -> None:
    message = observed(code)
    assert len(message) < 400 and "object at 0x" not in message and "Traceback" not in message


def rewritten(text: str) -> str:
    """The text with the real messages."""
    lines = []
    for line in text.splitlines():
        if line.startswith((">>> ", "##")) or not line:
            lines.append(line)
        if line.startswith(">>> "):
            lines += textwrap.wrap(
                " ".join(observed(line[4:]).split()), 116, break_long_words=False, break_on_hyphens=False
            )
            lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    source = Path(__file__)
    whole = source.read_text(encoding="utf-8")
    source.write_text(whole.replace(MISTAKES, rewritten(MISTAKES).replace("\\", "\\\\")), encoding="utf-8")

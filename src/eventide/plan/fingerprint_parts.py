"""The parts of a plan as text for fingerprints: windows, triggers, watermark strategies, aggregates.

The text has the form of a call, such as ``sliding(10m, every=1m)``. Stored state depends on it, so every name is
written out here: renaming a class or a field, or rewording ``describe()``, changes no fingerprint. Options with their
default value are left out, so a new option changes no fingerprint either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import polars as pl

from eventide._column_refs import expression_text
from eventide.aggregates import Aggregate, aggregate, collect, extremes, quantiles, sketches, sums, user_defined
from eventide.aggregates import variance as spread
from eventide.plan.plan import Window
from eventide.time import format_duration
from eventide.triggers import (
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    InOrder,
    Never,
    Parallel,
    Repeatedly,
    Trigger,
)
from eventide.watermarks import Strategy, generators
from eventide.watermarks.options import Options
from eventide.windows import Calendar, Cumulate, GlobalWindow, Inherit, Sessions, Sliding, Tumbling

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # the address of an object differs between processes
_MAX_DEPTH = 6  # levels of nested values of user-written parts
_Columns = (
    sums.Sum
    | sums.Mean
    | spread.Var
    | spread.Std
    | extremes.Min
    | extremes.Max
    | collect.Collect
    | collect.CollectSet
    | collect.CountDistinct
    | quantiles.Mode
)
"""Aggregates of a single column without options."""


def window_text(window: Window) -> str:
    """Return the text of a window kind. ``forget_after`` is left out: it may change between two starts.

    >>> import eventide as ev
    >>> window_text(ev.sliding("10 minutes", every="1 minute")), window_text(ev.rows(5, by="offset", first=0))
    ('sliding(10m, every=1m)', 'rows(5, by=offset, first=0)')
    """
    if _is_user_written(window):
        return _user_written(window, window.describe())
    match window:
        case Tumbling(axis="time"):
            return call("tumbling", span(window.size), offset=span(window.offset, default=0))
        case Sliding(axis="time"):
            offset = span(window.offset, default=0)
            return call("sliding", span(window.size), every=span(window.every), offset=offset)
        case Tumbling() | Sliding():
            return call(
                "rows",
                str(window.size),
                every=str(window.every) if isinstance(window, Sliding) else None,
                offset=value(window.offset, default=window.first % _step(window)),
                by=value(window.by),
                first=value(window.first, default=1),
                timeout=span(window.timeout),
            )
        case Cumulate():
            return call("cumulate", span(window.step), span(window.size), offset=span(window.offset, default=0))
        case Calendar():
            return call("calendar", window.unit, tz=value(window.tz, default="UTC"))
        case Sessions(axis="time", gap=gap):
            return call(
                "sessions",
                span(gap) if isinstance(gap, int) else None,
                gap_column=None if isinstance(gap, int) else value(gap),
                touching=value(window.touching, default="merge"),
                max_duration=span(window.max_duration),
            )
        case Sessions(gap=int(gap)):
            return call("row_sessions", absent=str(gap - 1), by=value(window.by), timeout=span(window.timeout))
        case GlobalWindow():
            return call("global_window")
        case Inherit():
            return call("inherit")
    return _user_written(window, window.describe())


def trigger_text(trigger: Trigger) -> str:
    """Return the text of a trigger.

    >>> import eventide as ev
    >>> trigger_text(ev.after_watermark(early=ev.every("10 seconds")))
    'after_watermark(early=repeatedly(after_processing_time(10s)))'
    """
    if _is_user_written(trigger):
        return _user_written(trigger, trigger.describe())
    match trigger:
        case AfterWatermark(early, late):
            parts = {"early": early, "late": late}
            return call(
                "after_watermark", **{name: trigger_text(part) for name, part in parts.items() if part is not None}
            )
        case AfterCount(n):
            return call("after_count", str(n))
        case AfterProcessingTime(delay):
            aligned, offset = value(trigger.aligned, default=False), span(trigger.offset, default=0)
            return call("after_processing_time", span(delay), aligned=aligned, offset=offset)
        case Repeatedly(inner):
            return call("repeatedly", trigger_text(inner))
        case Parallel(triggers, need_all):
            return call("all_of" if need_all else "any_of", *map(trigger_text, triggers))
        case InOrder(triggers):
            return call("in_order", *map(trigger_text, triggers))
        case Never():
            return call("never")
    return _user_written(trigger, trigger.describe())


def strategy_text(strategy: Strategy) -> str:
    """Return the text of a watermark strategy.

    ``max_future_skew`` and ``forget_after`` are left out: they may change between two starts. So are the address and
    the token of a stream.

    >>> import eventide as ev
    >>> strategy_text(ev.bounded_delay("30 seconds", origin="partition", max_future_skew="1 hour"))
    'bounded_delay(30s, origin=partition)'
    """
    options = _watermark_options(strategy.options)
    match strategy.generator:
        case generators.BoundedDelay(delay, name, at_latest):
            length = None if name == "ascending" else span(delay)
            return call(name, length, at_latest=span(at_latest), **options)
        case generators.Punctuated(column):
            return call("punctuated", value(column), **options)
        case generators.ProcessingTime(delay):
            return call("processing_time", span(delay), **options)
        case generators.Noted() as noted:
            return call(
                "noted",
                value(noted.stream),
                segment=value(noted.segment, default="_segment"),
                offset_in_segment=value(noted.offset, default="_offset"),
                mark=value(noted.passed, default="_mark"),
                **options,
            )
        case generators.NoWatermark():
            return call("no_watermark", **options)
    raise TypeError(f"no text for {strategy.generator}")


def _watermark_options(options: Options) -> dict[str, str | None]:
    return {
        "origin": value(options.origin),
        "sequence": value(options.sequence),
        "first_sequence": value(options.first_sequence, default=1),
        "gaps": value(options.gaps, default="wait"),
        "gap_timeout": span(options.gap_timeout),
        "chunk": value(options.chunk),
        "last_chunk": value(options.last_chunk),
        "first_chunk": value(options.first_chunk, default=1),
        "idle_timeout": span(options.idle_timeout),
        "on_return": value(options.on_return, default="hold"),
        "expect_origins": value(options.expect_origins),
        "origins_timeout": span(options.origins_timeout),
        "watermark_key": value(options.watermark_key, default=0),
        "deduplicate": value(options.deduplicate, default=False),
        "unique": value(options.ids, default=()),
        "unique_within": span(options.ids_within, default=0),
        "offset": value(options.offset),
    }


def aggregate_text(part: Aggregate) -> str:
    """Return the text of an aggregate. The code of user functions may change; their names are part of the text.

    >>> import eventide as ev
    >>> aggregate_text(ev.quantile("price", 0.95)), aggregate_text(ev.first("price", ignore_nulls=True))
    ('quantile(price, 0.95)', 'first(price, ignore_nulls=true)')
    """
    if _is_user_written(part):
        return _user_written(part, str(part))
    match part:
        case sums.Count(column):
            return call("count", value(column))
        case extremes.MinBy() | extremes.MaxBy():
            return call(part.word, value(part.value), by=value(part.by))
        case extremes.First() | extremes.Last():
            ignore_nulls = value(part.ignore_nulls, default=False)
            return call(part.word, value(part.column), ignore_nulls=ignore_nulls, where=value(part.where))
        case collect.Sort(column, descending):
            return call("collect_sorted", value(column), descending=value(descending, default=False))
        case collect.TopN(column, n):
            return call("top_n", value(column), str(n))
        case collect.TopNByKey():
            return call("top_n_by_key", value(part.value), value(part.key), str(part.n))
        case quantiles.Median(column, q):
            return call("median", value(column), value(q, default=0.5))
        case quantiles.Quantile(column, q):
            return call("quantile", value(column), str(q))
        case sketches.ApproxDistinct(column, precision):
            return call("approx_distinct", value(column), precision=value(precision, default=12))
        case sketches.ApproxQuantile(column, q, accuracy):
            return call("approx_quantile", value(column), str(q), accuracy=value(accuracy, default=0.01))
        case user_defined.Reduce():
            return call("reduce", value(part.fn), value(part.reads), **_row_options(part))
        case user_defined.FoldInOrder():
            merge = value(part.merger) if isinstance(part, user_defined.Fold) else None
            column, where = value(part.reads), value(part.where)
            initial = value(part.initial) or "none"
            return call("fold", initial, value(part.fn), merge=merge, column=column, where=where, **_row_options(part))
        case aggregate.Composite():
            return call("composite", **{name: aggregate_text(inner) for name, inner in part.fields})
        case _ if isinstance(part, _Columns):
            return call(part.word, value(part.column))
    return _user_written(part, str(part))


def _row_options(part: user_defined.Reduce | user_defined.FoldInOrder) -> dict[str, str | None]:
    return {"dtype": value(part.dtype), "on_error": value(part.on_error, default="dead")}


def _step(window: Tumbling | Sliding) -> int:
    return window.every if isinstance(window, Sliding) else window.size


def call(name: str, /, *arguments: str | None, **options: str | None) -> str:
    """Return a call as text, without arguments and options that are None.

    >>> call("sliding", "10m", every="1m", offset=None)
    'sliding(10m, every=1m)'
    """
    positional = [text for text in arguments if text is not None]
    return (
        f"{name}({', '.join([*positional, *(f'{key}={text}' for key, text in options.items() if text is not None)])})"
    )


def span(length: int | None, *, default: int | None = None) -> str | None:
    """Return a duration as text; None for the default."""
    return None if length is None or length == default else format_duration(length)


def value(content: Any, *, default: Any = None) -> str | None:
    """Return a value as text; None for the default. Names of columns are quoted only if they are no identifiers.

    >>> value("shop"), value("the shop"), value(["a", 1]), value(False, default=False)
    ('shop', "'the shop'", '[a, 1]', None)
    """
    return None if type(content) is type(default) and content == default else _value(content, 0)


def _value(content: Any, depth: int) -> str:
    if isinstance(content, str):
        return content if content.isidentifier() else repr(str(content))
    if isinstance(content, bool | None):
        return str(content).lower()
    if isinstance(content, pl.Expr):
        return expression_text(content)
    if isinstance(content, type | pl.DataType) or depth > _MAX_DEPTH:
        return _ADDRESS.sub("", str(content))
    if isinstance(content, list | tuple):
        return f"[{', '.join(_value(item, depth + 1) for item in content)}]"
    attributes = content if isinstance(content, Mapping) else _attributes(content)
    if attributes:
        return f"{{{', '.join(f'{name}: {_value(item, depth + 1)}' for name, item in attributes.items())}}}"
    if callable(content):
        return str(getattr(content, "__qualname__", type(content).__qualname__))
    return _ADDRESS.sub("", str(content))


def _attributes(content: Any) -> Mapping[str, Any]:
    """Return the fields of a dataclass, or the attributes of another object that is no function."""
    if is_dataclass(content):
        return {field.name: getattr(content, field.name) for field in fields(content) if field.repr}
    return {} if callable(content) else getattr(content, "__dict__", {})


def _is_user_written(part: object) -> bool:
    return not type(part).__module__.startswith("eventide.")


def _user_written(part: object, description: str) -> str:
    """Return the description of a user-written part with its class and its attributes."""
    attributes = {"class": type(part).__qualname__, **_attributes(part)}
    return f"{_ADDRESS.sub('', description)} {_value(attributes, 0)}"

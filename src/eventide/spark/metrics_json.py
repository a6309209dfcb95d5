"""The metrics of a batch as JSON: what ``--json`` prints and what the history of a query stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from eventide.spark.command_effects import effects_from
from eventide.spark.metrics import BatchMetrics
from eventide.time import MAX, MIN, format_instant, instant

_INSTANTS = ("watermark", "previous_watermark")


def to_json(metrics: BatchMetrics) -> dict[str, Any]:
    """Return a batch for machines: instants are ISO-8601, and null where nothing is known.

    >>> batch = to_json(BatchMetrics(batch=3, depth=0, at=5_000_000, rows=2, kept=2, watermark=2_000_000))
    >>> batch["watermark"], batch["lag_seconds"], batch["rows"]
    ('1970-01-01T00:00:02Z', 3.0, 2)
    """
    plain = asdict(metrics)
    plain |= {"at": format_instant(metrics.at)} | {name: _text(plain[name]) for name in _INSTANTS}
    plain["lag_seconds"] = None if metrics.lag is None else metrics.lag.total_seconds()
    plain["rows_per_second"] = metrics.rate
    plain["slowest"] = [{"origin": name, "watermark": _text(time)} for name, time in metrics.slowest]
    return plain


def from_json(plain: Mapping[str, Any]) -> BatchMetrics:
    """Return the batch that ``to_json`` wrote; what an older version did not write has its default."""
    known = {field.name for field in fields(BatchMetrics)}
    values = {name: value for name, value in plain.items() if name in known}
    values |= {"at": instant(plain["at"])} | {name: _instant(plain.get(name)) for name in _INSTANTS}
    values["idle_origins"] = tuple(plain["idle_origins"])
    values["renumbered_origins"] = tuple(plain.get("renumbered_origins", ()))
    values["slowest"] = tuple((one["origin"], _instant(one["watermark"], MIN)) for one in plain["slowest"])
    values["commands"] = effects_from(plain.get("commands", ()))
    return BatchMetrics(**values)


def _text(time: int | None) -> str | None:
    return None if time is None or time in (MIN, MAX) else format_instant(time)


def _instant(text: str | None, unknown: int | None = None) -> int | None:
    return unknown if text is None else instant(text)

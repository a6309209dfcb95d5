"""When a window is complete, and when it has expired."""

from __future__ import annotations

import polars as pl
import pytest

from eventide.time import MAX, MIN
from eventide.windows.lateness import Lateness, is_complete

END = 100


def holds(rule: pl.Expr) -> bool:
    return bool(pl.select(rule).item())


def end(at: int) -> pl.Expr:
    return pl.lit(at, pl.Int64)


@pytest.mark.parametrize(("watermark", "complete"), [(99, False), (100, True), (101, True), (MIN, False), (MAX, True)])
def test_a_window_is_complete_when_the_watermark_reaches_its_end(watermark: int, complete: bool) -> None:
    assert holds(is_complete(end(END), watermark)) is complete


@pytest.mark.parametrize(("watermark", "expired"), [(99, False), (100, True), (101, True), (MIN, False), (MAX, True)])
def test_without_lateness_a_window_expires_when_it_is_complete(watermark: int, expired: bool) -> None:
    assert holds(Lateness().is_expired(end(END), watermark)) is expired


@pytest.mark.parametrize(("watermark", "expired"), [(100, False), (109, False), (110, True), (MAX, True)])
def test_lateness_extends_the_life_of_a_window(watermark: int, expired: bool) -> None:
    assert holds(Lateness(allowed=10).is_expired(end(END), watermark)) is expired


@pytest.mark.parametrize(("watermark", "expired"), [(100, False), (110, False), (111, True)])
def test_a_session_that_a_row_at_its_end_joins_lives_a_microsecond_longer(watermark: int, expired: bool) -> None:
    assert holds(Lateness(allowed=10, joins_at_end=True).is_expired(end(END), watermark)) is expired


def test_nothing_has_expired_while_no_watermark_is_known() -> None:
    assert not holds(Lateness().is_expired(end(MIN), MIN))


@pytest.mark.parametrize("lateness", [1, 2**61, 2**62, MAX])
@pytest.mark.parametrize("joins", [False, True])
def test_expiry_near_the_end_of_time_saturates_instead_of_wrapping(lateness: int, joins: bool) -> None:
    assert pl.select(Lateness(lateness, joins).expires_at(end(MAX - 1))).item() == MAX
    assert pl.select(Lateness(lateness, joins).expires_at(end(MAX))).item() == MAX


def test_the_global_window_expires_only_when_the_stream_is_drained() -> None:
    forever = Lateness(allowed=2**61)
    assert not holds(forever.is_expired(end(MAX), MAX - 1))
    assert holds(forever.is_expired(end(MAX), MAX))


def test_a_window_before_all_time_expires_after_its_lateness() -> None:
    assert pl.select(Lateness(allowed=10).expires_at(end(MIN))).item() == MIN + 10


@pytest.mark.parametrize("watermark", [MIN, MIN + 1, MIN + 11, -5, 0, 100, MAX - 1])
@pytest.mark.parametrize("joins", [False, True])
def test_a_row_from_live_from_on_has_a_live_window(watermark: int, joins: bool) -> None:
    expiry = Lateness(10, joins)
    first = expiry.live_from(watermark)
    assert not holds(expiry.is_expired(end(first + 1), watermark))


def test_once_the_stream_is_drained_no_row_can_be_live() -> None:
    last_usable, longest = 2**62, 2**61
    assert Lateness(longest, joins_at_end=True).live_from(MAX) > last_usable


@pytest.mark.parametrize("watermark", [-5, 0, 100, MAX - 1])
@pytest.mark.parametrize("joins", [False, True])
def test_live_from_is_the_least_such_instant(watermark: int, joins: bool) -> None:
    expiry = Lateness(10, joins)
    assert holds(expiry.is_expired(end(expiry.live_from(watermark)), watermark))

"""Orders and Shipments: the worked examples of windowed aggregation and windowed join, to the row and to the minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeAlias

import polars as pl
import pytest

import eventide as ev
from eventide.standalone import JoinWindow, WindowAggregator
from tests.standalone.conftest import Place
from tests.standalone.harness import at, clock, emitted

EVERY_MINUTE = ev.every("1 minute", aligned=True)

# offset, value, id, event time, arrival
ORDERS = [(1, 0, 1, "8:59:10", "9:00:00"), (2, 5, 3, "9:00:01", "9:00:59"), (3, 9, 9, "8:59:30", "9:02:01")]
JOINED_ORDERS = [ORDERS[0], (2, 5, 3, "9:00:00", "9:00:59"), ORDERS[2]]  # in the join, the second is a second earlier
# offset, cost, id, event time, arrival
SHIPMENTS = [
    (1000, 0, 3, "9:00:10", "9:00:00"),
    (1001, 2, 1, "9:00:10", "9:00:10"),
    (1002, 3, 1, "9:01:10", "9:01:01"),
    (1003, 1, 9, "9:01:20", "9:01:01"),
]

Step: TypeAlias = tuple[str, Callable[[str], None]]


def order(offset: int, value: int, id_: int, time: str) -> dict[str, Any]:
    return {"offset": offset, "value": value, "id": id_, "time": at(time)}


def shipment(offset: int, cost: int, id_: int, time: str) -> dict[str, Any]:
    return {"offset": offset, "cost": cost, "id": id_, "time": at(time)}


def aggregated(operator: WindowAggregator) -> list[tuple[Any, ...]]:
    """Orders through an operator, with a timeout at each full minute; outputs are taken as they come."""
    results = []
    arrivals = {arrival: order(*row) for *row, arrival in ORDERS}
    for now in sorted({*arrivals, "9:01:00", "9:02:00", "9:03:00"}):
        if now in arrivals:
            operator.add_message(arrivals[now], now=at(now))
        operator.timeout(now=at(now))
        results += emitted(operator.get_result(), "value")
        operator.flush()
    return results


def test_the_greatest_of_three_rows_updated_every_minute(place: Place) -> None:
    highest = WindowAggregator(
        ev.rows(3), {"value": ev.max("value")}, time="time", offset="offset", early=EVERY_MINUTE, store=place()
    )
    assert aggregated(highest) == [("9:01:00", 1, "EARLY", 5), ("9:03:00", 1, "EARLY", 9)]
    windows = highest.get_windows(1, 4)
    facts = windows.select("window_start", "window_end", "window_start_offset", "window_last_offset", "window_rows")
    assert facts.rows() == [(1, 4, 1, 3, 3)]


def test_the_greatest_of_a_minute_updated_every_minute(place: Place) -> None:
    highest = WindowAggregator(
        ev.tumbling("1 minute"),
        {"value": ev.max("value")},
        time="time",
        offset="offset",
        early=EVERY_MINUTE,
        late=EVERY_MINUTE,
        store=place(),
    )
    assert aggregated(highest) == [
        ("9:00:59", "8:59:00", "ON_TIME", 0),  # 9:00:01 lies beyond the window, so it is full
        ("9:01:00", "9:00:00", "EARLY", 5),
        ("9:03:00", "8:59:00", "LATE", 9),
    ]


class Join:
    """Takes what is new of Orders first, then of Shipments; each matches what the other side has emitted before."""

    def __init__(
        self,
        orders: JoinWindow,
        shipments: JoinWindow,
        near: Callable[[Any], tuple[dict[str, Any], ...]],
    ) -> None:
        self.orders, self.shipments = orders, shipments
        self._near = near
        self.pairs: list[tuple[str, int, int, int]] = []

    def timeout(self, now: str) -> None:
        self.orders.timeout(now=at(now))
        for message in self._news(self.orders):
            _, after = self._near(message["time"])
            for other in self.shipments.get_messages(**after, key=message["id"], emitted_only=True).iter_rows(
                named=True
            ):
                self.pairs.append((now, message["id"], message["value"], other["cost"]))
        self.shipments.timeout(now=at(now))
        for other in self._news(self.shipments):
            before, _ = self._near(other["time"])
            for message in self.orders.get_messages(**before, key=other["id"], emitted_only=True).iter_rows(named=True):
                self.pairs.append((now, message["id"], message["value"], other["cost"]))

    def _news(self, side: JoinWindow) -> Iterator[dict[str, Any]]:
        news = side.get_result()
        side.flush()
        return news.iter_rows(named=True)

    def run(self) -> list[tuple[str, int, int, int]]:
        steps: list[Step] = [
            *(
                (row[-1], lambda now, row=row: self.orders.add_message(order(*row[:-1]), now=at(now)))
                for row in JOINED_ORDERS
            ),
            *(
                (row[-1], lambda now, row=row: self.shipments.add_message(shipment(*row[:-1]), now=at(now)))
                for row in SHIPMENTS
            ),
            *((now, self.timeout) for now in ("9:01:00", "9:02:00", "9:03:00")),
        ]
        for now, step in sorted(steps, key=lambda step: step[0]):
            step(now)
        return self.pairs


JOINED = [("9:01:00", 3, 5, 0), ("9:01:00", 1, 0, 2), ("9:02:00", 1, 0, 3), ("9:03:00", 9, 9, 1)]


def two_minutes(time: Any) -> tuple[dict[str, Any], ...]:
    """Where partners are: of a shipment, the orders of the two minutes before it; of an order, the shipments after."""
    moment = pl.Series([time]).str.to_datetime(time_zone="UTC")[0]
    length, least = timedelta(minutes=2), timedelta(microseconds=1)
    return {"start": moment - length, "end": moment + least}, {"start": moment, "end": moment + length + least}


def anywhere(time: Any) -> tuple[dict[str, Any], ...]:
    return {}, {}


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_join_with_the_last_three_orders(place: Place, size: Any) -> None:
    shared: dict[str, Any] = {"time": "time", "offset": "offset", "key": "id", "early": EVERY_MINUTE, "size": size}
    orders = JoinWindow(ev.rows(3), **shared, store=place())
    shipments = JoinWindow(ev.global_window(), **shared, store=place())
    assert Join(orders, shipments, anywhere).run() == JOINED
    key = "equal + offset" if size == "large" else "offset"
    assert f"kept, by {key}\n" in orders.explain()


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_join_with_the_orders_of_two_minutes(place: Place, size: Any) -> None:
    shared: dict[str, Any] = {"time": "time", "offset": "offset", "key": "id", "early": EVERY_MINUTE, "size": size}
    orders = JoinWindow(ev.tumbling("2 minutes", offset="1 minute"), **shared, time_range=True, store=place())
    shipments = JoinWindow(ev.global_window(), **shared, store=place())
    assert Join(orders, shipments, two_minutes).run() == JOINED
    windows = orders.get_windows(at("8:59:10"), at("9:00:59"))
    assert [clock(start) for start in windows["window_start"]] == ["8:59:00"]
    assert windows["window_last_offset"][0] == 3

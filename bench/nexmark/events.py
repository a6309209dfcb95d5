"""The events of Nexmark: persons, auctions and bids, from the published constants, as columns.

Event ``n`` of the stream decides by ``n % 50`` what it is, and by ``n`` when it happens. All else is random, from a
generator that is seeded for each batch. The same numbers therefore give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
import polars as pl

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
BATCH = 100_000  # events: 92 thousand bids
BATCHES = 12
BASE_TIME = int(datetime(2015, 7, 15, tzinfo=UTC).timestamp()) * 1_000  # milliseconds
EVENTS_PER_SECOND = 10_000
FIRST_ID = 1_000  # of persons and of auctions
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_SELLERS, HOT_AUCTIONS, HOT_BIDDERS = 4, 2, 4  # all but one row in so many concern a hot id
HOT_EVERY = 100  # every hundredth id is hot
IN_FLIGHT_AUCTIONS = 100
ACTIVE_PEOPLE = 1_000
LEAD = 10  # ids ahead of the last one that a row may name

_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


def relation(name: str, batch: int, events: int = BATCH) -> pl.DataFrame:
    """Return the rows of ``person``, ``auction`` or ``bid`` among the events of a batch."""
    number = np.arange(batch * events, (batch + 1) * events, dtype=np.int64)
    first, count, make = _RELATIONS[name]
    offset = number % EPOCH
    number = number[(offset >= first) & (offset < first + count)]
    rng = np.random.default_rng([*name.encode(), events, batch])
    milliseconds = BASE_TIME + number * 1_000 // EVENTS_PER_SECOND
    time = pl.Series("dateTime", milliseconds * 1_000).cast(pl.Datetime("us", "UTC"))
    return make(number, rng).with_columns(time)


def _persons(number: Numbers, rng: np.random.Generator) -> pl.DataFrame:
    size = len(number)
    first, last = _choice(rng, _FIRST_NAMES, size), _choice(rng, _LAST_NAMES, size)
    mail = pl.DataFrame({"first": first.str.to_lowercase(), "last": last.str.to_lowercase()})
    return pl.DataFrame(
        {
            "id": last_person(number) + FIRST_ID,
            "name": first + " " + last,
            "emailAddress": mail.select(pl.format("{}@{}.com", "first", "last")).to_series(),
            "creditCard": pl.Series(rng.integers(10**15, 10**16, size)).cast(pl.String),
            "city": _choice(rng, _CITIES, size),
            "state": _choice(rng, _STATES, size),
            "extra": _text(rng, size, 100),
        }
    )


def _auctions(number: Numbers, rng: np.random.Generator) -> pl.DataFrame:
    size = len(number)
    person = last_person(number)
    hot = rng.integers(0, HOT_SELLERS, size) > 0
    initial = _prices(rng, size)
    return pl.DataFrame(
        {
            "id": last_auction(number) + FIRST_ID,
            "itemName": _text(rng, size, 20),
            "description": _text(rng, size, 100),
            "initialBid": initial,
            "reserve": initial + _prices(rng, size),
            "seller": np.where(hot, person // HOT_EVERY * HOT_EVERY, _active_person(person, rng)) + FIRST_ID,
            "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, size),
            "extra": _text(rng, size, 200),
        }
    )


def _bids(number: Numbers, rng: np.random.Generator) -> pl.DataFrame:
    size = len(number)
    auction, person = last_auction(number), last_person(number)
    oldest = np.maximum(auction - IN_FLIGHT_AUCTIONS, 0)
    in_flight = oldest + rng.integers(0, auction - oldest + 1 + LEAD)
    hot_auction = rng.integers(0, HOT_AUCTIONS, size) > 0
    hot_bidder = rng.integers(0, HOT_BIDDERS, size) > 0
    channel = _choice(rng, _CHANNELS, size)
    page = pl.Series("page", rng.integers(0, 10_000, size)).cast(pl.String)
    return pl.DataFrame(
        {
            "auction": np.where(hot_auction, auction // HOT_EVERY * HOT_EVERY, in_flight) + FIRST_ID,
            "bidder": np.where(hot_bidder, person // HOT_EVERY * HOT_EVERY + 1, _active_person(person, rng)) + FIRST_ID,
            "price": _prices(rng, size),
            "channel": channel,
            "url": "https://www.nexmark.com/" + channel.str.to_lowercase() + "/item.htm?query=" + page,
            "extra": _text(rng, size, 20),
        }
    )


def last_person(number: Numbers) -> Numbers:
    """Return the id, counted from 0, of the last person before or at each event."""
    return number // EPOCH * PERSONS + np.minimum(number % EPOCH, PERSONS - 1)


def last_auction(number: Numbers) -> Numbers:
    """Return the id, counted from 0, of the last auction before or at each event; -1 before the first."""
    return number // EPOCH * AUCTIONS + np.minimum(number % EPOCH - PERSONS, AUCTIONS - 1)


def _active_person(person: Numbers, rng: np.random.Generator) -> Numbers:
    active = np.minimum(person + 1, ACTIVE_PEOPLE)
    return person + 1 - active + rng.integers(0, active + LEAD)


def _prices(rng: np.random.Generator, size: int) -> Numbers:
    """Cents, evenly spread over six orders of magnitude."""
    return np.rint(10 ** (rng.random(size) * 6) * 100).astype(np.int64)


def _choice(rng: np.random.Generator, values: tuple[str, ...], size: int) -> pl.Series:
    return pl.Series(values).gather(rng.integers(0, len(values), size))


def _text(rng: np.random.Generator, size: int, length: int) -> pl.Series:
    """Letters that hardly compress; each text is part of one long one, at a random place."""
    letters = "".join(map(chr, rng.integers(ord("a"), ord("z") + 1, 10_000 + length)))
    texts = pl.DataFrame({"text": pl.repeat(letters, size, eager=True), "at": rng.integers(0, 10_000, size)})
    return texts.select(pl.col("text").str.slice(pl.col("at"), length)).to_series()


_Make = Callable[[Numbers, np.random.Generator], pl.DataFrame]
_RELATIONS: dict[str, tuple[int, int, _Make]] = {
    "person": (0, PERSONS, _persons),
    "auction": (PERSONS, AUCTIONS, _auctions),
    "bid": (PERSONS + AUCTIONS, BIDS, _bids),
}

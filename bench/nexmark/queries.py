"""The queries of Nexmark that need windows, as Eventide pipelines and as SQL over tables that do not stream.

Differences from the published queries, on every side alike: q5 names the least auction where several have the most
bids, q7 leaves out the time of the highest bid, q8 counts the auctions, q12 uses event time instead of the clock, and
the day of q17 is a window of 24 hours.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

import eventide as ev

LAG = "4 seconds"
_CHEAP, _DEAR = 10_000, 1_000_000  # prices between the three ranks of q17
RANKS = {
    "rank1": f"price < {_CHEAP}",
    "rank2": f"price >= {_CHEAP} AND price < {_DEAR}",
    "rank3": f"price >= {_DEAR}",
}


@dataclass(frozen=True)
class Query:
    """A query: its inputs, the pipeline that computes it, and the same in the SQL of DuckDB."""

    inputs: tuple[str, ...]
    pipeline: ev.Pipeline
    sql: str
    columns: tuple[str, ...]  # the result without its window
    updates: bool = False  # every batch emits the new values of what it changed
    derived: tuple[tuple[str, str], ...] = ()  # further columns of the input, in SQL
    columns_read: tuple[tuple[str, ...], ...] = ()  # of each input; a join keeps all that it gets

    @property
    def key(self) -> list[str]:
        """What identifies a row of the result."""
        return ["start", "end", self.columns[0]]


def _stream(key: str | None = None) -> ev.Stream:
    return ev.stream(time="dateTime", key=key, watermark=ev.bounded_delay(LAG))


def _q5() -> ev.Pipeline:
    windows = _stream("auction").window(ev.sliding("10 seconds", every="2 seconds"))
    most = ev.stream(time="window_time").window(ev.inherit())
    highest = most.agg(num=ev.max("num"), auction=ev.max_by("auction", "num"))
    return windows.agg(num=ev.count()).then(highest)


def _q7() -> ev.Pipeline:
    highest = {"auction": ev.max_by("auction", "price"), "bidder": ev.max_by("bidder", "price")}
    return _stream().window(ev.tumbling("10 seconds")).agg(price=ev.max("price"), **highest)


def _q8() -> ev.Pipeline:
    both = ev.window_join(_stream("id"), _stream("seller"), window=ev.tumbling("10 seconds"), on={"id": "seller"})
    people = ev.stream(time="window_time", key=["id", "name"]).window(ev.inherit())
    return both.then(people.agg(auctions=ev.count()))


def _q17() -> ev.Pipeline:
    day = _stream("auction").window(ev.tumbling("24 hours")).emit(early=ev.on_update(), mode="accumulating")
    ranks = {f"{name}_bids": ev.count(name) for name in RANKS}
    prices = {"low": ev.min("price"), "high": ev.max("price"), "mean": ev.mean("price"), "total": ev.sum("price")}
    return day.agg(bids=ev.count(), **ranks, **prices)


_BUCKET = "time_bucket(INTERVAL '10 seconds', dateTime)"
_COUNTS = """
    SELECT start, start + INTERVAL '10 seconds' AS "end", auction, count(*) AS num
    FROM (
        SELECT auction, unnest(range(0, 10, 2)) AS back, time_bucket(INTERVAL '2 seconds', dateTime)
            - to_seconds(back) AS start
        FROM bid
    )
    GROUP BY ALL
"""
_RANKED = ", ".join(f"count(*) FILTER (WHERE {condition}) AS {name}_bids" for name, condition in RANKS.items())
QUERIES = {
    "q5": Query(
        ("bid",),
        _q5(),
        f"""
        SELECT start, "end", max(num) AS num, arg_max(auction, (num, -auction)) AS auction FROM ({_COUNTS})
        GROUP BY start, "end"
        """,
        ("auction", "num"),
    ),
    "q7": Query(
        ("bid",),
        _q7(),
        f"""
        SELECT {_BUCKET} AS start, start + INTERVAL '10 seconds' AS "end", max(price) AS price,
            arg_max(auction, price) AS auction, arg_max(bidder, price) AS bidder
        FROM bid GROUP BY start
        """,
        ("auction", "bidder", "price"),
    ),
    "q8": Query(
        ("person", "auction"),
        _q8(),
        f"""
        SELECT start, start + INTERVAL '10 seconds' AS "end", p.id, name, count(*) AS auctions
        FROM (SELECT id, name, {_BUCKET} AS start FROM person) AS p
        JOIN (SELECT seller, {_BUCKET} AS start FROM auction) AS a USING (start)
        WHERE p.id = a.seller GROUP BY ALL
        """,
        ("id", "name", "auctions"),
        columns_read=(("id", "name", "dateTime"), ("seller", "dateTime")),
    ),
    "q11": Query(
        ("bid",),
        _stream("bidder").window(ev.sessions("10 seconds")).agg(bids=ev.count()),
        """
        SELECT min(dateTime) AS start, max(dateTime) + INTERVAL '10 seconds' AS "end", bidder, count(*) AS bids
        FROM (
            SELECT bidder, dateTime, count(*) FILTER (WHERE dateTime > before + INTERVAL '10 seconds')
                OVER (PARTITION BY bidder ORDER BY dateTime) AS session
            FROM (SELECT *, lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) AS before FROM bid)
        )
        GROUP BY bidder, session
        """,
        ("bidder", "bids"),
    ),
    "q12": Query(
        ("bid",),
        _stream("bidder").window(ev.tumbling("10 seconds")).agg(bids=ev.count()),
        f"""
        SELECT {_BUCKET} AS start, start + INTERVAL '10 seconds' AS "end", bidder, count(*) AS bids
        FROM bid GROUP BY start, bidder
        """,
        ("bidder", "bids"),
    ),
    "q17": Query(
        ("bid",),
        _q17(),
        f"""
        SELECT time_bucket(INTERVAL '1 day', dateTime) AS start, start + INTERVAL '1 day' AS "end", auction,
            count(*) AS bids, {_RANKED}, min(price) AS low, max(price) AS high, avg(price) AS mean,
            sum(price)::BIGINT AS total
        FROM bid GROUP BY start, auction
        """,
        ("auction", "bids", *(f"{name}_bids" for name in RANKS), "low", "high", "mean", "total"),
        updates=True,
        derived=tuple((name, f"CASE WHEN {condition} THEN price END") for name, condition in RANKS.items()),
    ),
}


def input_rows(rows: pl.DataFrame, query: Query, place: int = 0) -> pl.DataFrame:
    """Return rows that Polars holds with the columns that a query reads of its input at a place."""
    rows = rows.with_columns(pl.sql_expr(f"{expression} AS {name}") for name, expression in query.derived)
    return rows.select(query.columns_read[place]) if query.columns_read else rows

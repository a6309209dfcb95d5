"""The events of Nexmark have the published proportions, and its queries give what DuckDB computes."""

import polars as pl
import pytest

from bench.nexmark.check import check, emitted, expected
from bench.nexmark.events import relation
from bench.nexmark.queries import QUERIES, input_rows

BATCH, BATCHES = 50_000, 8


def batches(name, size=BATCH, count=BATCHES):
    return [relation(name, batch, size) for batch in range(count)]


def test_events_have_the_published_proportions():
    persons, auctions, bids = (relation(name, 0, 100_000) for name in ("person", "auction", "bid"))
    assert (persons.height, auctions.height, bids.height) == (2_000, 6_000, 92_000)


def test_ids_of_persons_and_auctions_have_no_gaps_across_batches():
    for name in ("person", "auction"):
        ids = pl.concat(batches(name, 5_000, 3))["id"]
        assert ids.to_list() == list(range(1_000, 1_000 + len(ids)))


def test_ten_thousand_events_happen_in_a_second_from_the_base_time_on():
    times = pl.concat([relation(name, 1, 20_000)["dateTime"] for name in ("person", "auction", "bid")])
    second = times.dt.truncate("1s").value_counts().sort("dateTime")
    assert second["count"].to_list() == [10_000, 10_000]
    assert str(second["dateTime"][0]) == "2015-07-15 00:00:02+00:00"


def test_hot_ids_have_their_share():
    bids, auctions = relation("bid", 5, 100_000), relation("auction", 5, 100_000)
    hot_auctions = (bids["auction"] % 100 == 0).mean()
    hot_bidders = (bids["bidder"] % 100 == 1).mean()
    hot_sellers = (auctions["seller"] % 100 == 0).mean()
    # The others hit such an id now and then as well.
    assert hot_auctions == pytest.approx(1 / 2 + 1 / 2 / 100, abs=0.01)
    assert hot_bidders == pytest.approx(3 / 4 + 1 / 4 / 100, abs=0.01)
    assert hot_sellers == pytest.approx(3 / 4 + 1 / 4 / 100, abs=0.02)


def test_bids_are_for_auctions_in_flight():
    bids = relation("bid", 5, 100_000)
    # Of 50 events 3 are auctions: the last auction before each bid.
    last = 1_000 + (bids["dateTime"].dt.timestamp("ms") - bids["dateTime"].dt.timestamp("ms").min()) * 10 // 50 * 3
    age = last + 5 * 6_000 - bids["auction"]
    assert age.min() >= -20 and age.max() <= 200


@pytest.mark.parametrize("name", ["person", "auction", "bid"])
def test_the_same_batch_is_the_same_rows_and_another_batch_is_not(name):
    assert relation(name, 3, 5_000).equals(relation(name, 3, 5_000))
    assert not relation(name, 3, 5_000)["extra"].equals(relation(name, 4, 5_000)["extra"])


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_in_process_gives_what_duckdb_computes(name):
    query = QUERIES[name]
    bundles = {
        relation: [input_rows(rows, query, place) for rows in batches(relation)]
        for place, relation in enumerate(query.inputs)
    }
    names = [edge.name for edge in query.pipeline.plan.edges]
    rows = bundles["bid"] if len(names) == 1 else dict(zip(names, bundles.values(), strict=True))
    result = query.pipeline.local(rows, clock=["2015-07-15T01:00:00Z"] * BATCHES, drain=False)
    wanted = expected(query, {relation: pl.concat(frames) for relation, frames in bundles.items()})
    compared = check(emitted(result.panes, query), wanted, query)
    assert compared.right and compared.rows == compared.expected > 0

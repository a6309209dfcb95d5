"""States that formats 1 and 2 wrote are read by every version that says it can read them."""

from __future__ import annotations

import pytest

from eventide.operators.windowed import WindowedAggregate
from eventide.state.heads import Head
from tests.state.golden import PLANS, goes_on, operator_of, read, read_with_pages
from tests.state.paged import Store

AGAIN = "If format 1 has not been released yet, write its states anew: python -m tests.state.golden"


@pytest.mark.parametrize("name", PLANS)
def test_a_state_that_was_saved_whole_is_read(name: str) -> None:
    stored = read(name)
    operator, state = WindowedAggregate.load(PLANS[name]().plan, stored["whole"])
    assert goes_on(operator, state) == stored["comes_to"], AGAIN


@pytest.mark.parametrize("name", PLANS)
def test_a_state_in_pages_is_read(name: str) -> None:
    stored, operator = read(name), operator_of(name)
    state, ledger = operator.read(stored["head"], stored["store"])
    with ledger.open(stored["store"]):
        assert goes_on(operator, state) == stored["comes_to"], AGAIN


@pytest.mark.parametrize("name", PLANS)
def test_a_state_with_pages_in_its_head_is_read(name: str) -> None:
    kept, elsewhere = read_with_pages(name)
    head, operator = Head.from_bytes(kept), operator_of(name)
    assert head.format == 2 and head.elsewhere == len(elsewhere.pages) and head.pages
    store = Store({**elsewhere.pages, **head.pages})
    state, ledger = operator.read(head.body, store)
    with ledger.open(store):
        assert goes_on(operator, state) == read(name)["comes_to"], AGAIN


def test_the_stored_states_have_all_that_the_format_has() -> None:
    from eventide.state import snapshot

    cells = snapshot.load(read("cells")["head"])["store"]["cells"]
    assert cells["pages"]["index"].any() and cells["slices"].height and len(cells["least"]) > 1
    panes, store = snapshot.load(read("panes")["head"])["store"]["table"], read("panes")["store"]
    pages = [snapshot.load(store.get(number)) for number in panes["pages"]["number"]]
    assert panes["pages"]["gone"].any() and not panes["pages"]["gone"].all()
    assert any({"rows", "ids"} <= page.keys() for page in pages)

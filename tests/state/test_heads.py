"""A head with pages in it is one thing to the host, and is refused by a version that does not know it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide.state import snapshot
from eventide.state.heads import Head

BODY = snapshot.dump({"kind": "head"})


@given(pages=st.dictionaries(st.integers(1, 2**40), st.binary(max_size=50), min_size=1), elsewhere=st.integers(0, 9))
def test_a_head_with_pages_is_read_as_it_was_kept(pages: dict[int, bytes], elsewhere: int) -> None:
    head = Head(BODY, pages, elsewhere)
    assert Head.from_bytes(head.to_bytes()) == head


def test_a_head_without_pages_is_kept_as_the_operator_wrote_it() -> None:
    assert Head(BODY, {}, 3).to_bytes() == BODY
    assert Head.from_bytes(BODY) == Head(BODY)


def test_a_version_that_reads_only_format_1_refuses_a_head_with_pages() -> None:
    with pytest.raises(ev.DataError, match="has format 2, but this version of Eventide reads format 1"):
        snapshot.load(Head(BODY, {1: b"page"}, 0).to_bytes())


def test_an_unknown_format_is_refused_with_those_that_are_known() -> None:
    kept = bytearray(BODY)
    kept[11] = 3
    with pytest.raises(ev.DataError, match="has format 3, but this version of Eventide reads formats 1 and 2"):
        Head.from_bytes(bytes(kept))


@pytest.mark.parametrize("change", [lambda kept: kept[:-1], lambda kept: kept + b"!"], ids=["cut off", "longer"])
def test_a_damaged_head_is_refused(change) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ev.DataError, match="damaged"):
        Head.from_bytes(change(Head(BODY, {1: b"page"}, 0).to_bytes()))


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ev.DataError, match="not a state that Eventide saved"):
        Head.from_bytes(b"something else, long enough to be one")

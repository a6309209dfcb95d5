"""Origins have numbers that never change their meaning."""

import polars as pl

from eventide.watermarks import origins as module
from eventide.watermarks.origins import SOURCE, Origins


def test_a_name_keeps_its_number():
    origins = Origins()
    first = origins.numbers(pl.Series(["b", "a"]))
    assert origins.numbers(pl.Series(["a", "c", "b"])).tolist() == [first[1], 3, first[0]]


def test_new_names_are_numbered_in_their_own_order():
    first, two = Origins(), Origins()
    first.numbers(pl.Series(["b", None, "a"]))
    two.numbers(pl.Series(["a", "b", None]))
    assert [first.name(i) for i in (1, 2, 3)] == [two.name(i) for i in (1, 2, 3)] == [None, "a", "b"]


def test_many_names_are_numbered_as_few_are(monkeypatch):
    names = pl.Series([f"device {i}" for i in range(50)] + [None])
    few, many = Origins(), Origins()
    few.numbers(names)
    monkeypatch.setattr(module, "_BULK", 1)
    assert many.numbers(names[:7]).tolist() == list(range(1, 8))
    assert sorted(many.numbers(names.reverse()).tolist()) == list(range(1, 52))
    assert many.numbers(names)[:7].tolist() == list(range(1, 8))


def test_labels_say_who_is_meant():
    origins = Origins()
    origins.numbers(pl.Series(["a"]))
    assert (origins.label(SOURCE), origins.label(1)) == ("the source", "origin 'a'")


def test_names_are_looked_up_by_number():
    origins = Origins()
    numbers = origins.numbers(pl.Series(["a", None]))
    assert origins.names(numbers).to_list() == ["a", None]
    assert (origins.find("a"), origins.find("z")) == (2, None)

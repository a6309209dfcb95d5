"""A union has the rows of all inputs, and the watermarks that all of them carry."""

import polars as pl
import pytest

from eventide.errors import PlanError
from eventide.operators.union import union
from eventide.watermarks import Done, Idle, Watermark


def wm(time, key=0):
    return Watermark(key, time)


def test_rows_of_all_inputs_in_the_order_of_the_inputs():
    both = union(a=[0], b=[0])
    a, b = pl.DataFrame({"x": [1], "y": ["p"]}), pl.DataFrame({"y": ["q"], "x": [2]})
    assert both.rows({"b": b, "a": a}).rows() == [(1, "p"), (2, "q")]


def test_an_input_without_rows_may_be_left_out():
    assert union(a=[0], b=[0]).rows({"b": pl.DataFrame({"x": [2]})})["x"].to_list() == [2]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": ["1"]}, "input 'b' has String for column 'x', the first input has Int64"),
        ({"z": [1]}, "input 'b' has nothing for column 'x', the first input has Int64"),
        ({"x": [1], "z": [1]}, "input 'b' has Int64 for column 'z', the first input has nothing"),
    ],
)
def test_inputs_with_different_columns_are_refused(other, message):
    with pytest.raises(PlanError, match=message):
        union(a=[0], b=[0]).rows({"a": pl.DataFrame({"x": [1]}), "b": pl.DataFrame(other)})


def test_a_key_that_all_inputs_carry_is_forwarded_at_its_least():
    both = union(a=[0], b=[0]).delivery()
    assert both.watermark(0, 0, wm(10)) == []
    assert both.watermark(1, 0, wm(8)) == [wm(8)]


def test_a_key_that_one_input_lacks_is_not_forwarded():
    both = union(a=[0, 1], b=[0]).delivery()
    assert both.watermark(0, 0, wm(10, key=1)) == []


def test_it_is_forwarded_while_the_others_are_idle():
    both = union(a=[0, 1], b=[0]).delivery()
    both.watermark(0, 0, wm(10, key=1))
    assert both.idle(1) == [wm(10, key=1)]
    assert both.watermark(0, 0, wm(11, key=1)) == [wm(11, key=1)]
    both.event(1)
    assert both.watermark(0, 0, wm(12, key=1)) == []


def test_it_is_forwarded_when_the_others_are_done():
    both = union(a=[0, 1], b=[0]).delivery()
    both.watermark(0, 0, wm(10, key=1))
    assert both.done(1) == [wm(10, key=1)]


def test_a_union_is_idle_and_done_when_all_inputs_are():
    both = union(a=[0], b=[0]).delivery()
    both.idle(0)
    assert both.idle(1) == [Idle()]
    both.done(0)
    assert both.done(1) == [Done()]


def test_an_input_that_returns_may_be_left_out():
    both = union(a=[0], b=[0]).delivery(on_return="catch_up")
    both.watermark(0, 0, wm(10))
    both.watermark(1, 0, wm(20))
    both.idle(0)
    both.event(0)
    assert both.watermark(1, 0, wm(30)) == [wm(30)]


def test_the_plan_warns_of_keys_that_not_all_inputs_carry():
    warnings = union({"a": [0, 2], "b": [0], "c": [0, 1]}).warnings()
    assert len(warnings) == 2
    assert "key 1 comes only from 'c'. It is not forwarded while 'a' and 'b' are active" in warnings[0]
    assert "key 2 comes only from 'a'. It is not forwarded while 'b' and 'c' are active" in warnings[1]


def test_the_plan_does_not_warn_where_all_inputs_carry_the_same_keys():
    assert union(a=[0, 1], b=[1, 0]).warnings() == ()


def test_a_union_needs_two_inputs():
    with pytest.raises(PlanError, match="union of 1 input"):
        union(a=[0])


def test_a_key_outside_a_byte_is_refused():
    with pytest.raises(PlanError, match="from 0 to 255"):
        union(a=[0], b=[300])

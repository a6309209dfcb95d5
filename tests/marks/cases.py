"""Random histories of scaling, and what a position means, spelled out event by event."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from hypothesis import strategies as st

from eventide.marks.segments import Position, Segments

BEGUN = -1
"""Stands for the begin of a segment, so that a cut before its first event differs from one behind its predecessors."""


@st.composite
def scalings(draw: st.DrawFn, segments: Segments) -> tuple[list[int], list[tuple[float, float]]]:
    """Neighbouring open segments to seal, and new ranges over their keys."""
    opened = segments.open
    first = draw(st.integers(0, len(opened) - 1))
    last = draw(st.integers(first, min(first + 1, len(opened) - 1)))
    low, high = opened[first].low, opened[last].high
    inner = draw(st.sets(st.sampled_from([0.25, 0.5, 0.75]), max_size=2))
    bounds = [low, *sorted(low + (high - low) * place for place in inner), high]
    return [segment.number for segment in opened[first : last + 1]], list(pairwise(bounds))


@st.composite
def histories(draw: st.DrawFn, most: int = 7) -> Segments:
    """A stream that was scaled a few times, with at most so many segments."""
    segments = Segments.even(draw(st.integers(1, 2)))
    for _ in range(draw(st.integers(0, 4))):
        scaled = segments.scaled(*draw(scalings(segments)))
        if len(scaled.all) > most:
            break
        segments = scaled
    return segments


def before(segments: Segments, position: Position, length: int = 9) -> set[tuple[int, int]]:
    """All events (segment and offset) before a position, if no segment has more than ``length``.

    Older segments over the same keys are before newer ones.
    """
    events_before: set[tuple[int, int]] = set()
    for number, offset in position.items():
        events_before |= {(number, place) for place in range(BEGUN, offset)}
        ahead = [number]
        while ahead:
            newer = segments[ahead.pop()]
            for older in segments.all:
                if older.epoch < newer.epoch and older.low < newer.high and newer.low < older.high:
                    everything = {(older.number, place) for place in range(BEGUN, length)}
                    if not everything <= events_before:
                        events_before |= everything
                        ahead.append(older.number)
    return events_before


def cuts(segments: Segments, offsets: int) -> Iterator[dict[int, int]]:
    """Every cut there is, with offsets below ``offsets``: all keys once, and nothing behind anything else."""
    for size in range(1, len(segments.all) + 1):
        for chosen in combinations(segments.all, size):
            ordered = sorted(chosen, key=lambda segment: segment.low)
            meet = all(lower.high == upper.low for lower, upper in pairwise(ordered))
            whole = meet and ordered[0].low == 0.0 and ordered[-1].high == 1.0
            # Ranges alone are not enough: a merge in between may put a segment behind one that it shares no key with.
            begun = before(segments, {segment.number: 0 for segment in chosen}, 1)
            if whole and not any((segment.number, 0) in begun for segment in chosen):
                for places in product(range(offsets), repeat=size):
                    yield {segment.number: place for segment, place in zip(chosen, places, strict=True)}

"""A picture is a well-formed page that shows every row, mark and pane where it happened."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.testing.chart_marks import Box
from eventide.testing.chart_page import picture, pictures
from eventide.testing.chart_timeline import Event, Facet, Pane, Timeline
from eventide.time import MAX, MIN

SVG = "{http://www.w3.org/2000/svg}"
MINUTE = 60_000_000


def m(minutes: float) -> int:
    return int(minutes * MINUTE)


def pane(start: float, end: float, at: float, label: str, timing: str = "ON_TIME", diff: int = 1) -> Pane:
    return Pane("all", m(start), m(end), m(at), label, timing, diff)  # type: ignore[arg-type]


TEN_INTEGERS = Timeline(
    events=[
        Event(m(time), m(at), label)
        for time, at, label in [
            (0.4, 5.3, "5"),
            (1.4, 8.3, "9"),
            (2.4, 5.6, "7"),
            (3.1, 7.1, "8"),
            (3.6, 6.2, "3"),
            (4.3, 6.6, "4"),
            (6.6, 7.3, "3"),
            (7.1, 8.6, "8"),
            (7.3, 7.8, "3"),
            (7.8, 9.0, "1"),
        ]
    ],
    watermarks=[(m(5), MIN), (m(6), m(2)), (m(7.5), m(4)), (m(7.9), m(6)), (m(9.2), MAX)],
    panes=[
        pane(0, 2, 6, "5"),
        pane(0, 2, 8.3, "5", "LATE", -1),
        pane(0, 2, 8.3, "14", "LATE"),
        pane(2, 4, 6.2, "10", "EARLY"),
        pane(2, 4, 7.5, "10", "ON_TIME", -1),
        pane(2, 4, 7.5, "18"),
        pane(4, 6, 7.9, "4"),
        pane(6, 8, 9.2, "15"),
    ],
)


def parse(page: str) -> ET.Element:
    return ET.fromstring(page)


def drawing(timeline: Timeline) -> ET.Element:
    drawing = parse(picture(timeline)).find(f".//figure/{SVG}svg")
    assert drawing is not None
    return drawing


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [node for node in root.iter() if name in node.get("class", "").split()]


def text_of(node: ET.Element) -> str:
    return "".join(node.itertext())


def words(node: ET.Element) -> str:
    return "".join(t.text or "" for t in node.iter(f"{SVG}text"))


def height(node: ET.Element) -> tuple[float, float]:
    """The top and the bottom of the box of a pane."""
    rect = node.find(f"{SVG}rect")
    assert rect is not None
    return float(rect.attrib["y"]), float(rect.attrib["y"]) + float(rect.attrib["height"])


def test_every_row_and_every_pane_is_labelled() -> None:
    root = drawing(TEN_INTEGERS)
    assert [words(node) for node in of_class(root, "event")] == [event.label for event in TEN_INTEGERS.events]
    assert sorted(words(node) for node in of_class(root, "tag")) == sorted(
        pane.label if pane.diff > 0 else f"−{pane.label}" for pane in TEN_INTEGERS.panes
    )


def test_panes_are_coloured_by_timing_and_retractions_apart() -> None:
    root = drawing(TEN_INTEGERS)
    tags = {words(node): node.get("class") for node in of_class(root, "tag")}
    assert tags == {
        "5": "tag ON_TIME",
        "−5": "tag retraction",
        "14": "tag LATE",
        "10": "tag EARLY",
        "−10": "tag retraction",
        "18": "tag ON_TIME",
        "4": "tag ON_TIME",
        "15": "tag ON_TIME",
    }
    assert len(of_class(root, "retracted")) == 2


def test_a_row_later_in_event_time_is_further_right_and_one_that_arrives_later_higher() -> None:
    def place(node: ET.Element) -> tuple[float, float]:
        x, y = re.findall(r"-?[0-9.]+", node.attrib["transform"])
        return float(x), float(y)

    first, second = map(place, of_class(drawing(Timeline(events=[Event(0, 10, "a"), Event(5, 20, "b")])), "event"))
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_a_pane_stands_on_the_emission_before_it() -> None:
    root = drawing(Timeline(panes=[pane(0, 2, 3, "1", "EARLY"), pane(0, 2, 5, "2")], events=[Event(0, m(1), "r")]))
    first, second = map(height, of_class(root, "pane"))
    assert second[1] == pytest.approx(first[0])


def test_a_first_pane_stands_on_the_first_row_of_its_window() -> None:
    rows = [Event(m(3), m(0), "other"), Event(m(1), m(1), "first"), Event(m(1), m(2), "second")]
    root = drawing(Timeline(events=rows, panes=[pane(0, 2, 3, "2")]))
    (box,) = of_class(root, "pane")
    arrived = of_class(root, "event")[1].attrib["transform"]
    assert f" {height(box)[1]})" in arrived


def test_a_merged_session_stands_on_the_sessions_it_takes_back() -> None:
    panes = [
        pane(0, 2, 3, "1"),
        pane(3, 5, 6, "2"),
        pane(0, 2, 7, "1", "LATE", -1),
        pane(3, 5, 7, "2", "LATE", -1),
        pane(0, 5, 7, "4", "LATE"),
    ]
    boxes = of_class(drawing(Timeline(panes=panes, events=[Event(0, 0, "r")])), "pane")
    assert height(boxes[2])[1] == pytest.approx(height(boxes[1])[0])


def test_the_watermark_is_a_staircase_that_never_goes_back() -> None:
    (line,) = of_class(drawing(TEN_INTEGERS), "watermark")
    path = line.attrib["d"]
    assert re.fullmatch(r"M[0-9.]+,[0-9.]+( V[0-9.]+ H[0-9.]+)+ V[0-9.]+", path)
    across = [float(x) for x in re.findall(r"[MH]([0-9.]+)", path)]
    up = [float(y) for y in re.findall(r"[,V]([0-9.]+)", path)]
    assert across == sorted(across)
    assert up == sorted(up, reverse=True)
    assert len(set(across)) == 5


def test_a_watermark_beyond_all_data_does_not_squeeze_the_drawing() -> None:
    near = Timeline(TEN_INTEGERS.events, [(m(5), m(2))], TEN_INTEGERS.panes)
    far = Timeline(TEN_INTEGERS.events, [(m(5), m(2_000_000))], TEN_INTEGERS.panes)
    assert ticks(drawing(near)) == ticks(drawing(far))


def ticks(root: ET.Element) -> list[str]:
    return [words_of.text or "" for words_of in of_class(root, "tick")]


def test_late_rows_and_dead_letters_have_shapes_and_hover_texts_of_their_own() -> None:
    root = drawing(Timeline(events=[Event(0, 1, "in"), Event(0, 2, "out", "late"), Event(0, 3, "bad", "dead")]))
    inside, late, dead = of_class(root, "event")
    assert inside.find(f"{SVG}circle") is not None
    assert late.find(f"{SVG}path") is not None
    assert dead.find(f"{SVG}path") is not None
    assert "out: event time 1970-01-01T00:00:00Z, arrived 1970-01-01T00:00:00.000002Z, late" in text_of(late)
    assert "dead letter" in text_of(dead)


def test_ticks_are_times_of_day_and_the_axis_names_the_date() -> None:
    noon = 1_714_564_800_000_000
    root = drawing(Timeline(events=[Event(noon, noon + m(5), "a"), Event(noon + m(8), noon + m(9), "b")]))
    assert {"12:00", "12:02", "12:04", "12:06", "12:08"} <= set(ticks(root))
    assert ["2024-05-01" in text_of(axis) for axis in of_class(root, "axis")] == [True, True]


def test_the_ideal_is_where_both_times_are_equal() -> None:
    square = drawing(Timeline(events=[Event(0, 0, "a"), Event(m(10), m(10), "b")]))
    assert len(of_class(square, "ideal")) == 1
    apart = drawing(Timeline(events=[Event(0, m(100), "a"), Event(m(10), m(110), "b")]))
    assert of_class(apart, "ideal") == []


def test_the_legend_names_only_what_is_shown() -> None:
    def legend(timeline: Timeline) -> list[str]:
        (legend,) = of_class(parse(picture(timeline)), "legend")
        return [(item[0].tail or "") for item in legend]

    assert legend(TEN_INTEGERS) == [
        "row, with its value",
        "watermark",
        "ideal: no delay",
        "early pane",
        "on-time pane",
        "late pane",
        "retraction",
    ]
    assert legend(Timeline(events=[Event(0, 0, "x", "late")])) == ["late row", "ideal: no delay"]


def boxes(root: ET.Element, name: str) -> list[Box]:
    rects = [node.find(f"{SVG}rect") for node in of_class(root, name)]
    return [
        Box(*(float(rect.attrib[side]) for side in ("x", "y", "width", "height"))) for rect in rects if rect is not None
    ]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 20), st.integers(0, 10**6), st.sampled_from([1, -1])), max_size=60
    )
)
def test_labels_of_panes_never_cover_each_other(emitted: list[tuple[int, int, int, int]]) -> None:
    panes = [pane(start, start + 1, at, str(value), "EARLY", diff) for start, at, value, diff in emitted]
    labels = boxes(drawing(Timeline(panes=panes)), "tag")
    assert not any(label.overlap(other) for number, label in enumerate(labels) for other in labels[:number])


def test_where_labels_do_not_fit_the_on_time_pane_keeps_its_label() -> None:
    early = [pane(0, 1, 5 + number / 1000, "1000", "EARLY") for number in range(50)]
    wide = [pane(0, 100, 0, "9"), pane(0, 100, 10, "9")]  # gives the drawing its axes
    root = drawing(Timeline(panes=[*early, pane(0, 1, 5.01, "2000"), *wide]))
    assert "2000" in [words(node) for node in of_class(root, "tag")]
    assert len(of_class(root, "tag")) < len(early)
    assert len(of_class(root, "pane")) == len(early) + 3


def test_a_label_avoids_the_watermark() -> None:
    emission = Pane("", 0, 60_000_000, 60_000_000, "7", "ON_TIME")
    crossing = [(0, 0), (30_000_000, 59_400_000), (90_000_000, 59_500_000)]  # through the corner where labels are
    tag = re.compile(r'class="tag[^"]*"><title>[^<]*</title><rect x="([\d.]+)"')
    free, avoiding = (tag.search(picture(Timeline((), watermarks, [emission]))) for watermarks in ([], crossing))
    assert free and avoiding and float(avoiding[1]) < float(free[1])


def test_a_retraction_is_next_to_the_pane_that_replaces_it() -> None:
    root = drawing(Timeline(panes=[pane(0, 9, 3, "5", "EARLY"), pane(0, 9, 6, "5", "ON_TIME", -1), pane(0, 9, 6, "8")]))
    by_label = dict(zip([words(node) for node in of_class(root, "tag")], boxes(root, "tag"), strict=True))
    retracted, replaced = by_label["−5"], by_label["8"]
    assert retracted.y == replaced.y
    assert 0 < replaced.x - (retracted.x + retracted.width) < 4


def test_crowded_rows_are_small_dots_without_labels() -> None:
    rows = [Event(m(number / 10), m(1), "7") for number in range(100)]
    root = drawing(Timeline(events=rows))
    assert len(of_class(root, "small")) == 100
    assert [words(node) for node in of_class(root, "small")] == [""] * 100


def test_thousands_of_rows_are_cells_whose_numbers_add_up() -> None:
    rows = [Event(m(number % 97), m(number % 89), "") for number in range(5000)]
    aside = [Event(m(1), m(80), "old", "late"), Event(m(2), m(80), "bad", "dead")]
    root = drawing(Timeline(events=[*rows, *aside]))
    (cells,), (area,) = of_class(root, "density"), of_class(root, "area")
    numbers = [int(text_of(cell).split()[0].replace(",", "")) for cell in cells]
    assert sum(numbers) == 5000
    left, top = float(area.attrib["x"]), float(area.attrib["y"])
    right, bottom = left + float(area.attrib["width"]), top + float(area.attrib["height"])
    for cell in cells:
        x, y, wide, high = (float(cell.attrib[side]) for side in ("x", "y", "width", "height"))
        assert left <= x and x + wide <= right + 0.1 and top <= y and y + high <= bottom + 0.1
    assert [words(node) for node in of_class(root, "event")] == ["old", "bad"]


def test_the_legend_explains_how_rows_are_drawn() -> None:
    def first(number: int) -> str:
        (legend,) = of_class(
            parse(picture(Timeline(events=[Event(m(n), m(n % 2), "") for n in range(number)]))), "legend"
        )
        return legend[0][0].tail or ""

    assert [first(number) for number in (2, 200, 2000)] == ["row, with its value", "row", "rows: the darker, the more"]


def test_facets_carry_their_title_and_sentence_and_share_axes() -> None:
    facets = [
        Facet("Discarding", Timeline(events=[Event(0, 0, "a")]), "Parts."),
        Facet("Accumulating", Timeline(events=[Event(m(60), m(60), "b")]), "The whole."),
    ]
    root = parse(pictures(facets, title="Modes", text="Two of three."))
    figures = root.findall(".//figure")
    assert [text_of(figure[0]) for figure in figures] == ["DiscardingParts.", "AccumulatingThe whole."]
    assert ticks(figures[0]) == ticks(figures[1])
    apart = parse(pictures(facets, same_axes=False)).findall(".//figure")
    assert ticks(apart[0]) != ticks(apart[1])


def test_each_drawing_is_named_for_those_who_cannot_see_it() -> None:
    root = parse(pictures([Facet("One", TEN_INTEGERS, "See."), Facet("Two", TEN_INTEGERS)]))
    ids = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(ids) == len(set(ids))
    for figure in root.findall(".//figure"):
        image = figure.find(f"{SVG}svg")
        assert image is not None
        assert image.get("role") == "img"
        names = {node.get("id"): node.text or "" for node in image if node.get("id")}
        assert list(names) == image.attrib["aria-labelledby"].split()
        assert "Panes in order: 5, minus 5, 14" in " ".join(names.values())


def test_a_page_needs_nothing_from_elsewhere() -> None:
    page = picture(TEN_INTEGERS)
    assert set(re.findall(r"https?://[^\"]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|@import|url\(|<link|<img", page)
    assert "prefers-color-scheme: dark" in page


def test_an_empty_timeline_is_an_empty_drawing() -> None:
    root = drawing(Timeline())
    assert of_class(root, "event") == of_class(root, "pane") == of_class(root, "watermark") == []


def test_a_global_window_is_drawn_to_the_edges() -> None:
    timeline = Timeline(events=[Event(m(1), m(1), "a")], panes=[Pane("k", MIN, MAX, m(2), "1", "EARLY")])
    root = drawing(timeline)
    (area,), (box,) = of_class(root, "area"), of_class(root, "pane")
    rect = box.find(f"{SVG}rect")
    assert rect is not None
    assert float(rect.attrib["width"]) == float(area.attrib["width"])


@settings(deadline=None)
@given(st.text(st.characters(), max_size=8))
def test_any_label_is_escaped(label: str) -> None:
    hostile = label + "<script>&\"'"
    timeline = Timeline(
        events=[Event(0, 0, hostile), Event(0, 0, hostile, "late")], panes=[Pane(hostile, 0, 1, 1, hostile, "LATE", -1)]
    )
    page = pictures([Facet(hostile, timeline, hostile)], title=hostile, text=hostile)
    assert "<script" not in page
    (figure,) = parse(page).findall(".//figure")
    assert [hostile[len(label) :] in words(node) for node in of_class(figure, "event")] == [True, True]


instants = st.one_of(st.integers(MIN, MAX), st.sampled_from([MIN, MAX, 0]))


@settings(deadline=None)
@given(
    st.builds(
        Timeline,
        events=st.lists(st.builds(Event, instants, instants, st.just("e")), max_size=3),
        watermarks=st.lists(st.tuples(instants, instants), max_size=3),
        panes=st.lists(
            st.builds(Pane, st.just("k"), instants, instants, instants, st.just("p"), st.just("LATE")), max_size=3
        ),
    )
)
def test_any_instant_can_be_drawn(timeline: Timeline) -> None:
    root = drawing(timeline)
    assert len(of_class(root, "event")) == len(timeline.events)
    assert len(of_class(root, "tick")) < 60

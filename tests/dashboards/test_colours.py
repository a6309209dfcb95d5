"""The dashboard, the pictures and the figures have one colour scale, and colour-blind readers can use it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

import eventide
from eventide.testing.chart_svg import STYLE

STATIC = Path(eventide.__file__).parent / "dashboards" / "static"
FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "draw.py"
NAMES = {"early": "EARLY", "on-time": "ON_TIME", "late": "LATE", "retraction": "retraction", "dead": "dead"}
SCHEMES = ("light", "dark")
# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISION = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
# Distances in OKLab. Green (#1a7f45) and red (#c2362b) are 0.06 apart in deuteranopia, which is hard to tell.
LEAST_DISTANCE = 0.07
LEAST_CONTRAST = 4.5  # of text, by WCAG 2


def variables(style: str, scheme: str) -> dict[str, str]:
    """The custom properties of the first rules for ``:root``: light, then dark."""
    rules = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#\w{6});", rules[SCHEMES.index(scheme)]))


def oklab(colour: str, vision: str) -> tuple[float, float, float]:
    """A colour as readers with a colour vision deficiency perceive it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    red, green, blue = (max(sum(a * b for a, b in zip(row, linear, strict=True)), 0) for row in VISION[vision])
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def distance(first: str, second: str, vision: str) -> float:
    pairs = zip(oklab(first, vision), oklab(second, vision), strict=True)
    return float(sum((a - b) ** 2 for a, b in pairs) ** 0.5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_dashboard_has_the_colours_of_pictures_and_figures(scheme: str) -> None:
    page = variables((STATIC / "style.css").read_text(), scheme)
    picture, figure = variables(STYLE, scheme), variables(FIGURES.read_text(), scheme)
    assert {name: page[name] for name in NAMES} == {name: picture[other] for name, other in NAMES.items()}
    renamed = {"retraction": "GONE"}
    in_figures = {name: other for name, other in NAMES.items() if name != "dead"}  # figures show no dead letters
    assert [figure[renamed.get(other, other)] for other in in_figures.values()] == [page[name] for name in in_figures]


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_colour_blind_readers_distinguish_panes_retractions_and_dead_letters(scheme: str, vision: str) -> None:
    colours = variables(STYLE, scheme)
    for first, second in combinations(NAMES.values(), 2):
        assert distance(colours[first], colours[second], vision) > LEAST_DISTANCE, (first, second)


def test_the_measure_rejects_green_and_red() -> None:
    assert distance("#1a7f45", "#c2362b", "deuteranopia") < LEAST_DISTANCE


@pytest.mark.parametrize("script", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_scripts_take_colours_from_the_style(script: Path) -> None:
    assert re.findall(r"#[0-9a-fA-F]{6}\b", script.read_text()) == []


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def text_colours(style: str) -> set[str]:
    """The variables that are colours of text."""
    return set(re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", style)) | {"soft"}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_dimmed_and_coloured_text_has_enough_contrast(scheme: str) -> None:
    style = (STATIC / "style.css").read_text()
    colours = variables(style, scheme)
    names = text_colours(style) - {"card"}
    assert {"soft", "ink", "late-text", "dead"} <= names
    pairs = {(name, place) for name in names for place in ("card", "page")} | {("card", "alarm"), ("card", "accent")}
    ratios = {(name, place): contrast(colours[name], colours[place]) for name, place in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < LEAST_CONTRAST} == {}
    assert "opacity" not in style  # it would lower the contrast of text


def test_the_measure_of_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#777777", "#ffffff") < LEAST_CONTRAST

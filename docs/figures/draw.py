"""Draws the figures of the documentation: ``python docs/figures/draw.py`` writes them next to this file.

Plain Python, no packages, and the same bytes each time. Positions on a time axis are minutes after 12:00.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

STYLE = """
:root {
  --paper: #ffffff; --sheet: #f6f5f1; --ink: #22262b; --soft: #5f666d; --line: #dddad2;
  --EARLY: #2f76b5; --ON_TIME: #12805c; --LATE: #c4620a; --GONE: #9c1c7c; --on-tone: #ffffff; --wash: 0.14;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #191c22; --sheet: #21252c; --ink: #e8e6e1; --soft: #a3aab2; --line: #363d45;
    --EARLY: #6cb2ee; --ON_TIME: #4cc79a; --LATE: #f2a154; --GONE: #db6eb5; --on-tone: #12151a; --wash: 0.2;
  }
}
text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink); }
.code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.small { font-size: 12.5px; } .soft { fill: var(--soft); } .bold { font-weight: 650; } .big { font-size: 16px; }
.middle { text-anchor: middle; } .end { text-anchor: end; }
.halo { paint-order: stroke; stroke: var(--halo, var(--paper)); stroke-width: 4px; stroke-linejoin: round; }
.paper { fill: var(--paper); stroke: var(--line); } .sheet { fill: var(--sheet); }
.grid { stroke: var(--line); fill: none; } .axis { stroke: var(--soft); stroke-width: 1.4; fill: none; }
.dashed { stroke-dasharray: 5 4; } .dotted { stroke-dasharray: 1.5 4; stroke-linecap: round; }
.row { fill: var(--ink); } .hollow { fill: var(--paper); stroke: var(--ink); stroke-width: 1.8; }
.ink { stroke: var(--ink); fill: none; stroke-width: 2.6; stroke-linejoin: round; } .thin { stroke-width: 1.4; }
.EARLY { --tone: var(--EARLY); } .ON_TIME { --tone: var(--ON_TIME); } .LATE { --tone: var(--LATE); }
.GONE { --tone: var(--GONE); } .NONE { --tone: var(--soft); }
.wash { fill: var(--tone); fill-opacity: var(--wash); stroke: var(--tone); stroke-width: 1.5; }
.faint { fill: var(--tone); fill-opacity: 0.06; stroke: var(--tone); stroke-opacity: 0.7; stroke-dasharray: 4 3; }
.empty { fill: none; stroke: var(--soft); stroke-opacity: 0.7; stroke-dasharray: 4 3; }
.solid { fill: var(--tone); } .stroke { fill: none; stroke: var(--tone); stroke-width: 2.2; stroke-linejoin: round; }
.toned { fill: var(--tone); } .on { fill: var(--on-tone); font-weight: 650; }
"""


class Sheet:
    """One figure: shapes added one after the other, in pixels."""

    def __init__(self, name: str, width: int, height: int, title: str) -> None:
        self.name, self.width, self.height, self.title = name, width, height, title
        self.shapes: list[str] = []
        self.box(0.5, 0.5, width - 1, height - 1, "paper", round=10)

    def box(self, x: float, y: float, width: float, height: float, look: str, *, round: float = 4) -> None:
        """A rectangle."""
        size = f'width="{_n(width)}" height="{_n(height)}" rx="{_n(round)}"'
        self.shapes.append(f'<rect class="{look}" x="{_n(x)}" y="{_n(y)}" {size}/>')

    def path(self, points: Sequence[tuple[float, float]], look: str, *, closed: bool = False) -> None:
        """Straight lines from point to point."""
        route = " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.shapes.append(f'<path class="{look}" d="M{route}{" Z" if closed else ""}"/>')

    def dot(self, x: float, y: float, look: str = "row", *, size: float = 4.5) -> None:
        """A round mark."""
        self.shapes.append(f'<circle class="{look}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(size)}"/>')

    def text(self, x: float, y: float, words: str, look: str = "") -> None:
        """One line of words; ``y`` is its middle."""
        kind = f' class="{look}"' if look else ""
        self.shapes.append(f'<text{kind} x="{_n(x)}" y="{_n(y + 5)}">{escape(words)}</text>')

    def arrow(self, x: float, y: float, dx: float, dy: float, look: str) -> None:
        """A straight arrow that ends at ``(x + dx, y + dy)``."""
        self.path([(x, y), (x + dx, y + dy)], look)
        length = (dx * dx + dy * dy) ** 0.5
        ux, uy = dx / length, dy / length
        tip = (x + dx, y + dy)
        for side in (1, -1):
            self.path([tip, (tip[0] - 8 * ux + side * 4.5 * uy, tip[1] - 8 * uy - side * 4.5 * ux)], look)

    def tag(self, x: float, y: float, words: str, tone: str, *, width: float = 0) -> None:
        """A filled label around its middle."""
        wide = width or 16 + 8.2 * len(words)
        self.box(x - wide / 2, y - 11, wide, 22, f"{tone} solid", round=5)
        self.text(x, y, words, "middle on")

    def svg(self) -> str:
        """The whole file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img"'
        size = f' width="{self.width}" height="{self.height}"'
        inner = "\n".join(self.shapes)
        return f"{head}{size}>\n<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n{inner}\n</svg>\n"


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _clock(minutes: float) -> str:
    seconds = round(minutes * 60) + 12 * 3600
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}"


def _time_axis(sheet: Sheet, x: Callable[[float], float], y: float, ticks: Sequence[int]) -> None:
    for minute in ticks:
        sheet.path([(x(minute), y), (x(minute), y + 6)], "axis")
        sheet.text(x(minute), y + 18, _clock(minute), "middle small soft")


def windows() -> Sheet:
    """The kinds of windows over the same seven rows."""
    sheet = Sheet("windows", 1040, 604, "The kinds of windows over the same seven rows of one key")
    rows = (0.5, 1.2, 2.6, 5.6, 6.2, 9.0, 9.9)
    top, bottom = 62.0, 540.0

    def x(minute: float) -> float:
        return 300 + (minute + 2) * 44

    for minute in range(-2, 15, 2):
        sheet.path([(x(minute), top), (x(minute), bottom)], "grid")
    sheet.path([(x(-2), bottom), (x(14.3), bottom)], "axis")
    _time_axis(sheet, x, bottom, range(-2, 15, 2))
    sheet.text(x(6), bottom + 42, "event time", "middle small soft")
    sheet.text(24, 38, "rows of one key", "bold")
    for number, at in enumerate(rows, 1):
        sheet.path([(x(at), 38), (x(at), bottom)], "grid dotted")
        sheet.dot(x(at), 38, size=5)
        sheet.text(x(at), 20, str(number), "middle small soft")

    def lane(y: float, name: str, code: str, fact: str) -> None:
        sheet.text(24, y, name, "bold")
        sheet.text(24, y + 19, code, "code soft")
        sheet.text(24, y + 37, fact, "small soft")

    def window(start: float, end: float, y: float, tone: str, height: float = 26) -> None:
        held = sum(start <= at < end for at in rows)
        look = f"{tone} wash" if held else "empty"
        sheet.box(x(start) + 1.5, y, (end - start) * 44 - 3, height, look)
        words = f"{held} row{'s' * (held != 1)}" if held else "no row, no window"
        sheet.text(x((start + end) / 2), y + height / 2, words, "middle small" + ("" if held else " soft"))

    lane(80, "tumbling", 'tumbling("4m")', "each row in one window")
    for start in (0, 4, 8):
        window(start, start + 4, 76, "EARLY")

    lane(154, "sliding", 'sliding("4m", every="2m")', "each row in size / every windows")
    for i, start in enumerate(range(-2, 11, 2)):
        window(start, start + 4, 146 + 31 * (i % 2), "EARLY")

    lane(250, "cumulating", 'cumulate("2m", "6m")', "one start, a growing end")
    for period in (0, 6):
        for step in (1, 2, 3):
            window(period, period + 2 * step, 242 + 29 * (step - 1), "EARLY", 24)

    lane(370, "sessions", 'sessions("2m")', "the rows decide; two sessions can merge")
    for start, last in ((0.5, 2.6), (5.6, 6.2), (9.0, 9.9)):
        held = sum(start <= at <= last for at in rows)
        sheet.box(x(start), 372, (last - start + 2) * 44, 28, "ON_TIME wash")
        sheet.text(x((start + last + 2) / 2), 386, f"{held} rows", "middle small")
        sheet.path([(x(last) + 2, 410), (x(last + 2), 410)], "ON_TIME stroke thin")
        for edge in (x(last) + 2, x(last + 2)):
            sheet.path([(edge, 406), (edge, 414)], "ON_TIME stroke thin")
        sheet.text(x(last + 1), 424, "gap", "middle small soft")

    lane(462, "rows", "rows(3)", "counted in rows of the key, not in time")
    for first in (0, 3):
        left, right = x(rows[first]) - 12, x(rows[first + 2]) + 12
        sheet.box(left, 466, right - left, 28, "LATE wash")
        sheet.text((left + right) / 2, 480, f"rows {first + 1} to {first + 3}", "middle small")
    sheet.box(x(9.9) - 12, 466, 118, 28, "LATE faint")
    sheet.text(x(9.9) + 47, 480, "open: 1 of 3", "middle small soft")
    return sheet


def origins() -> Sheet:
    """Watermarks of three origins and their least, with one that falls silent."""
    sheet = Sheet("origins", 1040, 560, "Watermarks of three origins, and the watermark of the stream: their least")
    left, right, top, bottom = 84.0, 800.0, 44.0, 474.0
    a = (1, 2, 3, 4, 5.2, 6.4, 7.4, 8.4, 9.2)
    b = (0.5, 1.4, 2.4, 3.2, 4.4, 5.5, 6.5, 7.6, 8.4)
    c: tuple[float | None, ...] = (0.8, 1.7, None, None, None, None, 3.4, 5.6, 8.0)

    def x(batch: float) -> float:
        return left + batch * (right - left) / 9

    def y(minute: float) -> float:
        return bottom - minute * (bottom - top) / 10

    for minute in range(0, 11, 2):
        sheet.path([(left, y(minute)), (right, y(minute))], "grid")
        sheet.text(left - 12, y(minute), _clock(minute), "end small soft")
    for batch in range(10):
        sheet.path([(x(batch), bottom), (x(batch), bottom + 6)], "axis")
        if batch < 9:
            sheet.text(x(batch + 0.5), bottom + 18, str(batch + 1), "middle small soft")
    sheet.path([(left, top), (left, bottom), (right, bottom)], "axis")
    sheet.text((left + right) / 2, bottom + 44, "batches (processing time)", "middle small soft")
    sheet.text(24, 22, "event time", "small soft")

    idle_from, idle_to = 4, 6
    sheet.box(x(idle_from), top, x(idle_to) - x(idle_from), bottom - top, "GONE faint", round=0)
    sheet.text((x(idle_from) + x(idle_to)) / 2, bottom - 36, "c has been silent too", "middle small soft halo")
    sheet.text((x(idle_from) + x(idle_to)) / 2, bottom - 18, "long: it is idle", "middle small soft halo")

    known = 0.0
    heights: list[float] = []
    for value in c:
        known = known if value is None else value
        heights.append(known)
    output, plain = [], []
    least = 0.0
    for i in range(9):
        inputs = [a[i], b[i]] if idle_from <= i < idle_to else [a[i], b[i], heights[i]]
        least = max(least, min(inputs))
        output.append(least)
        plain.append(min(a[i], b[i]))

    def steps(values: Sequence[float], first: int = 0) -> list[tuple[float, float]]:
        points: list[tuple[float, float]] = []
        for i, value in enumerate(values, first):
            points += [(x(i), y(value)), (x(i + 1), y(value))]
        return points

    sheet.path(steps(a), "EARLY stroke")
    sheet.path(steps(b), "ON_TIME stroke")
    sheet.path(steps(heights[:4]), "LATE stroke")
    sheet.path(steps(heights[4:6], 4), "LATE stroke dotted")
    sheet.path([(x(6), y(1.7)), *steps(heights[6:], 6)], "LATE stroke")
    low = [(px, py + 5) for px, py in steps(output)]
    caught = [(px, py + 5) for px, py in steps(plain[6:], 6)]
    sheet.path(caught, "ink thin dashed")
    sheet.path(low, "ink")
    for words, value, tone in (("origin a", a[-1], "EARLY"), ("origin b", b[-1], "ON_TIME"), ("origin c", 8.0, "LATE")):
        sheet.text(right + 14, y(value) - (5 if words == "origin b" else 0), words, f"{tone} toned bold")
    sheet.text(right + 14, y(8.0) + 26, "the stream's watermark:", "bold")
    sheet.text(right + 14, y(8.0) + 46, "the least of those waited for", "small soft")
    sheet.text(x(2.1), y(1.05), "held back by c", "small soft halo")
    sheet.text(x(6.05), y(3.0) + 22, "c returns behind it:", "small soft halo")
    sheet.text(x(6.05), y(3.0) + 40, "the output waits (hold)", "small soft halo")
    sheet.text(x(6.06), y(5.98), "catch_up: without c", "small soft halo")
    return sheet


KEYS_CLICKS = (2, 4, 6, 8, 10, 11, 12, 14)  # the watermark of each stream after each batch, in minutes
KEYS_BUYS = (3, 4, 5, 5.5, 6, 10, 13, 14.5)
KEYS_WITHIN = 4


def keys() -> Sheet:
    """The two watermarks that a join receives, and the two that it passes on."""
    sheet = Sheet("keys", 1040, 520, "A join receives two watermarks, distinguished by their keys, and passes both on")
    left, right, top, bottom = 84.0, 744.0, 54.0, 436.0
    batches = len(KEYS_CLICKS)
    pairs = list(zip(KEYS_CLICKS, KEYS_BUYS, strict=True))

    def x(batch: float) -> float:
        return left + batch * (right - left) / batches

    def y(minute: float) -> float:
        return bottom - (minute + 2) * (bottom - top) / 18

    def steps(values: Sequence[float], down: float) -> list[tuple[float, float]]:
        return [(x(i + end), y(value) + down) for i, value in enumerate(values) for end in (0, 1)]

    for minute in range(-2, 17, 2):
        sheet.path([(left, y(minute)), (right, y(minute))], "grid")
        sheet.text(left - 12, y(minute), _clock(minute), "end small soft")
    for batch in range(batches):
        sheet.text(x(batch + 0.5), bottom + 18, str(batch + 1), "middle small soft")
    sheet.path([(left, top - 8), (left, bottom), (right, bottom)], "axis")
    sheet.text((left + right) / 2, bottom + 46, "batches (processing time)", "middle small soft")
    sheet.text(24, 24, "event time", "small soft")

    clicks = [min(click, buy - KEYS_WITHIN) for click, buy in pairs]
    buys = [min(click, buy) for click, buy in pairs]
    sheet.path(steps(KEYS_CLICKS, 0), "EARLY stroke")
    sheet.path(steps(KEYS_BUYS, 0), "LATE stroke")
    sheet.path(steps(clicks, 4), "EARLY stroke dashed")
    sheet.path(steps(buys, 4), "LATE stroke dashed")
    waits = (x(2.5), y(clicks[2]) - 4, 0, y(KEYS_BUYS[2]) - y(clicks[2]) + 14)
    sheet.arrow(*waits, "axis")
    sheet.text(x(2.5) + 10, y(3.3), "a buy may follow its click", "small soft halo")
    sheet.text(x(2.5) + 10, y(3.3) + 17, "by 4 minutes", "small soft halo")
    sheet.text(x(1.1), y(11.2), "clicks run ahead:", "small soft halo")
    sheet.text(x(1.1), y(11.2) + 17, "they are kept, not late", "small soft halo")

    side = right + 26
    for level, look, name, fact in (
        (110, "EARLY stroke", "key 0: clicks", "as the join receives it"),
        (170, "LATE stroke", "key 1: buys", "as the join receives it"),
        (250, "EARLY stroke dashed", "key 0, passed on", "no later pair has an earlier click"),
        (310, "LATE stroke dashed", "key 1, passed on", "no later pair has an earlier buy"),
    ):
        sheet.path([(side, level), (side + 30, level)], look)
        sheet.text(side + 42, level, name, "bold")
        sheet.text(side + 42, level + 19, fact, "small soft")
    return sheet


PANES_ROWS = (  # batch, event time in minutes, value
    (1, 0.33, 3),
    (1, 0.83, 4),
    (2, 1.67, 2),
    (2, 2.5, 5),
    (3, 3.17, 1),
    (4, 1.17, 8),
    (4, 3.83, 6),
    (5, 5.33, 2),
    (6, 3.33, 3),
    (6, 1.5, 9),
)
PANES_WATERMARK = (-0.17, 1.5, 2.17, 2.83, 4.33, 4.33)
PANES = (  # start of the window, batch, timing, value
    (0, 1, "EARLY", 7),
    (0, 2, "EARLY", 9),
    (0, 3, "ON_TIME", 9),
    (0, 4, "LATE", 17),
    (2, 2, "EARLY", 5),
    (2, 3, "EARLY", 6),
    (2, 4, "EARLY", 12),
    (2, 5, "ON_TIME", 12),
    (2, 6, "LATE", 15),
    (4, 5, "EARLY", 2),
)


def panes() -> Sheet:
    """Event time against processing time, with the watermark and the panes of three windows."""
    sheet = Sheet("panes", 1040, 700, "Rows, the watermark, and the panes of three windows")
    left, right, top, bottom = 96.0, 776.0, 72.0, 620.0

    def x(minute: float) -> float:
        return left + (minute + 0.5) * (right - left) / 6.8

    def y(batch: float) -> float:
        return bottom - batch * (bottom - top) / 6.7

    for start in (0, 2, 4):
        sheet.box(x(start) + 2, top, x(2) - x(0) - 4, bottom - top, "sheet", round=0)
        sheet.text(x(start + 1), top - 16, f"[{_clock(start)}, {_clock(start + 2)})", "middle small bold")
    for batch in range(1, 7):
        sheet.path([(left, y(batch)), (right, y(batch))], "grid")
        sheet.text(left - 12, y(batch), _clock(batch), "end small soft")
    sheet.path([(left, top - 6), (left, bottom), (right, bottom)], "axis")
    _time_axis(sheet, x, bottom, range(0, 7, 1))
    sheet.text((left + right) / 2, bottom + 48, "event time: when it happened", "middle small soft")
    sheet.text(20, 24, "processing time: when it was processed, one bundle a minute", "small soft")

    for start, batch, timing, value in PANES:
        level = y(batch) - 34
        sheet.path([(x(start) + 4, level), (x(start + 2) - 4, level)], f"{timing} stroke")
        sheet.tag(x(start + 0.6), level, str(value), timing, width=38)
    points = []
    for i, mark in enumerate(PANES_WATERMARK):
        points += [(x(mark), y(i + 1) - 17), (x(mark), y(i + 2) - 17)]
    points[-1] = (points[-1][0], top)
    sheet.path(points, "ink")
    sheet.path([(x(0), y(0)), (x(6.2), y(6.2))], "axis dashed")
    for batch, at, value in PANES_ROWS:
        gone = (batch, value) == (6, 9)
        sheet.dot(x(at), y(batch), "hollow", size=11)
        if gone:
            sheet.path([(x(at) - 14, y(batch) + 14), (x(at) + 14, y(batch) - 14)], "GONE stroke")
        sheet.text(x(at), y(batch), str(value), "middle small bold")

    side = right + 26
    sheet.text(side, y(6.15), "9 is behind the lateness too:", "small")
    sheet.text(side, y(6.15) + 19, "it goes to the late output", "small GONE toned")
    sheet.text(side, y(4.2), "8 is late, but within the", "small")
    sheet.text(side, y(4.2) + 19, "lateness of 2 minutes:", "small")
    sheet.text(side, y(4.2) + 38, "a late pane corrects 9 to 17", "small LATE toned")
    sheet.text(side, y(3.0) - 8, "the watermark passes 12:02:", "small")
    sheet.text(side, y(3.0) + 11, "an on-time pane", "small ON_TIME toned")
    sheet.text(side, y(1.6), "before that, an early pane", "small EARLY toned")
    sheet.text(side, y(1.6) + 19, "with each bundle that has rows", "small")
    sheet.path([(side, bottom - 62), (side + 26, bottom - 62)], "ink")
    sheet.text(side + 36, bottom - 62, "watermark: highest", "small")
    sheet.text(side + 36, bottom - 44, "event time less 1 minute", "small")
    sheet.path([(side, bottom - 18), (side + 26, bottom - 18)], "axis dashed")
    sheet.text(side + 36, bottom - 18, "ideal: no delay", "small")
    sheet.dot(side + 13, bottom + 10, "hollow", size=10)
    sheet.text(side + 36, bottom + 10, "a row and its value", "small")
    sheet.path([(side, bottom + 38), (side + 26, bottom + 38)], "EARLY stroke")
    sheet.text(side + 36, bottom + 38, "a pane and its sum", "small")
    return sheet


def modes() -> Sheet:
    """The three accumulation modes over the same rows."""
    sheet = Sheet("modes", 1040, 446, "The three accumulation modes: the same rows, the same moments, other panes")
    moments = (330.0, 510.0, 690.0)
    sheet.text(24, 46, "rows of one window", "bold")
    for at, values in zip(moments, ((5, 7), (4,), (8,)), strict=True):
        for i, value in enumerate(values):
            dx = (i - (len(values) - 1) / 2) * 32 - 60
            sheet.dot(at + dx, 46, "hollow", size=12)
            sheet.text(at + dx, 46, str(value), "middle bold")
        sheet.path([(at, 84), (at, 430)], "grid")
    for at, (words, tone) in zip(
        moments, (("early pane", "EARLY"), ("on-time pane", "ON_TIME"), ("late pane", "LATE")), strict=True
    ):
        sheet.text(at, 84, words, f"middle {tone} toned bold halo")
    sheet.text(916, 84, "what a reader gets", "middle bold")

    def lane(y: float, name: str, fact: str, result: str, how: str) -> None:
        sheet.box(18, y - 42, 1004, 92, "sheet", round=8)
        sheet.text(34, y - 12, name, "code bold")
        sheet.text(34, y + 12, fact, "small soft")
        sheet.path([(230, y), (800, y)], "axis")
        sheet.text(916, y - 12, result, "middle bold big")
        sheet.text(916, y + 12, how, "middle small soft")

    lane(152, "discarding", "only what is new", "24", "add up all panes: 12 + 4 + 8")
    lane(262, "accumulating", "the whole window again", "24", "keep only the last pane")
    lane(372, "retracting", "and retracts the last pane", "24", "add up value × diff")
    for at, y in ((at, y) for y in (152, 262, 372) for at in moments):
        sheet.dot(at, y, size=3)
    for at, value, tone in zip(moments, ("12", "4", "8"), ("EARLY", "ON_TIME", "LATE"), strict=True):
        sheet.tag(at, 152, value, tone, width=46)
    for at, value, tone in zip(moments, ("12", "16", "24"), ("EARLY", "ON_TIME", "LATE"), strict=True):
        sheet.tag(at, 262, value, tone, width=46)
        sheet.tag(at, 372 if value == "12" else 386, f"+1 · {value}", tone, width=72)
    for at, value in zip(moments[1:], ("12", "16"), strict=True):
        sheet.tag(at, 358, f"−1 · {value}", "GONE", width=72)
    return sheet


def sessions() -> Sheet:
    """Two sessions that a late row merges, and what is emitted."""
    sheet = Sheet(
        "sessions", 1040, 450, "A late row joins two sessions: both are retracted, one new session is emitted"
    )

    def x(minute: float) -> float:
        return 190 + minute * 13.4

    for minute in range(0, 41, 5):
        sheet.path([(x(minute), 40), (x(minute), 390)], "grid")
    sheet.path([(x(-1), 390), (x(41), 390)], "axis")
    _time_axis(sheet, x, 390, range(0, 41, 5))
    sheet.text(x(20), 430, "event time", "middle small soft")

    def session(start: float, end: float, y: float, words: str, look: str) -> None:
        sheet.box(x(start), y, x(end) - x(start), 34, look)
        sheet.text(x((start + end) / 2), y + 17, words, "middle small")

    def dots(times: Sequence[float], y: float) -> None:
        for at in times:
            sheet.dot(x(at), y, size=5)

    sheet.text(24, 66, "first bundle", "bold")
    sheet.text(24, 86, "four rows", "small soft")
    dots((0, 5, 22, 26), 58)
    session(0, 15, 72, "2 rows", "ON_TIME wash")
    session(22, 36, 72, "2 rows", "ON_TIME wash")

    sheet.text(24, 176, "second bundle", "bold")
    sheet.text(24, 196, "one late row, 12:14", "small soft")
    dots((14,), 168)
    session(14, 24, 182, "12:14 and the gap", "LATE wash")
    for edge in (15, 22):
        sheet.path([(x(edge), 108), (x(edge), 296)], "axis dotted")

    sheet.text(24, 296, "now", "bold")
    sheet.text(24, 316, "one session, the union", "small soft")
    dots((0, 5, 14, 22, 26), 284)
    session(0, 36, 300, "5 rows", "ON_TIME wash")

    side = 766
    sheet.text(side, 44, "emitted", "bold")

    def observed(y: float, diff: str, words: str, tone: str) -> None:
        sheet.tag(side + 20, y, diff, tone, width=40)
        sheet.text(side + 50, y, words, "small")

    observed(80, "+1", "[12:00, 12:15)   2 rows", "ON_TIME")
    observed(108, "+1", "[12:22, 12:36)   2 rows", "ON_TIME")
    observed(186, "−1", "[12:00, 12:15)   2 rows", "GONE")
    observed(214, "−1", "[12:22, 12:36)   2 rows", "GONE")
    observed(312, "+1", "[12:00, 12:36)   5 rows", "LATE")
    sheet.text(side, 352, "The sum of the diffs of each old", "small soft")
    sheet.text(side, 370, "window is 0: only the new one is valid.", "small soft")
    return sheet


def sequences() -> Sheet:
    """Progress by sequence numbers: the gap-free run counts."""
    sheet = Sheet("sequences", 1040, 480, "Progress of one origin: only the gap-free run of sequence numbers counts")

    def x(number: float) -> float:
        return 220 + (number - 1) * 72

    sheet.text(24, 40, "sequence number", "bold")
    sheet.text(24, 64, "its highest time", "small soft")
    times = {1: "12:01", 2: "12:02", 3: "12:03", 4: "12:04", 5: "12:05", 6: "12:06", 7: "12:07"}
    for number, clock in times.items():
        sheet.text(x(number) + 30, 40, str(number), "middle bold")
        sheet.text(x(number) + 30, 64, clock, "middle small soft")
    sheet.text(900, 40, "watermark", "middle bold")
    sheet.text(900, 64, "of this origin", "middle small soft")

    def line(y: float, name: str, fact: str, seen: Sequence[int], run: int, clock: str, why: str) -> None:
        sheet.text(24, y - 10, name, "bold")
        sheet.text(24, y + 10, fact, "small soft")
        for number in times:
            shade = "ON_TIME wash" if number <= run else "EARLY wash"
            look = shade if number in seen else "empty"
            sheet.box(x(number), y - 20, 60, 40, look, round=6)
        sheet.path([(x(1), y + 28), (x(run) + 60, y + 28)], "ON_TIME stroke")
        sheet.path([(x(run) + 60, y - 26), (x(run) + 60, y + 34)], "ON_TIME stroke")
        sheet.tag(900, y - 8, clock, "ON_TIME", width=74)
        sheet.text(900, y + 16, why, "middle small soft")

    line(122, "1, 2, 3 arrive", "in any order", (1, 2, 3), 3, "12:03", "run 1 to 3")
    line(212, "5 and 6 arrive", "4 is still on its way", (1, 2, 3, 5, 6), 3, "12:03", "4 is missing")
    sheet.text(x(4) + 30, 212, "gap", "middle small GONE toned")
    line(302, "4 arrives", "the gap closes", (1, 2, 3, 4, 5, 6), 6, "12:06", "run 1 to 6")
    line(392, "7 arrives in chunks", "one of two is missing", (1, 2, 3, 4, 5, 6), 6, "12:06", "7 is incomplete")
    sheet.box(x(7), 372, 29, 40, "empty", round=6)
    sheet.box(x(7) + 31, 372, 29, 40, "EARLY wash", round=6)
    sheet.text(x(7) + 14, 392, "1", "middle small soft")
    sheet.text(x(7) + 45, 392, "2", "middle small")
    sheet.box(220, 442, 22, 16, "ON_TIME wash", round=3)
    sheet.text(250, 450, "in the gap-free run", "small soft")
    sheet.box(400, 442, 22, 16, "EARLY wash", round=3)
    sheet.text(430, 450, "seen, but beyond a gap", "small soft")
    sheet.box(606, 442, 22, 16, "empty", round=3)
    sheet.text(636, 450, "not seen yet", "small soft")
    return sheet


def lifetime() -> Sheet:
    """The life of one window as the watermark advances."""
    sheet = Sheet("lifetime", 1040, 276, "The life of a window as the watermark moves on")
    y, start, end, expired, stop = 118.0, 230.0, 480.0, 770.0, 1010.0
    sheet.text(24, 66, "one window", "bold")
    sheet.box(start, 52, end - start, 30, "EARLY wash")
    sheet.text((start + end) / 2, 67, "[start, end)", "middle code")
    sheet.text(24, y, "watermark W", "bold")
    sheet.arrow(180, y, stop - 180, 0, "axis")
    for at, words, rule in ((end, "complete", "end ≤ W"), (expired, "expired", "end + lateness ≤ W")):
        sheet.path([(at, 44), (at, 262)], "axis dashed")
        sheet.text(at, 26, f"{words}: {rule}", "middle bold")
    sheet.path([(start, 84), (start, 262)], "grid dashed")
    sheet.text((end + expired) / 2, 98, "lateness", "middle small soft")
    phases = (
        (180, end, "EARLY", "open", "early panes", "a row of the window counts"),
        (end, expired, "LATE", "kept", "on-time pane, then late panes", "a row of the window is late and refines it"),
        (expired, stop, "GONE", "gone", "no more panes", "a row goes to the late output"),
    )
    for first, last, tone, name, observed, row in phases:
        sheet.box(first + 4, 140, last - first - 8, 104, f"{tone} wash", round=6)
        middle = (first + last) / 2
        sheet.text(middle, 164, name, f"middle bold {tone} toned")
        sheet.text(middle, 192, observed, "middle small")
        sheet.text(middle, 218, row, "middle small")
    sheet.text(24, 164, "state", "small soft")
    sheet.text(24, 192, "output", "small soft")
    sheet.text(24, 218, "a row of this window", "small soft")
    return sheet


def slices() -> Sheet:
    """How sliding windows share slices."""
    sheet = Sheet("slices", 900, 324, "Sliding windows share slices: each row is aggregated once")

    def x(minute: float) -> float:
        return 230 + minute * 76

    for minute in range(9):
        sheet.path([(x(minute), 60), (x(minute), 286)], "grid dotted")
    sheet.text(24, 44, "rows", "bold")
    for at in (0.3, 0.7, 1.4, 2.2, 2.5, 2.8, 4.6, 5.3, 5.8, 7.2):
        sheet.dot(x(at), 44, size=5)
    sheet.text(24, 108, "slices", "bold")
    sheet.text(24, 128, "each row goes into one cell", "small soft")
    counts = {0: 2, 1: 1, 2: 3, 4: 1, 5: 2, 7: 1}
    for minute in range(8):
        held = counts.get(minute, 0)
        sheet.box(x(minute) + 2, 98, 72, 32, "ON_TIME wash" if held else "empty")
        sheet.text(x(minute) + 38, 114, f"n = {held}" if held else "none", f"middle small{'' if held else ' soft'}")
    sheet.text(24, 190, "windows", "bold")
    sheet.text(24, 210, "merged from cells when due", "small soft")
    for i, start in enumerate(range(5)):
        total = sum(counts.get(minute, 0) for minute in range(start, start + 4))
        sheet.box(x(start) + 2, 160 + 24 * i, 4 * 76 - 4, 20, "EARLY wash")
        sheet.text(x(start + 2), 170 + 24 * i, f"n = {total}", "middle small")
    sheet.path([(x(0), 286), (x(8.3), 286)], "axis")
    _time_axis(sheet, x, 286, range(9))
    return sheet


MARKS_EVENTS = {  # by segment, in the order of offsets: the writer, and the event time in minutes
    0: "t0 w0 w1 t1 t2 t4 w2 w5 t6 t8",
    1: "t0 w0 t1 w2 t3",
    2: "t3 t4 w4 t7",
    3: "w2 t6 w6 w9",
}
MARKS_NOTES = (  # mark, writer, time in minutes, position
    (1, "till", 5, {0: 6, 2: 2}),
    (1, "web", 3, {0: 7, 3: 1}),
    (2, "till", 8, {0: 9, 2: 4, 3: 2}),
    (2, "web", 7, {0: 8, 2: 3, 3: 3}),
)
MARKS_CUTS = ({0: 7, 2: 2, 3: 1}, {0: 9, 2: 4, 3: 3})
MARKS_TONES = {"till": "EARLY", "web": "LATE"}


def marks() -> Sheet:
    """Segments of a stream, the notes of two writers, and the cuts of the marks that are made of them."""
    sheet = Sheet("marks", 1040, 586, "Segments of a stream, the notes of two writers, and the cuts of two marks")
    middles = {0: 118.0, 1: 249.0, 2: 214.0, 3: 284.0}

    def x(segment: int, offset: int) -> float:
        return (196.0 if segment < 2 else 500.0) + 48 * offset

    first, second = (
        [(x(lane, cut[lane]), middles[lane] + side) for lane in (0, 2, 3) for side in (-27, 27)] for cut in MARKS_CUTS
    )
    first, second = ([(line[0][0], 66.0), *line[1:-1], (line[-1][0], 326.0)] for line in (first, second))
    sheet.path([*first, *reversed(second)], "ON_TIME faint", closed=True)
    for lane, (name, keys) in enumerate(
        (
            ("segment 0", "keys below 0.5"),
            ("segment 1, sealed", "keys from 0.5"),
            ("segment 2", "0.5 to 0.75"),
            ("segment 3", "from 0.75"),
        )
    ):
        at, y = (24, middles[lane]) if lane < 2 else (712, middles[lane])
        sheet.text(at, y - 9, name, "bold")
        sheet.text(at, y + 10, keys, "small soft")
        _events(sheet, lambda offset, lane=lane: x(lane, offset), y, MARKS_EVENTS[lane].split())
    for lane in (2, 3):
        sheet.arrow(x(1, 5) + 6, middles[1], 48, middles[lane] - middles[1], "axis")
    sheet.text(x(1, 5) + 22, middles[1] + 50, "split", "middle small soft")
    for number, line in enumerate((first, second), 1):
        sheet.path(line, "ON_TIME stroke")
        sheet.tag(line[0][0], 55, f"cut {number}", "ON_TIME", width=62)
    for _, writer, _, position in MARKS_NOTES:
        for lane, offset in position.items():
            at, y = x(lane, offset), middles[lane] + 19
            sheet.path([(at, y), (at - 6, y + 10), (at + 6, y + 10)], f"{MARKS_TONES[writer]} solid", closed=True)
    sheet.text(x(0, 0) + 2, 86, "offsets 0, 1, 2, …", "small soft")
    sheet.dot((first[0][0] + second[0][0]) / 2, 84, size=4)
    sheet.path([((first[0][0] + second[0][0]) / 2, 84), (704, 84)], "axis")
    sheet.text(712, 84, "a reader here:", "small")
    sheet.text(806, 84, "time_window()", "code")
    sheet.text(806, 108, "(12:03, 12:08)", "code bold")
    _merging(sheet, 372)
    return sheet


def _events(sheet: Sheet, x: Callable[[int], float], y: float, events: Sequence[str]) -> None:
    """A segment: its events side by side, with the minute of each in the tone of its writer."""
    for offset, event in enumerate(events):
        tone = "EARLY" if event[0] == "t" else "LATE"
        sheet.box(x(offset) + 2, y - 15, 44, 30, f"{tone} wash", round=4)
        sheet.text(x(offset) + 24, y, _clock(int(event[1:])), "middle small")


def _merging(sheet: Sheet, top: float) -> None:
    """Below the lanes: the notes, and the marks that the controller makes of them."""
    for at, words in ((24, "two writers note"), (450, "the controller merges"), (770, "a reader that has passed it")):
        sheet.text(at, top, words, "bold")
    known = ("all before 12:03 has been read", "all before 12:07 has been read")
    for number, (cut, fact) in enumerate(zip(MARKS_CUTS, known, strict=True), 1):
        y = top + 54 + 78 * (number - 1)
        notes = [note for note in MARKS_NOTES if note[0] == number]
        sheet.box(18, y - 34, 1004, 68, "sheet", round=8)
        for row, (_, writer, time, position) in enumerate(notes):
            level = y - 14 + 28 * row
            sheet.tag(50, level, writer, MARKS_TONES[writer], width=46)
            sheet.text(86, level, _clock(time), "bold")
            sheet.text(140, level, f"at {position}", "code soft")
        sheet.arrow(388, y, 44, 0, "axis")
        times = [_clock(note[2]) for note in notes]
        sheet.text(450, y - 14, f"lower {min(times)}, upper {max(times)}", "bold")
        sheet.text(450, y + 14, f"cut {number}: {cut}", "code soft")
        sheet.text(770, y, fact, "small")
    y = top + 190
    for at, writer in ((24, "till"), (262, "web")):
        sheet.box(at, y - 8, 22, 16, f"{MARKS_TONES[writer]} wash", round=3)
        sheet.text(at + 30, y, f"an event of {writer}, with its time", "small soft")
    at = 500
    sheet.path([(at + 6, y - 5), (at, y + 5), (at + 12, y + 5)], "NONE solid", closed=True)
    sheet.text(at + 20, y, "the position of a writer at its note", "small soft")


FIGURES = (windows, lifetime, origins, sequences, keys, panes, modes, sessions, slices, marks)


def main() -> None:
    """Write every figure next to this file."""
    for draw in FIGURES:
        sheet = draw()
        Path(__file__).with_name(f"{sheet.name}.svg").write_text(sheet.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Draws the animated picture of the demonstration: ``python docs/figures/demo.py`` writes ``demo.svg``.

Processing time passes from the bottom to the top. Without motion, the picture is the end. The bytes are the same each
time.
"""

from __future__ import annotations

import re
from pathlib import Path

from eventide.demo import live
from eventide.demo.rehearsal import rehearse
from eventide.testing.chart_page import picture

SECONDS = 20  # of a cycle: the whole picture, then time passes
_HEADER = re.compile(r'<rect [^>]*class="area"/>.*?<path [^>]*class="grid"/>(?:<text[^>]*>[^<]*</text>)*')
_AREA = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" class="area"/>')
_PAPER = '<rect width="100%" height="100%" rx="10" fill="var(--paper)"/>'
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def svg() -> str:
    """Return the drawing of the picture, with marks that appear as time passes."""
    page = picture(live.timeline(rehearse()), title="A shop: the watermark waits for a silent till, then goes on")
    style = longest(page, "style")[1]  # its rules for the text of a page match nothing here
    opening, drawing, closing = longest(page, "svg")  # symbols of the legend are drawings, too
    drawing = re.sub(r"(?<=>)<title>[^<]*</title>", "", drawing)  # an image shows no tooltips
    header, area = _HEADER.search(drawing), _AREA.search(drawing)
    assert header is not None and area is not None
    marks, titles = re.split(r'(?=<text [^>]*class="axis")', drawing[header.end() :], maxsplit=1)
    x, y, width, height = map(float, area.groups())
    clip = f'<rect class="past" x="{x - 12}" y="{y}" width="{width + 40}" height="{height}"/>'
    return (
        f"{opening}{drawing[: header.start()]}<style>{style.strip()}{motion(height)}</style>"
        f'<clipPath id="past">{clip}</clipPath>{_PAPER}{header[0]}'
        f'<g clip-path="url(#past)">{marks}</g><path class="now" d="M{x},{y + height} h{width}"/>{titles}{closing}\n'
    )


def motion(height: float) -> str:
    """Return the rules of the animation: a clip that grows, and a line at its edge."""
    return f"""
svg {{ font-family: {_FONT}; }}
.now {{ stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 2 3; visibility: hidden; }}
@media (prefers-reduced-motion: no-preference) {{
  .past {{ animation: past {SECONDS}s linear infinite; transform-box: fill-box; transform-origin: bottom; }}
  .now {{ visibility: visible; animation: now {SECONDS}s linear infinite; }}
}}
@keyframes past {{
  0%, 15% {{ transform: scaleY(1); }} 15.01% {{ transform: scaleY(0); }} to {{ transform: scaleY(1); }}
}}
@keyframes now {{ 0%, 15.01% {{ transform: none; }} to {{ transform: translateY(-{height}px); }} }}
"""


def longest(page: str, name: str) -> tuple[str, str, str]:
    """Return the element of this name with the longest content: start tag, content, end tag."""
    elements = re.findall(rf"(<{name}[^>]*>)(.*?)(</{name}>)", page, flags=re.DOTALL)
    opening, content, closing = max(elements, key=lambda parts: len(parts[1]))
    return opening, content, closing


if __name__ == "__main__":
    (Path(__file__).parent / "demo.svg").write_text(svg(), encoding="utf-8")

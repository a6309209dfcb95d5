"""Elements of SVG and XHTML as escaped text, and the colours of a picture for light and dark backgrounds.

Ink shows rows and watermarks; colour shows the timing of panes. The hues are distinguishable for colour-blind readers.
"""

from __future__ import annotations

import re
from html import escape

# XML cannot represent these characters.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(value: str) -> str:
    """Return text that is safe between tags and in attributes.

    >>> text('a < "b"')
    'a &lt; &quot;b&quot;'
    """
    return escape(_FORBIDDEN.sub("\ufffd", value))


def element(name: str, /, *children: str, **attributes: object) -> str:
    """Return an element. The children are markup.

    >>> element("text", text("1 < 2"), x=3, class_="tick")
    '<text x="3" class="tick">1 &lt; 2</text>'
    """
    markup = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"' for key, value in attributes.items())
    return f"<{name}{markup}>{''.join(children)}</{name}>" if children else f"<{name}{markup}/>"


def hover(description: str) -> str:
    """Return the tooltip of the enclosing element, which screen readers read aloud."""
    return element("title", text(description))


STYLE = """
:root {
  --paper: #ffffff; --sheet: #faf9f6; --ink: #22262b; --soft: #6a7178; --line: #e4e2dc; --dot: #ffffff;
  --EARLY: #2f76b5; --ON_TIME: #12805c; --LATE: #c4620a; --retraction: #9c1c7c; --dead: #7139ac;
  --on-tag: #ffffff; --wash: 0.13;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --sheet: #1b1f24; --ink: #e8e6e1; --soft: #9aa1a9; --line: #2d333a; --dot: #15181c;
    --EARLY: #6cb2ee; --ON_TIME: #4cc79a; --LATE: #f2a154; --retraction: #db6eb5; --dead: #a480ff;
    --on-tag: #12151a; --wash: 0.18;
  }
}
body {
  margin: 0 auto; padding: 2rem 1.5rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
header { margin: 0 0 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.08rem; margin: 0; }
p { margin: .1rem 0 0; max-width: 46rem; color: var(--soft); }
main.many { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 2rem; }
main.one { max-width: 80rem; }
figure { margin: 0; display: flex; flex-direction: column; justify-content: space-between; }
figcaption { margin: 0 0 .5rem; }
figure svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--ink); font-variant-numeric: tabular-nums; }
.area { fill: var(--sheet); stroke: var(--line); }
.grid { stroke: var(--line); fill: none; }
text.tick { fill: var(--soft); font-size: 11.5px; }
text.middle, text.axis, .inside, .tag text { text-anchor: middle; }
text.end { text-anchor: end; }
text.axis { fill: var(--soft); font-size: 12.5px; }
.event circle { fill: var(--dot); stroke: var(--ink); stroke-width: 1.6; }
.event .inside { font-weight: 650; }
.event .outside { paint-order: stroke; stroke: var(--sheet); stroke-width: 3px; }
.event.small circle { fill: var(--ink); stroke: none; fill-opacity: .5; }
.density rect { fill: var(--ink); }
.density.late rect { fill: var(--LATE); }
.density.dead rect { fill: var(--dead); }
.event.late path { fill: var(--dot); stroke: var(--LATE); stroke-width: 1.6; stroke-linejoin: round; }
.event.dead path { fill: var(--dot); stroke: var(--dead); stroke-width: 1.6; stroke-dasharray: 3 2; }
.line { paint-order: stroke; stroke: var(--sheet); stroke-width: 3px; }
.watermark { fill: none; stroke: var(--ink); stroke-width: 2.2; stroke-linejoin: round; }
.ideal { fill: none; stroke: var(--soft); stroke-width: 1.3; stroke-dasharray: 5 5; }
.pane rect { fill: var(--tone); fill-opacity: var(--wash); stroke: var(--tone); stroke-opacity: .45; }
.pane path { stroke: var(--tone); stroke-width: 3; }
.tag rect { fill: var(--tone); }
.tag text { fill: var(--on-tag); font-weight: 700; font-size: 12.5px; }
.tag.retraction rect { fill: var(--sheet); stroke: var(--tone); stroke-dasharray: 3 2; }
.tag.retraction text { fill: var(--tone); }
.retracted { stroke: var(--retraction); stroke-width: 2.4; stroke-dasharray: 3 3; }
.band { fill: var(--soft); fill-opacity: .1; }
.note text { font-size: 13px; font-weight: 600; paint-order: stroke; stroke: var(--sheet); stroke-width: 4px; }
.note path { stroke: var(--soft); stroke-width: 1.2; }
.EARLY { --tone: var(--EARLY); }
.ON_TIME { --tone: var(--ON_TIME); }
.LATE { --tone: var(--LATE); }
.retraction { --tone: var(--retraction); }
.legend { list-style: none; margin: .9rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .35rem 1.4rem; }
.legend li { display: flex; align-items: center; gap: .45rem; font-size: .875rem; color: var(--soft); }
@media print { body { padding: 0; } figure { break-inside: avoid; } }
"""

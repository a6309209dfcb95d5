"""Elements of SVG and XHTML as text, escaped."""

from __future__ import annotations

import re
from html import escape

# XML has no way to write these characters at all.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(value: str) -> str:
    """Text that may stand between tags or in an attribute.

    >>> text('a < "b"')
    'a &lt; &quot;b&quot;'
    """
    return escape(_FORBIDDEN.sub("\ufffd", value))


def element(name: str, /, *children: str, **attributes: object) -> str:
    """One element; the children are markup already.

    >>> element("text", text("1 < 2"), x=3, class_="tick")
    '<text x="3" class="tick">1 &lt; 2</text>'
    """
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def hover(what: str) -> str:
    """What is shown, and read aloud, for the element that holds it."""
    return element("title", text(what))

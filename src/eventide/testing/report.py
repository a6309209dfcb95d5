"""What a failed expectation says."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.testing.expectations import Pairing
from eventide.testing.history import Happening, table
from eventide.testing.shapes import Row, Shape, same

_LABEL = 12


def report(title: str, shape: Shape, pairing: Pairing[Row, Row], history: Sequence[Happening], hint: str = "") -> str:
    """What came, what was expected, where they differ, and everything that happened before."""
    missing, unexpected = list(pairing.missing), list(pairing.unexpected)
    counts = [
        *([f"{len(pairing.matched)} as expected"] if pairing.matched else []),
        *([f"{len(missing)} missing"] if missing else []),
        *([f"{len(unexpected)} unexpected"] if unexpected else []),
    ]
    lines = [f"{title}: {', '.join(counts)}.", ""]
    lines += [_line("as expected", shape, came) for _, came in pairing.matched]
    for wanted in missing:
        lines.append(_line("missing", shape, wanted, all_fields=True))
        nearest = unexpected[0] if len(missing) == len(unexpected) == 1 else _nearest(wanted, unexpected)
        if nearest is not None:
            unexpected.remove(nearest)
            lines += _differing(shape, wanted, nearest)
    lines += [_line("unexpected", shape, came) for came in unexpected]
    return "\n".join([*lines, "", *([hint, ""] if hint else []), so_far(history)])


def so_far(history: Sequence[Happening]) -> str:
    """Everything that happened, bundle by bundle."""
    return "\n".join(["So far:", *(f"  {line}" for line in table(history))])


def _line(label: str, shape: Shape, row: Row, *, all_fields: bool = False) -> str:
    return f"  {label:<{_LABEL}}" + " ".join(word for _, word in shape.say(row, all_fields=all_fields))


def _nearest(wanted: Row, unexpected: Sequence[Row]) -> Row | None:
    """What agrees with most of the fields that were wanted, if with any at all."""

    def agreement(came: Row) -> int:
        return sum(same(value, came[name]) for name, value in wanted.items() if name != "diff")

    best = max(unexpected, key=agreement, default=None)
    return best if best is not None and agreement(best) else None


def _differing(shape: Shape, wanted: Row, came: Row) -> list[str]:
    """The row that came instead, with a mark under each field that differs, and what was expected there."""
    different = [name for name, value in wanted.items() if not same(value, came[name])]
    words = shape.say(came)
    said = {name for name, _ in words} | ({"index"} if "timing" in dict(words) else set())
    words += [(name, f"{name}={shape.text(name, came[name])}") for name in different if name not in said]
    marked = {"timing" if name == "index" and "timing" in dict(words) else name for name in different}
    marks = " ".join(("~" if name in marked else " ") * len(word) for name, word in words)
    line = f"  {'came':<{_LABEL}}" + " ".join(word for _, word in words)
    reasons = ", ".join(
        f"{name} is {shape.text(name, came[name])}, not {shape.text(name, wanted[name])}" for name in different
    )
    return [line, f"  {'':<{_LABEL}}{marks.rstrip()}  {reasons}"]

"""The README's example prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_prints_what_the_readme_shows() -> None:
    text = README.read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", text, re.DOTALL).groups()  # type: ignore[union-attr]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue() == shown


def test_the_two_commands_stand_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    assert re.search(r"^make demo", text, re.MULTILINE)
    assert re.search(r"^make test", text, re.MULTILINE)

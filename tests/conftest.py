"""How random tests run: never against the clock, and in CI always with the same examples."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("here", deadline=None, max_examples=60)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

"""How many random histories and examples the tests try.

``make test`` tries some, the long tests of ``make test-all`` more (400), ``make soak`` 100,000: ``EVENTIDE_HISTORIES``.
``EVENTIDE_SEED`` chooses which.
"""

from __future__ import annotations

import os

from hypothesis import Phase

THOROUGH = 400
HISTORIES = int(os.environ.get("EVENTIDE_HISTORIES", "120"))
SEED = os.environ.get("EVENTIDE_SEED", "0")
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # where it takes minutes to shrink a failing example


def examples(thorough: int) -> int:
    """Return how many examples of a test to try, for a number that a thorough run tries; at least one."""
    return -(-thorough * HISTORIES // THOROUGH)

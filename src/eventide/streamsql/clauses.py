"""The words of the clauses that Eventide adds to SQL, as users write them."""

from __future__ import annotations

MODES = ("ACCUMULATING", "DISCARDING", "RETRACTING")

EMIT_WORDS = (
    *("ON WINDOW CLOSE", "EARLY", "LATE", "WHEN", "ALLOWED LATENESS", *MODES),
    *("ONLY UPDATED", "AT END | EARLIEST | LATEST", "MAY LOSE DATA"),
)

# How it is written, the option of ev.bounded_delay() and its like, and what follows.
WATERMARK_OPTIONS = (
    ("PER", "origin", "column"),
    ("SEQUENCE", "sequence", "column"),
    ("CHUNK", "chunk", "column"),
    ("LAST CHUNK", "last_chunk", "column"),
    ("FIRST CHUNK", "first_chunk", "number"),
    ("GAP TIMEOUT", "gap_timeout", "length"),
    ("IDLE TIMEOUT", "idle_timeout", "length"),
    ("ON RETURN", "on_return", "HOLD or CATCH UP"),
    ("EXPECT", "expect_origins", "origins"),
    ("TIMEOUT", "origins_timeout", "length"),
    ("MAX FUTURE SKEW", "max_future_skew", "length or NONE"),
    ("WATERMARK KEY", "watermark_key", "number"),
)

STREAM_WORDS = ("WATERMARK FOR", *(words for words, _, _ in WATERMARK_OPTIONS), "RETAIN", "DEDUPLICATE")

"""What the builder calls its parts, as SQL calls them: messages of the core are shown to people who write SQL."""

from __future__ import annotations

import re

_IN_SQL = (
    (r"\.trigger\(…, may_lose_data=True\)", "MAY LOSE DATA in EMIT"),
    (
        r"Wrap it in ev\.repeatedly\(…\), or use it as early= of ev\.after_watermark\(\)",
        "Write REPEATEDLY(…), or EARLY …",
    ),
    (r"late=ev\.on_update\(\) to after_watermark\(\)", "LATE ON UPDATE to EMIT"),
    (r"\.lateness\('1 hour'\)", "ALLOWED LATENESS INTERVAL '1' HOUR"),
    (r"\.lateness\(rows=100\)", "ALLOWED LATENESS 100 ROWS"),
    (r"\.lateness\(\)", "ALLOWED LATENESS"),
    (r"window by offset: ev\.rows\(…, offset='offset'\)", "count by a column: ROWS_WINDOW(…, by => column)"),
    (r"(left|right)\.retain\(time=…\)", r"CREATE STREAM … RETAIN INTERVAL '1' HOUR, for the \1 stream"),
    (r"\.retain\(rows=…\) and \.retain\(bytes=…\)", "RETAIN … ROWS and RETAIN … BYTES"),
    (r"\.retain\(time='1 hour'\), or with within=", "RETAIN INTERVAL '1' HOUR, or compare the times in ON"),
    (r"over=ev\.rows\(n\)", "OVER (ROWS n PRECEDING)"),
    (r"\.retain\(…\)", "RETAIN"),
    (r"join: within=\(.*\) holds nothing", "The bounds of time in ON hold nothing"),
    (r"\bwithin already says", "ON already says"),
    (r"join: where gives", "The condition in ON gives"),
    (r"ev\.collect_list\('(\w+)'\)", r"ARRAY_AGG(\1)"),
    (r"IngestionTime\(\)", "INGESTION_TIME()"),
    (r"\.deduplicate\(\)", "DEDUPLICATE"),
)


def in_words_of_sql(message: str) -> str:
    """A message of the core for those who wrote a query.

    >>> in_words_of_sql("The lateness is given in rows. Use .lateness('1 hour').")
    "The lateness is given in rows. Use ALLOWED LATENESS INTERVAL '1' HOUR."
    """
    for python, sql in _IN_SQL:
        message = re.sub(python, sql, message)
    return message

"""Tables in a database that are kept equal to the sum of the diffs.

``shape`` says what the table looks like, ``types`` how Spark's types are called in SQL, ``changes`` what a batch of
panes changes; ``statements`` is the SQL of all that, and ``store`` runs it, in one transaction a batch, on a
``database``: ``postgres`` or ``sqlite``.
"""

from eventide.sinks.tables.sink import table

__all__ = ["table"]

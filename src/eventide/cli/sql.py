"""``eventide sql``: a statement, from the line that was typed."""

from __future__ import annotations

from typing import Annotated

import typer

from eventide.cli.run import Source
from eventide.cli.sessions import Conf, Cores, Master, Memory

EXAMPLES = """Examples:

eventide sql "$(cat per_minute.sql)" --source orders=parquet:/data/orders

eventide sql --explain "SELECT shop, count(*) FROM TUMBLE(…) GROUP BY …"

All that is there is read, then every open window fires; late rows and dead letters are printed. For a query that goes
on, write the statement to a file:
eventide run pipeline.sql
"""


def sql(
    statement: Annotated[str, typer.Argument(help="The statement.")],
    source: Source = None,
    sink: Annotated[str, typer.Option(help="For panes.")] = "console",
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan, and run nothing.")] = False,
    master: Master = None,
    cores: Cores = None,
    memory: Memory = None,
    conf: Conf = None,
) -> None:
    """Run a statement over all that is there, and show its panes."""
    import tempfile

    from eventide.cli.addresses import read_sources
    from eventide.cli.jobs import of_sql
    from eventide.cli.run import outputs
    from eventide.cli.running import AVAILABLE_NOW, Order, check, execute
    from eventide.cli.sessions import started

    job = of_sql(statement)
    if explain:
        typer.echo(job.explain(), nl=False)
        return
    ends, inputs = outputs(sink, "console", "console"), read_sources(source or [])
    options = {"master": master, "cores": cores, "memory": memory, "conf": conf}
    with tempfile.TemporaryDirectory(prefix="eventide-sql-") as place:
        order = Order(job, inputs, ends, f"{place}/checkpoint", AVAILABLE_NOW, drain=True)
        check(order)
        with started("sql", **options) as spark:  # type: ignore[arg-type]
            execute(order, spark)

"""``eventide outputs``: outputs that were computed, and that no sink has confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventide.cli import screen

EXAMPLES = """Examples:

eventide outputs checkpoints/revenue

eventide outputs checkpoints/revenue --export pending

eventide outputs checkpoints/revenue --export pending --discard     (the query goes on without them)

Without --discard nothing is changed: the next run of the query delivers them again.
"""


def outputs(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a query with state in the driver.")],
    export: Annotated[str | None, typer.Option(help="A directory: write the outputs there, as Parquet files.")] = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="After the export: the query does not deliver them any more.")
    ] = False,
) -> None:
    """List the outputs of the last batch that its sinks have not confirmed; export or discard them."""
    from eventide.errors import cli as errors
    from eventide.spark.addresses import on_disk
    from eventide.spark.pending_outputs import discard_outputs, export_outputs, pending_outputs

    if discard and export is None:
        raise errors.discard_without_export()
    local = on_disk(checkpoint)
    if local is not None and not (Path(local) / "eventide").is_dir():
        raise errors.no_checkpoint(checkpoint)
    pending = pending_outputs(checkpoint)
    if pending:
        table = [(output.batch, output.output, output.depth, f"{output.table.num_rows:,}") for output in pending]
        screen.results().print(screen.table("batch", "output", "operator", "rows", rows=table))
        for path in export_outputs(pending, Path(export)) if export is not None else []:
            typer.echo(f"written: {path}")
    else:
        typer.echo("No outputs are pending.")
    if discard and (batch := discard_outputs(checkpoint)) is not None:
        typer.echo(f"Batch {batch} is confirmed. The query goes on with batch {batch + 1}.")

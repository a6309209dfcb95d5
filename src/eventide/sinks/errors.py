"""Messages that several modules of this package raise."""

from __future__ import annotations

from eventide.errors import DataError, PlanError, shown


def bad_option(sink: str, option: str, value: object, need: str) -> PlanError:
    """An option is out of its range."""
    return PlanError(f"sinks.{sink}({option}={shown(value)}): it must be {need}.")


def second_output(sink: str, first: str, second: str) -> PlanError:
    """Two outputs have one sink, and would overwrite each other."""
    return PlanError(
        f"{sink} has the {first} already; the {second} would overwrite them. Give each output its own sink."
    )


def bad_table_name(name: object, need: str) -> PlanError:
    """A table cannot have this name."""
    return PlanError(f"sinks.table(name={name!r}): the name of a table is {need}.")


def not_opened(sink: str, output: str) -> DataError:
    """A sink is written before it is opened."""
    return DataError(f"{sink} was not opened for the {output}. Call open(schema, info) before the first write().")

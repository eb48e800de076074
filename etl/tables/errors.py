"""What can go wrong between a row and its Delta commit."""

from __future__ import annotations

from collections.abc import Iterable

from kseg.etl.errors import ConfigurationError, Fault, KsegError, Refused, RetriableFailure


class IncompatibleSchema(ConfigurationError):
    """The rows do not fit the table: one fault for each of `columns`, all at once."""

    def __init__(self, table: str, faults: Iterable[tuple[str, str, str | None]]) -> None:
        found = tuple(faults)
        super().__init__([Fault(f"sink.{column}", message, remedy) for column, message, remedy in found], table=table)
        self.columns = tuple(column for column, _, _ in found)
        self.table = table


class AddressChanged(ConfigurationError):
    """A transform changed a row's own `topic`, `partition` or `offset`, which are its address in Kafka.

    Rows are verified and replaced by address: one that names another record would get that record's rows removed.
    """

    def __init__(self, column: str, found: object, expected: object) -> None:
        super().__init__(
            [
                Fault(
                    "transform",
                    f"column {column} holds {found!r} where the row's address has {expected!r}",
                    "give the new column another name, or drop topic, partition and offset altogether",
                )
            ],
            column=column,
        )


class UnlandableRow(KsegError):
    """A row cannot be written as the table wants it: a null in a NOT NULL column, a value outside a type's range."""

    def __init__(self, column: str, message: str, *, table: str | None = None) -> None:
        super().__init__(f"column {column}: {message}", table=table, column=column)
        self.column = column


class NoRoute(KsegError):
    """A row's topic has no target table. The plan's routes come from its topics, so a transform made this topic up."""

    def __init__(self, topic: str | None) -> None:
        super().__init__(
            f"rows of topic {topic!r} have no target table",
            remedy="a transform must not change the column topic where sink.routes decides by it",
            topic=topic,
        )


class NeedsSparkWriter(Refused):
    """The table has features that delta-rs cannot honour; Spark's own writer has to make this commit."""

    def __init__(self, table: str, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(
            "table-needs-spark-writer",
            f"only Spark's Delta writer can do this to the table: {'; '.join(self.reasons)}",
            remedy="start the run again: it chooses its writer by the table's features",
            table=table,
        )


def ledger_older_than_table(table: str, app_id: str, done: int, asked: int) -> Refused:
    """The table has landed what the ledger does not know of yet. done, asked: app transactions."""
    return Refused(
        "ledger-older-than-table",
        f"the table has landed transaction {done} of this chain, the run is number {asked}",
        remedy="use the ledger that this table was landed with: this one was lost, or restored",
        table=table,
        app_id=app_id,
    )


class TableBusy(RetriableFailure):
    """Other writers kept committing first until the deadline, or the store kept failing. Nothing was committed."""

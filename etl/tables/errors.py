"""Errors between a row and its Delta commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from kseg.etl.errors import ConfigurationError, Diagnostic, KsegError, Refused, RetriableFailure


def name_abandoning(refused: Refused, run_id: str, why: str = "has landed there") -> None:
    """Add to a remedy that accepts a table: first abandon the run that has not ended and needs the table as it was.

    why: what the run has to do with the table.
    """
    from kseg.etl.refusals.tables import IN_ITS_PLACE, NEW_TABLE

    remedy = refused.remedy or ""
    if "--accept-table" not in remedy:
        return
    abandon = (
        f"abandon run {run_id}, which {why} and has not ended, `kseg repair JOB --abandon {run_id}`, and "
        "run the job again, which then says how to accept the table as it is"
    )
    if refused.code == "table-log-damaged":  # no run can be abandoned as long as the table cannot be read
        refused.remedy = remedy.replace(NEW_TABLE, f"{IN_ITS_PLACE}; then {abandon}")
    else:
        refused.remedy = f"restore the table as the ledger has it; or {abandon}"


@contextmanager
def landed_by(run_id: str) -> Iterator[None]:
    """Around what reads a table that an unfinished run has landed in: of a refusal as of `name_abandoning`."""
    try:
        yield
    except Refused as refused:
        name_abandoning(refused, run_id)
        raise


REPLACE: Final = "`kseg backfill JOB --mode replace --from BOUND --to BOUND` (TOPIC:PARTITION:OFFSET or a time)"
"""The commands that land rows again that are gone from a table."""

REBUILD: Final = (
    "move the ledger's whole folder away, and for each of its jobs `kseg repair JOB --rebuild-ledger`; then `kseg "
    "backfill JOB --mode missing --from BOUND --to BOUND` (TOPIC:PARTITION:OFFSET or a time)"
)
"""The same where rows are routed by something else than their topic (`sink.route_by`): `replace` would take the rows of
a range out of all tables. A rebuilt ledger counts the rows that are there as landed, and no others."""


def land_again(*, routed: bool) -> str:
    """The commands that land rows again that are gone from one of the job's tables. routed: as of `Sink.routed`."""
    return REBUILD if routed else REPLACE


def table_missing(table: str, *, routed: bool) -> Refused:
    """A table that rows have landed in is gone. routed: whether more than their topic decides on a row's table."""
    again = land_again(routed=routed)
    return Refused.of("table-missing", {"again": again}, case="routed" if routed else "landed", table=table)


def gone_before_commit(table: str) -> Refused:
    """A table was there when a run prepared its commit, and is not any more."""
    return Refused.of("table-missing", case="gone before a commit", table=table)


def changed_table(table: str, code: str, message: str, version: int | None) -> Refused:
    """Something happened to a table that no run may go on over. The other arguments are an incident's."""
    return Refused.of(code, {"what": message}, case="found", table=table, version=version)


def log_damaged(table: str, entry: str) -> Refused:
    """An entry of the table's log is gone that cleaning it leaves alone."""
    return Refused.of("table-log-damaged", {"entry": entry}, case="entry", table=table)


def checkpoint_missing(table: str, oldest: str | None, *, hint: str = "") -> Refused:
    """A checkpoint of the table's log is gone.

    oldest: the path of the first entry that is left; None: it is the very first, and delta-rs asks for the checkpoint
    only because the file `hint` names it.
    """
    if oldest is None:
        return Refused.of("table-log-damaged", {"hint": hint}, case="checkpoint not needed", table=table)
    return Refused.of("table-log-damaged", {"oldest": oldest}, case="checkpoint", table=table)


class IncompatibleSchema(ConfigurationError):
    """The rows do not fit the table: one fault for each of `columns`, all at once."""

    def __init__(self, table: str, faults: Iterable[tuple[str, str, str | None]], schemas: str = "") -> None:
        """schemas: the columns of rows and table side by side, for people; behind the last remedy."""
        found = tuple(faults)
        if schemas:
            *others, (column, message, remedy) = found
            found = (*others, (column, message, f"{remedy or ''}\nAll columns:\n{schemas}"))
        super().__init__(
            [Diagnostic(f"sink.{column}", message, remedy) for column, message, remedy in found], table=table
        )
        self.columns = tuple(column for column, _, _ in found)
        self.table = table


class AddressChanged(ConfigurationError):
    """A transform changed a row's own `topic`, `partition` or `offset`, which are its address in Kafka.

    Rows are verified and replaced by address: one that names another record would get that record's rows removed.
    """

    def __init__(self, column: str, found: object, expected: object) -> None:
        super().__init__(
            [
                Diagnostic(
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


class RouteChanged(KsegError):
    """A row's route is none of `sink.routes`: a step of the transform changed it."""

    def __init__(self, route: str | None) -> None:
        super().__init__(
            f"a row has the route {route!r}, which is none of sink.routes",
            remedy="a transform must not change the column _kseg_route, by which rows find their tables",
        )
        self.route = route


class NeedsSparkWriter(Refused):
    """The table has features that delta-rs cannot honour; Spark's own writer has to make this commit."""

    def __init__(self, table: str, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        self._say("table-needs-spark-writer", {"reasons": "; ".join(self.reasons)}, table=table)


def routed_by_spark(table: str) -> ConfigurationError:
    """Rows are routed by something else than their topic into a table that Spark's own writer has to commit to."""
    return ConfigurationError.of(
        "sink.route_by",
        f"{table} has features that only Spark's own writer can honour, which routes rows by their topic alone",
        "land in another table, without liquid clustering, column mapping and generated columns; or route by topic",
    )


def side_table_by_spark(table: str, setting: str, reasons: Iterable[str]) -> ConfigurationError:
    """A table of dead letters or of damaged bytes has features that delta-rs, which writes it, cannot honour."""
    return ConfigurationError.of(
        setting,
        f"{table} has features that only Spark's own writer can honour, which does not write it: {'; '.join(reasons)}",
        "drop them (ALTER TABLE … DROP FEATURE); or abandon the unfinished run, if there is one (`kseg repair JOB "
        "--abandon RUN`), and name another table here",
    )


def refuse_closed(table: str, app_id: str, transaction_version: Callable[[str], int | None]) -> None:
    """Refuse a commit to a table out of which another ledger was made in the place of the run's.

    transaction_version: of the snapshot that the commit is made upon.

    Raises:
        Refused: `ledger-older-than-table`.
    """
    from kseg.etl.ledger.values import closed_app_id  # workers import this module, and have no use for the ledger's

    if transaction_version(closed_app_id(app_id)) is not None:
        raise Refused.of("ledger-older-than-table", case="closed", table=table, app_id=app_id)


def refuse_older_ledger(
    table: str, app_id: str, done: int, asked: int, transaction_version: Callable[[str], int | None]
) -> NoReturn:
    """The table has landed what the ledger does not know of. done, asked: app transactions. transaction_version: as of
    `refuse_closed`.

    Raises:
        Refused: `ledger-older-than-table`.
    """
    refuse_closed(table, app_id, transaction_version)
    values = {"done": done, "asked": asked}
    raise Refused.of("ledger-older-than-table", values, case="run", table=table, app_id=app_id)


def table_older_than_ledger(table: str, app_id: str, found: int, landed: int) -> Refused:
    """The table has lost a landing that the ledger knows of. found, landed: app transactions; found is 0 for none."""
    values = {"app_id": app_id, "found": found, "landed": landed}
    return Refused.of("table-older-than-ledger", values, table=table)


def one_table(first: str, second: str) -> ConfigurationError:
    """Two names of one table. The second's rows would count as landed with the first's."""
    return ConfigurationError.of(
        "sink",
        f"{first} and {second} are one table",
        "give the table one name in the job file; a copy made file by file counts as the same table, use CLONE or CTAS",
    )


def nested_tables(inner: str, outer: str) -> ConfigurationError:
    """A table, or the ledger, inside a table's folder: to that table's VACUUM the files of both are one's leftovers."""
    return ConfigurationError.of(
        "sink", f"{inner} lies inside {outer}", "give each table and the ledger a folder that is not inside another's"
    )


class VacuumOfNested(ConfigurationError):
    """A table that Spark alone may vacuum has other tables' folders inside its own: it is not vacuumed."""


def vacuum_of_nested(table: str, inside: Sequence[str]) -> VacuumOfNested:
    """inside: the folders of the other tables."""
    more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
    return VacuumOfNested.of(
        "sink",
        f"{table} is not vacuumed: the table {inside[0]}{more} lies inside its folder, and Spark's VACUUM would delete "
        "its files",
        "move that table out of the folder; `kseg maintain JOB` does everything else meanwhile",
    )


def refuse_other_run(
    table: str, run_id: str, app_id: str, found: str | None, transaction_version: Callable[[str], int | None]
) -> None:
    """Refuse a run whose app transaction another one has taken: there are two copies of the ledger, and each plans; or
    a ledger was made from the table, which takes the next one of the run's ledger.

    found: the run whose commit has the app transaction; None: not known. transaction_version: as of `refuse_closed`.

    Raises:
        Refused: `ledger-older-than-table`.
    """
    if found is not None and found != run_id:
        refuse_closed(table, app_id, transaction_version)
        address = {"table": table, "run": run_id, "app_id": app_id}
        raise Refused.of("ledger-older-than-table", {"other": found}, case="other run", **address)


def refuse_other_ranges(table: str, run_id: str, planned: Mapping[str, Any], details: Mapping[str, Any]) -> None:
    """Refuse a commit found by its app transaction that landed other ranges than this table's.

    planned, details: the commit's facts as this run would write them, and as they are found; where the ranges are not
    among them (a removal) nothing is known.

    Raises:
        Refused: `commit-of-other-ranges`.
    """
    if "ranges" in details and "ranges" in planned and details["ranges"] != planned["ranges"]:
        raise Refused.of("commit-of-other-ranges", table=table, run=run_id)


class TableBusy(RetriableFailure):
    """Other writers kept committing first until the deadline, or the store kept failing. Nothing was committed."""


class NoFileSystem(ConfigurationError):
    """Spark has no file system for the scheme of a table's URI."""

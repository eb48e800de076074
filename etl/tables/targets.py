"""A job's target tables, and who commits to each: delta-rs wherever the table allows it, else Spark's own writer.

A target is a path or URI, or a name in a catalog; a name has no slash. Catalog tables, tables to be clustered, and
tables with features that delta-rs cannot honour (`etl.tables.delta.features`) are Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kseg.etl.config.job import Job
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.tables.delta.commit import DeltaTarget, RunCommit
from kseg.etl.tables.delta.log import commits_back
from kseg.etl.tables.delta.table import TableAccess
from kseg.etl.tables.names import is_name
from kseg.etl.tables.spark.writer import SparkTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Targets:
    """The tables of one job. `spark` gives a session that reads and writes Delta; it is asked for only when needed."""

    def __init__(self, job: Job, spark: Callable[[], SparkSession]) -> None:
        self._job, self._spark = job, spark

    def by_spark(self, table: str, *, removing: bool = False) -> bool:
        """Whether Spark has to make the commits of this table; removing: such as take rows away.

        Raises:
            Refused: rows are to be taken from an append-only table.
        """
        if is_name(table):
            return True
        reasons = self.delta(table).spark_reasons(removing=removing)
        return bool(reasons) or (bool(self._job.sink.cluster_by) and self.delta(table).state() is None)

    def delta(self, table: str) -> DeltaTarget:
        """A table at a path, as delta-rs commits to it."""
        return DeltaTarget(table)

    def spark(self, table: str) -> SparkTarget:
        """A table as Spark commits to it."""
        single = self._job.sink.single_driver
        if is_name(table):
            return SparkTarget(self._spark(), table=table, single_driver=single)
        return SparkTarget(self._spark(), path=table, single_driver=single)

    def access(self, table: str) -> TableAccess | None:
        """The table's log, to look at; None where a catalog knows no such table."""
        return self.spark(table).access() if is_name(table) else self.delta(table)

    def check(self, table: str, known: ev.TableState | None) -> ev.TableState | None:
        """The table as it is now, if nothing happened to it since the ledger saw it; None: there is none, rightly.

        Raises:
            Refused: it is gone, another one, or was restored, replaced, overwritten or truncated.
        """
        return self.look(table, known)[0]

    def look(
        self, table: str, known: ev.TableState | None, app_ids: Collection[str] = ()
    ) -> tuple[ev.TableState | None, dict[str, int]]:
        """As `check`, and the versions of these apps' last transactions in the table, of those that have any."""
        access = self.access(table)
        now, versions = access.look(app_ids) if access is not None else (None, {})
        if known is None:
            return now, versions
        if access is None:
            raise Refused("table-missing", "rows have landed in a table that is not there any more", table=table)
        for incident in access.incidents_since(known, now):
            raise Refused(
                incident.code,
                incident.message,
                remedy="restore what the ledger knows, or give the job a new ledger to land everything again",
                table=table,
                version=incident.version,
            )
        return now, versions

    def refuse_other_ledger(self, table: str, ledger_id: str) -> None:
        """For a job's first run in a ledger: the table may hold what the job landed with another one, now lost.

        Raises:
            Refused: `ledger-lost`. Starting over would land those rows again.
        """
        access = self.access(table)
        state = access.state() if access is not None else None
        if access is None or state is None:
            return
        for commit in commits_back(access.location.open(), state.version):
            other = str(commit.told.get("ledger") or ledger_id)
            if commit.told.get("job") == self._job.name and other != ledger_id:
                raise Refused(
                    "ledger-lost",
                    f"version {commit.version} of the table was landed by this job with another ledger ({other})",
                    remedy="point `ledger:` at that ledger; or go on from the group's offsets with a new one: "
                    "--accept-group-offsets. Rows that landed after the last commit would then land again",
                    table=table,
                )

    def transaction_version(self, table: str, app_id: str) -> int:
        """The version of an app's last transaction in the table, 0 where it has none."""
        access = self.access(table)
        return (access.transaction_version(app_id) or 0) if access is not None else 0

    def remove_run(self, table: str, run: RunCommit) -> ev.TableCommit:
        """Remove a run's rows and take its app transaction (`DeltaTarget.remove_run`)."""
        if self.by_spark(table, removing=True):
            return self.spark(table).remove_run(run)
        return self.delta(table).remove_run(run)

"""One run's one commit to one Delta table, by delta-rs: all its files, its app transaction and its facts, or nothing.

    load the table -> is it the table that was planned for? -> has this run landed? -> commit the very next version

delta-rs neither skips duplicates nor rejects a lower app version. Both are checked here, and the check holds because
the commit is a compare-and-swap on the snapshot that was checked (`etl.tables.delta.table`).

An app transaction (Delta protocol, "Transaction Identifiers") is all that recovery needs. What else is in a
commit (`kseg` in its commitInfo, `userMetadata`) is for people, and for finding things faster.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from urllib.parse import urlsplit

from deltalake import Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from kseg.etl.errors import Refused
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.values import TableCommit, TableState
from kseg.etl.rows.widening import can_write
from kseg.etl.tables.delta.checkpoints import write_checkpoint_if_due
from kseg.etl.tables.delta.ensure import ensure, set_properties
from kseg.etl.tables.delta.features import refuse_retention, removal_reasons, spark_may_commit, spark_reasons
from kseg.etl.tables.delta.log import FENCE, changes_since, find_transaction
from kseg.etl.tables.delta.rewrite import Rewrite, Rewriter
from kseg.etl.tables.delta.snapshots import Snapshot, Snapshots
from kseg.etl.tables.delta.table import (
    DeltaAccess,
    commit_files,
    commit_properties,
    table_properties,
    table_schema,
)
from kseg.etl.tables.errors import (
    NeedsSparkWriter,
    changed_table,
    gone_before_commit,
    refuse_closed,
    refuse_older_ledger,
    refuse_other_ranges,
    refuse_other_run,
)
from kseg.etl.tables.lease import EXCLUSIVE_FOR_SPARK, has_lease, table_lease
from kseg.etl.tables.parquet.align import TableColumns
from kseg.etl.tables.parquet.data_file import WriterOptions
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.statistics import null_counts
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.protocol import NO_PROPERTIES, FileTarget
from kseg.etl.tables.removal import OfRun, Removal
from kseg.etl.tables.values import UNKNOWN_VERSION, FoundCommit, NewCommit, ReadyTable, RunCommit


class DeltaTarget(DeltaAccess, FileTarget):
    """A Delta table that this framework commits to without Spark.

    stores: the checks of a run's stores; without them the target makes its own. beside_spark: Spark may commit to it as
    well, also in a store that does not keep two drivers apart (`sink.single_driver`).
    """

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        deadline: float = 120.0,
        snapshots: Snapshots | None = None,
        stores: StoreChecks | None = None,
        beside_spark: bool = False,
    ) -> None:
        super().__init__(path, storage_options, deadline=deadline, snapshots=snapshots)
        self._stores = stores or StoreChecks()
        self._beside_spark = beside_spark and urlsplit(self.location.uri).scheme not in EXCLUSIVE_FOR_SPARK

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        table = self.look() if self._beside_spark else None
        if table is None or not (spark_may_commit(table) or has_lease(self.location)):
            yield
            return
        with table_lease(self.location, lease, wait=wait) as of_table:
            of_table.check()
            yield

    def ensure(
        self,
        sink: SinkSchema,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
        run_id: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
        reshape: Callable[[], None] | None = None,
    ) -> ReadyTable:
        return ensure(
            self,
            sink,
            partition_by,
            self._check_store,
            merge_schema=merge_schema,
            run_id=run_id,
            properties=properties,
            reshape=reshape,
        )

    def commit(
        self,
        files: Sequence[WrittenFile],
        run: RunCommit,
        *,
        expected: TableState | None = None,
        columns: TableColumns | None = None,
        remove: Removal | None = None,
        holds: Callable[[], object] | None = None,
        options: WriterOptions | None = None,
    ) -> NewCommit | FoundCommit:
        """See `FileTarget.commit`. options: how files that are hit by `remove` in part are rewritten."""
        self._check_store()
        call = _Call(self, run, expected, None if remove is None else self._rewriter(remove, run, options), holds)

        def attempt() -> NewCommit | FoundCommit:
            table = call.table()
            done = table.transaction_version(run.app_id)
            if done is not None and done > run.app_version:
                refuse_older_ledger(self.name, run.app_id, done, run.app_version, table.transaction_version)
            if done == run.app_version:
                return self._found(table, run, call.expected, call.attempt_id)
            refuse_closed(self.name, run.app_id, table.transaction_version)
            self._check_writable(table, columns)
            return NewCommit(call.write(table, files, transaction=True))

        outcome: NewCommit | FoundCommit | None = None
        try:
            outcome = self.until_deadline(attempt)
        finally:
            call.clean_up(others_landed=isinstance(outcome, FoundCommit))
        return outcome

    def found_commit(self, run: RunCommit) -> FoundCommit | None:
        def attempt() -> FoundCommit | None:
            table = self.load()
            done = None if table is None else table.transaction_version(run.app_id)
            if table is None or done is None or done < run.app_version:
                return None
            refuse_retention(self.name, table_properties(table))
            if done > run.app_version:
                refuse_older_ledger(self.name, run.app_id, done, run.app_version, table.transaction_version)
            return FoundCommit(self._found(table, run, None, "").commit)

        return self.until_deadline(attempt)

    def fence(self, run_id: str) -> None:
        self._check_store()

        def attempt() -> None:
            table = self.look()
            if table is None:
                raise gone_before_commit(self.name)
            version = table.version()
            try:
                commit_files(table, (), commit_properties({"run": run_id, FENCE: True}))
            except (DeltaError, OSError) as error:
                raise self.race_or(error, version) from error

        self.until_deadline(attempt)

    def remove_run(self, run: RunCommit) -> TableCommit:
        self._check_store()
        call = _Call(self, run, None, self._rewriter(OfRun(run.run_id), run, None))

        def attempt() -> TableCommit:
            table = call.table()
            if parse_run_id(run.run_id) is not None:
                refuse_closed(self.name, run.app_id, table.transaction_version)
            done = table.transaction_version(run.app_id)
            if done is None or done < run.app_version:
                # Rows come with their app transaction. Without it they are of a table that was recreated from the old
                # one's rows; or, where the id does not say which ledger made the run, another ledger's.
                return call.write(table, (), transaction=True, removes=parse_run_id(run.run_id) is not None)
            self.refuse_removal(table, run, done)
            if not call.rewrite(table).gone:
                now = table.state()
                return TableCommit(version=now.version, rows=0, after=now, found=True)
            # A lower version would take the place of a later run's.
            return call.write(table, (), transaction=done == run.app_version)

        try:
            return self.until_deadline(attempt)
        finally:
            call.clean_up(others_landed=False)

    def set_properties(self, properties: Mapping[str, str], run: RunCommit) -> None:
        def attempt() -> None:
            table = self.look()
            if table is None:
                raise gone_before_commit(self.name)
            if not properties.items() <= table_properties(table).items():
                set_properties(self, table, properties, run.run_id)

        self.until_deadline(attempt)

    def rows_of_run(self, run_id: str) -> int:
        """How many rows of the newest snapshot a run has landed, by `_kseg_run`."""
        table = self.load()
        return 0 if table is None else Rewriter(self.location, OfRun(run_id)).count(table)

    def _check_store(self, *, making: bool = False) -> None:
        self._stores.check(self.location.uri, dict(self.location.options), making=making, table=self.name)

    def _rewriter(self, removal: Removal, run: RunCommit, options: WriterOptions | None) -> Rewriter:
        return Rewriter(self.location, removal, run.owner, options or WriterOptions())

    def _check_writable(self, table: Snapshot, columns: TableColumns | None) -> None:
        if reasons := spark_reasons(table):
            raise NeedsSparkWriter(self.name, reasons)
        if columns is None:
            return
        there = {f.name: f for f in table_schema(table)}
        changed = [f.name for f in columns.schema if f.name not in there or not can_write(f.type, there[f.name].type)]
        changed += [name for name, f in there.items() if not f.nullable and name not in columns.required]
        if changed or tuple(table.metadata().partition_columns) != columns.partition_by:
            raise Refused.of("table-changed", {"what": ", ".join(changed) or "its partitioning"}, table=self.name)

    def _found(
        self, table: Snapshot, run: RunCommit, expected: TableState | None, attempt_id: str
    ) -> NewCommit | FoundCommit:
        """The run's commit in the table: another attempt's, or this one's where the response was lost."""
        oldest = 0 if expected is None else expected.version + 1
        there = find_transaction(self.log, run.app_id, run.app_version, table.version(), oldest)
        if there is None:
            now = table.state()
            return FoundCommit(TableCommit(UNKNOWN_VERSION, self.rows_of_run(run.run_id), after=now, found=True))
        refuse_other_run(self.name, run.run_id, run.app_id, there.run, table.transaction_version)
        details = there.details
        refuse_other_ranges(self.name, run.run_id, run.facts, details)
        mine = details.get("attempt") == attempt_id
        commit = TableCommit(
            version=there.version,
            rows=int(details["rows"]) if "rows" in details else (there.rows or 0),
            after=self.state_at(there.version) or TableState(str(table.metadata().id), there.version),
            removed=int(details.get("removed", 0)),
            files=len(there.added),
            bytes=there.size,
            found=not mine,
            kept=details.get("kept"),
        )
        return NewCommit(commit) if mine else FoundCommit(commit)


class _Call:
    """One call of commit or remove_run, over as many attempts as it takes."""

    def __init__(
        self,
        target: DeltaTarget,
        run: RunCommit,
        expected: TableState | None,
        rewriter: Rewriter | None,
        holds: Callable[[], object] | None = None,
    ) -> None:
        self.run = run
        self.expected = expected
        self.attempt_id = uuid.uuid4().hex
        self._target = target
        self._seen = expected
        self._rewriter = rewriter
        self._holds = holds
        self._tried: Rewrite | None = None

    def table(self) -> Snapshot:
        """The newest snapshot, if it may be written to.

        Raises:
            Refused: there is none, it is not the table that was planned for, or it forgets app transactions.
            LeaseLost: it was fenced, and another process has this one's lease.
        """
        name = self._target.name
        table = self._target.look()
        if table is None:
            raise gone_before_commit(name)
        refuse_retention(name, table_properties(table))
        if self._seen is not None:
            now = table.state()
            changes = changes_since(self._target.log, self._seen, now)
            if changes.fenced and self._holds is not None:
                self._holds()
            for incident in changes.incidents:
                raise changed_table(name, incident.code, incident.message, incident.version)
            self._seen = now
        return table

    def rewrite(self, table: Snapshot) -> Rewrite:
        # A removal that matches no row is allowed on an append-only table.
        if self._rewriter is None or not self._rewriter.matches(table):
            return Rewrite()
        if reasons := removal_reasons(table, self._target.name):
            raise NeedsSparkWriter(self._target.name, reasons)
        return self._rewriter.plan(table)

    def write(
        self, table: Snapshot, files: Sequence[WrittenFile], *, transaction: bool, removes: bool = True
    ) -> TableCommit:
        """Make the table's next version. removes: with the removal that the call is for.

        Raises:
            LostRace: another writer made it.
        """
        rewrite = self.rewrite(table) if removes else Rewrite()
        before = table.state()
        rows = sum(file.rows for file in files)
        details = {"run": self.run.run_id, "attempt": self.attempt_id, "rows": rows, "removed": rewrite.rows_removed}
        people = json.dumps({"kseg": self.run.run_id, "rows": rows, "removed": rewrite.rows_removed})
        transactions = [Transaction(self.run.app_id, self.run.app_version)] if transaction else []
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [_add(file) for file in (*files, *rewrite.added)]
        actions += [
            RemoveAction(old.path, True, now, size=old.size, partition_values=dict(old.partition_values))
            for old in rewrite.gone
        ]
        self._tried = rewrite
        try:
            properties = commit_properties({**self.run.facts, **details}, people, transactions)
            commit_files(table, actions, properties)
        except (DeltaError, OSError) as error:
            raise self._target.race_or(error, before.version) from error
        write_checkpoint_if_due(table, self._target.location.open())
        left = None if before.rows is None else before.rows + rows - rewrite.rows_removed
        return TableCommit(
            version=before.version + 1,
            rows=rows,
            after=TableState(before.id, before.version + 1, left),
            removed=rewrite.rows_removed,
            files=len(files) + len(rewrite.added),
            bytes=sum(file.size for file in (*files, *rewrite.added)),
            kept=self.run.facts.get("kept"),
            nulls=null_counts(file.stats for file in files) or None,
        )

    def clean_up(self, *, others_landed: bool) -> None:
        """Delete rewritten files that no commit can hold. Those of the last commit tried stay: it may have been made
        although it failed here, unless another attempt's was made instead."""
        if self._rewriter is not None:
            self._rewriter.discard(None if others_landed else self._tried)


def _add(file: WrittenFile) -> AddAction:
    # delta-rs encodes the path as the log wants it; readers decode it again.
    return AddAction(file.path, file.size, dict(file.partition_values), file.modified_ms, True, file.stats)

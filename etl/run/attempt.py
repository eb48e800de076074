"""One attempt at landing a run: its plan, the commits that are durable, and the events that it writes about them.

    the table's commit ──► `landed` in the ledger ──► files of other attempts are deleted

A commit that an attempt could not record, because of a crash or because another table's commit failed, is found by its
app transaction when the next attempt begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.dispositions.port import Disposition, NoRemovals, Records, Removals
from kseg.etl.dispositions.registry import APPEND, disposition_of
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.kept_offsets import kept_digest
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.rows.names import AddressColumns
from kseg.etl.run.account import ReadCounts, failed
from kseg.etl.run.context import JobContext
from kseg.etl.run.leftovers import delete_leftovers
from kseg.etl.run.shaping import TableShaping
from kseg.etl.run.side_tables import SideTables
from kseg.etl.tables.errors import landed_by, one_table
from kseg.etl.tables.parallel import parallel_map
from kseg.etl.tables.parquet.task_output import WrittenFile
from kseg.etl.tables.removal import Removal
from kseg.etl.tables.side_kinds import LETTERS, QUARANTINE
from kseg.etl.tables.values import FoundCommit, NewCommit, RunCommit
from kseg.etl.telemetry.events import AccountFailed, TableCommitted


@dataclass
class Attempt:
    """See the module's docstring.

    commits: the durable commits, by table. earlier_attempt: an earlier attempt is possible; it may have left commits
    that the ledger lacks, and files in no commit. landed_now: the tables that this attempt committed, with the files
    that its tasks wrote; None if Spark wrote them. removals: the rows that its commits remove, once this is decided.
    """

    context: JobContext
    lease: Lease
    plan: ev.RunPlan
    commits: dict[str, ev.TableCommit]
    earlier_attempt: bool
    landed_now: dict[str, list[WrittenFile] | None] = field(default_factory=dict)
    removals: Removals = field(default_factory=NoRemovals)
    _unrecorded: list[str] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _facts(self) -> CommitFacts:
        return CommitFacts(self.plan, self.context.job.name, self.context.clients.ledger.id)

    @cached_property
    def _shaping(self) -> TableShaping:
        return TableShaping(self.context, self.lease)

    @cached_property
    def side_tables(self) -> SideTables:
        """The run's quarantine and its dead-letter table."""
        return SideTables.of(self.plan, self.context.job)

    @property
    def transformed(self) -> bool:
        """Whether SQL or Python steps make the rows, so that their number may differ from that of the records."""
        return bool(self.context.job.transform)

    def rows_tables(self) -> list[str]:
        """The tables for the run's rows that have no commit of the run yet."""
        return [t for t in self.plan.tables if t not in self.commits and t not in self.side_tables.kinds]

    def landed_rows_tables(self) -> list[str]:
        """The tables for the run's rows that have its commit."""
        return [table for table in self.commits if table not in self.side_tables.kinds]

    def disposition(self, table: str | None = None) -> Disposition:
        """The disposition of a table's rows; of the run's rows without a table."""
        return APPEND if table in self.side_tables.kinds else disposition_of(self.plan)

    # --- commits

    def report_commits(self) -> None:
        """Report the commits that the ledger has from earlier attempts."""
        for table, commit in self.commits.items():
            self.identify(table, commit.after)
            self._report(table, commit)

    def find_earlier_commits(self) -> None:
        """Find commits of attempts that died before they recorded them in the ledger. An app transaction remains when
        its rows are removed, so the table's state is checked as well."""
        if not self.earlier_attempt:
            return
        targets = self.context.targets
        tables = [*self.plan.tables]
        tables += [table for table in self.side_tables.kinds if table not in tables]

        def find(table: str) -> ev.TableCommit | None:
            if table in self.commits:
                with landed_by(self.plan.run_id):
                    targets.check_landed(table, self.commits[table].after)
                return None
            found = targets.target(table).found_commit(self.run_commit(table))
            if found is None:
                return None
            with landed_by(self.plan.run_id):
                targets.check_landed(table, found.commit.after)
            return found.commit

        for table, found in parallel_map(tables, find).items():
            if found is not None:
                self._landed(table, found)
        self._record()

    def check_table(self, table: str) -> None:
        """Raises Refused if the table is not what the run's plan saw."""
        self.context.targets.check(table, self._shaping.known(self.plan, table))

    def before_reshaping(self, table: str) -> Callable[[], None]:
        """See `TableShaping.before`."""
        return self._shaping.before(table)

    def identify(self, table: str, state: ev.TableState) -> None:
        """Refuse a second name of one of the run's tables: the plan cannot compare tables that this run creates."""
        if (other := self._ids.setdefault(state.id, table)) != table:
            raise one_table(other, table)

    def confirm(self, created: Mapping[str, ev.TableState]) -> None:
        """After tables were created, or extended: confirm that this attempt still has the run.

        Raises:
            LeaseLost: another attempt has taken over.
        """
        for table, state in created.items():
            self.identify(table, state)
        self.plan = self._shaping.confirm_lease(self.plan, created)

    def decide_removals(self, reading: ReadCounts) -> None:
        """Decide which rows the commits remove, and record in the ledger which ones stay."""
        clients = self.context.clients
        records = Records(clients.read_state, clients.ledger.read, self.context.targets.access)
        self.removals = self.disposition().decide(self.plan, reading, records)
        if events := self.removals.events():
            self.lease.transition(lambda _: events)

    def removal(self, table: str, address: AddressColumns | None, *, by_sql: bool = False) -> Removal | None:
        """The rows that the commit to a table removes. address: the table's address columns, if rows are removed."""
        if not self.disposition(table).removes:
            return None  # what earlier runs have set aside stays
        assert address is not None
        return self.removals.of(table, address, by_sql=by_sql)

    def run_commit(self, table: str) -> RunCommit:
        """The run as its commit to this table names it."""
        return self._facts.of(table, self.removals.kept if self.disposition(table).removes else None)

    def landed(
        self, outcomes: Mapping[str, NewCommit | FoundCommit], files: Mapping[str, list[WrittenFile]] | None
    ) -> None:
        """Record commits that this attempt has made or found. files: those in the commits; None: Spark wrote them."""
        for table, outcome in outcomes.items():
            if isinstance(outcome, NewCommit):
                self.landed_now[table] = None if files is None else files[table]
            self._landed(table, outcome.commit)
        self._record()
        for table in outcomes:
            self.context.observe(f"land:{table}:after")

    def _landed(self, table: str, commit: ev.TableCommit) -> None:
        self.identify(table, commit.after)
        self.commits[table] = commit
        self._report(table, commit)
        self._unrecorded.append(table)

    def _report(self, table: str, commit: ev.TableCommit) -> None:
        kind = self.side_tables.kinds.get(table)
        event = TableCommitted(table, commit, quarantine=kind is QUARANTINE, dead_letters=kind is LETTERS)
        self.context.progress.event(event)

    def _record(self) -> None:
        """Record durable commits in the ledger, then delete files that other attempts of this run have left."""
        unrecorded = {table: self.commits[table] for table in self._unrecorded}
        _refuse_missing_files(self.context, self.plan.run_id, unrecorded)
        landed = [
            ev.Landed(run_id=self.plan.run_id, table=table, commit=commit) for table, commit in unrecorded.items()
        ]
        if landed:
            self.lease.transition(lambda _: landed)
        self._unrecorded.clear()
        for event in landed:
            if not event.commit.found and not self.earlier_attempt:
                continue  # listing all files of a table is expensive
            access = self.context.targets.access(event.table)
            if access is not None:
                delete_leftovers(self.lease, access, self.plan, event.table, [event.commit])

    # --- the account

    def fail(self, equation: ev.Equation, fault: str, reading: ReadCounts, rows_out: int | None = None) -> NoReturn:
        """Record the failed account in the ledger, where it stays until a user clears it, and raise Refused."""
        self.context.progress.event(AccountFailed(equation, fault))
        final = bool(self.landed_now) and self.transformed
        event = reading.failed(self.plan.run_id, equation, fault, rows_out, final=final)
        self.lease.transition(lambda _: [event])
        raise failed(self.plan, event)


def _refuse_missing_files(context: JobContext, run_id: str, commits: Mapping[str, ev.TableCommit]) -> None:
    """What was committed must be there before the ledger says that it has landed.

    A VACUUM by somebody else may have deleted a run's files between their writing and the commit.

    commits: those that the ledger does not have yet, by table.

    Raises:
        Refused: `files-missing`; such a table cannot be read.
    """

    def missing(table: str) -> tuple[str, ...]:
        access = context.targets.access(table)
        return () if access is None else access.missing_files(commits[table])

    for table, files in parallel_map(list(commits), missing).items():
        if files:
            values = {"count": len(files), "first": files[0]}
            raise Refused.of("files-missing", values, case="committed", table=table, run=run_id)


@dataclass(frozen=True)
class CommitFacts:
    """Metadata of a run's commits besides their app transaction, for people and for `--rebuild-ledger`.

    job: its name. ledger: the id of its ledger.
    """

    plan: ev.RunPlan
    job: str
    ledger: str

    @cached_property
    def _read(self) -> list[list[str | int]]:
        return [[planned.topic, planned.partition, planned.start, planned.end] for planned in self.plan.ranges]

    @cached_property
    def _ranges(self) -> dict[str | None, list[list[str | int]]]:
        """By table, in one pass over the plan."""
        found: dict[str | None, list[list[str | int]]] = {}
        for planned, one in zip(self.plan.ranges, self._read, strict=True):
            for table in self.plan.routed or (planned.table,):
                found.setdefault(table, []).append(one)
        return found

    def of(self, table: str, kept: Mapping[TopicPartition, OffsetSet] | None = None) -> RunCommit:
        """The run as its commit to this table names it. kept: of a replacement, what it has left as it was."""
        plan, ranges = self.plan, self._ranges.get(table, [])
        facts: dict[str, Any] = {"job": self.job, "ledger": self.ledger, "mode": plan.mode, "ranges": ranges}
        if not ranges:
            facts["read"] = self._read  # by a table beside the rows: what it has may be of any of these
        if table in plan.routed:
            facts["routed"] = [*plan.routed]  # the ranges' other rows are in these, or yet to come there
        if plan.generations:
            read = {(topic, partition) for topic, partition, _, _ in ranges or self._read}
            facts["generations"] = [[*tp, number] for tp, number in sorted(plan.generations.items()) if tp in read]
        if kept is not None:
            facts["kept"] = kept_digest(plan, table, kept)
        return RunCommit(plan.run_id, plan.app_id, plan.app_version, facts)

"""The ledger's Delta table: open or create it, read a job's state, and write transitions. delta-rs only, no JVM.

A transition reads the table, folds the job's events, decides, and commits the decision *with the same table object* and
the app transaction (`kseg-ledger/<ledger id>/<job>`, sequence + 1). If two writers have decided from the same state,
one of them commits. The other's commit fails, because the app id is in a commit that its table object has not read;
this writer reads and decides again. Commits of other jobs do not conflict: delta-rs rebases over them.

delta-rs checks the app id, but not the version: with a refreshed table object, it would commit a duplicate or even a
lower version. So the commit must use the object that was read, which is not refreshed in between, and has no other user
(`table_objects`).

This is safe between machines because the commit file is put-if-absent; `conditional_put` tests the store for it. See
the Delta protocol, "Transaction Identifiers" and "Conflict Resolution"; https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from arro3.core import Table
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kseg.etl.errors import Refused, RetriableFailure
from kseg.etl.ledger import codec, opening
from kseg.etl.ledger.conditional_put import check_races, check_refuses, unsafe_option
from kseg.etl.ledger.errors import IllegalEvent, LeaseLost
from kseg.etl.ledger.events import Event
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.object_store import is_local
from kseg.etl.ledger.state import JobState, Summary
from kseg.etl.ledger.store_errors import check_endpoint, check_place, store_error
from kseg.etl.ledger.table_objects import JOB, NAME, SEQUENCE, Provenance, TableObject, TableObjects

Decide = Callable[[JobState], Sequence[Event]]
"""Returns the events to write for a state; none if there is nothing to do. May be called several times; may raise."""

DEADLINE = 60.0
"""Seconds after which a transition is no longer retried (RetriableFailure). A try takes 10 to 50 ms on a local disk."""

REBASES = 1_000
"""How often one commit is rebased over commits of other jobs before it counts as failed and is decided again."""

STORE_ERRORS = (DeltaError, OSError)
"""Errors that delta-rs raises if a store or a table cannot be read or written."""


class Ledger:
    """One ledger table. Thread-safe: concurrent reads and tries use different table objects."""

    def __init__(
        self,
        path: str,
        storage_options: Mapping[str, str] | None,
        table: DeltaTable,
        setting: str,
        *,
        raced: bool = False,
    ) -> None:
        """Use `Ledger.open`. raced: whether `check_races` has just tested the store, because there was no ledger."""
        self.path = path
        self.setting = setting
        self.raced = raced
        self.storage_options = dict(storage_options or {})
        self.id: str = str(table.metadata().id)
        self._lock = threading.Lock()
        self._known: dict[str, JobState] = {}
        self._objects = TableObjects(self.table, Provenance(path, self.storage_options))
        self._objects.give(self._objects.loaded(table))

    @classmethod
    def open(
        cls,
        path: str | Path,
        storage_options: Mapping[str, str] | None = None,
        *,
        create: bool = True,
        setting: str = "ledger",
    ) -> Ledger:
        """The ledger at a path or URL; created if there is none. Any number of processes may do this concurrently.

        storage_options: passed to delta-rs (credentials, endpoint, region …). setting: the key of the job file that
        names the ledger, for errors.

        Raises:
            Refused: the table is not a ledger, or one of a later release, or its log is gone; or there is none and
                create is False; or the options allow renames that overwrite.
            ConfigurationError: the store rejects settings or credentials; or a ledger has to be created, and the store
                is not put-if-absent.
            RetriableFailure: the store does not respond.
        """
        location = str(path) if "://" in str(path) else str(Path(path).absolute())
        options = dict(storage_options or {})
        if option := unsafe_option(location, options):
            raise opening.unsafe(option, location)
        check_place(location, setting=setting, ledger=location)
        check_endpoint(location, options, setting=setting, ledger=location)
        raced = False
        try:
            table = opening.load(location, options)
            if table is None and create:
                opening.refuse_lost(location, options)
                raced = check_races(location, options, setting=setting, ledger=location) > 0
                table = opening.create(location, options)
        except STORE_ERRORS as error:
            raise store_error("the ledger cannot be opened", error, setting=setting, ledger=location) from error
        if table is None:
            raise Refused.of("ledger-missing", case="opening", ledger=location)
        opening.check_is_ledger(table, location)
        return cls(location, options, table, setting, raced=raced)

    def check_store(self) -> None:
        """Check with one request that the store rejects a conditional PUT onto an existing key.

        Raises:
            ConfigurationError: it overwrites the object; other errors as in `open`.
        """
        check_refuses(self.path, self.storage_options, setting=self.setting, ledger=self.path)

    def app_id(self, job: str) -> str:
        """The app id of the ledger's transactions for this job; their version is the number of the last transition."""
        return f"kseg-ledger/{self.id}/{job}"

    def summary_app_id(self, job: str) -> str:
        """The app id whose version is the number of the last transition that the newest summary replaces."""
        return f"kseg-ledger-summary/{self.id}/{job}"

    def read(self, job: str) -> JobState:
        """The job's current state; the empty state (sequence 0) if the ledger does not have the job.

        Raises:
            Refused: events are missing or contradict each other, or a later release wrote them.
            ConfigurationError: as in `open`.
            RetriableFailure: the store does not respond.
        """
        known = self._last_known(job)
        with self.errors(f"read the state of {job}"):
            found, state = self._look(known)
        self._objects.give(found)
        return state

    def known(self, job: str) -> JobState:
        """The job's state as this process has last read or written it; sends no request to the store."""
        return self._last_known(job)

    def snapshot(self, job: str) -> tuple[DeltaTable, JobState]:
        """The job's state, and the table object that it was read from. Raises as `read`."""
        known = self._last_known(job)
        with self.errors(f"read the state of {job}"):
            found, state = self._look(known)
            return found.table, state

    def transition(self, job: str, decide: Decide, *, deadline: float = DEADLINE) -> JobState:
        """Read, decide, and write the decision as one commit; starts again if another process has committed first.

        decide: called with the current state; the events that it returns are checked against that state. It may raise,
            and returns no events if there is nothing to do. It may be called several times: it must have no effects.
        deadline: seconds.

        Returns:
            The state after the events; if there was nothing to do, the state that was read.

        Raises:
            IllegalEvent, LeaseLost: the events are not allowed in that state; nothing was written.
            RetriableFailure: other writers were faster until the deadline, or the store does not respond.
            Refused, ConfigurationError: as in `read`.
            anything that decide raises.
        """
        if not job:
            raise ValueError("a job needs a name: Delta keeps an empty partition value as null")
        began = time.monotonic()
        doing = f"write to the job {job}"
        tries = 0
        mine: tuple[int, str] | None = None
        while True:
            failure: Exception
            known = self._last_known(job)
            try:
                with self.errors(doing):
                    found, state = self._look(known)
                    if mine is not None and self._wrote(found.table, job, *mine):
                        return state
            except RetriableFailure as error:
                if mine is None:
                    raise
                # It is still unknown whether the last commit was made: read again before deciding again.
                failure = error
            else:
                mine = None
                events = tuple(decide(state))
                if not events:
                    self._objects.give(found)
                    return state
                sequence, name = state.sequence + 1, secrets.token_hex(8)
                rows = codec.transition_rows(events, datetime.now(UTC), sequence, name)
                after = fold(state, [row.entry for row in rows])
                try:
                    with self.errors(doing):
                        version = self._commit(found, job, sequence, name, codec.encode(job, rows))
                    return self._remember(replace(after, version=version))
                except (CommitFailedError, RetriableFailure) as error:
                    # Neither error proves that the commit was not made: look for it before deciding again.
                    mine, failure = (sequence, name), error
            tries += 1
            # Full jitter: writers that have conflicted must not retry at the same moment.
            pause = random.uniform(0, min(0.5, 0.005 * 2 ** min(tries, 7)))
            if time.monotonic() + pause - began > deadline:
                raise RetriableFailure(
                    f"the ledger could not be written within {deadline:g} s in {tries} tries", ledger=self.path, job=job
                ) from failure
            time.sleep(pause)

    def events(self, job: str, kinds: Collection[type[Event]] = ()) -> list[Entry]:
        """All events of a job in the table, in order; each summary is after the last event that it replaces. Events
        before the first summary may be incomplete: retention deletes the oldest.

        kinds: only these; others are not parsed (an old job may have a million). Empty: all kinds.
        """
        only = f" AND kind IN ({', '.join(repr(kind.KIND) for kind in kinds)})" if kinds else ""
        with self.errors(f"read the events of {job}"):
            return [row.entry for row in self._rows(self.table(), job, f"{job_predicate(job)}{only}")]

    def jobs(self) -> list[str]:
        """The names of all jobs in the ledger."""
        with self.errors("list the jobs"):
            return sorted({str(partition["job"]) for partition in self.table().partitions()})

    # --- one table object for each try

    def table(self) -> DeltaTable:
        """A newly loaded table object of the newest version, which only the caller uses.

        Raises:
            Refused: another ledger has replaced this one.
            what delta-rs raises.
        """
        table = DeltaTable(self.path, storage_options=self.storage_options or None)
        if str(table.metadata().id) != self.id:
            raise Refused.of("ledger-foreign", case="replaced", ledger=self.path)
        return table

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Convert delta-rs' errors into this package's, except the CommitFailedError of a conflicting commit."""
        try:
            yield
        except CommitFailedError:
            raise
        except TableNotFoundError as error:
            raise Refused.of("ledger-missing", {"doing": doing}, case="gone", ledger=self.path) from error
        except STORE_ERRORS as error:
            raise store_error(f"could not {doing}", error, setting=self.setting, ledger=self.path) from error

    def _last_known(self, job: str) -> JobState:
        with self._lock:
            return self._known.get(job) or JobState(job=job, ledger_id=self.id)

    def _remember(self, state: JobState) -> JobState:
        with self._lock:
            known = self._known.get(state.job)
            if known is None or known.sequence <= state.sequence:
                self._known[state.job] = state
        return state

    # --- reading

    def _look(self, known: JobState) -> tuple[TableObject, JobState]:
        """The newest version, and the job's state in it. Raises as `read`, and what delta-rs raises."""
        found = self._objects.take()
        try:
            return found, self._state(found, known)
        except (Refused, *STORE_ERRORS):
            # An object that was used before may need a checkpoint that has been deleted since.
            if not found.reused:
                raise
        found = self._objects.load()
        return found, self._state(found, known)

    def _state(self, found: TableObject, known: JobState) -> JobState:
        """The job's state at the table object's version; only new events are read.

        known: read before the table object was taken: the table must not be older.
        """
        table, job = found.table, known.job
        last = found.sequence(job, self.app_id(job))
        if known.sequence > last:
            raise self._damaged(job, f"it was at transition {known.sequence} before, and is at {last} now")
        state = replace(known, version=table.version())
        if known.sequence == last and last:
            return self._remember(state)
        summed = table.transaction_version(self.summary_app_id(job)) or 0
        if known.sequence >= summed:
            rows = self._rows_after(table, job, known.sequence)
        else:
            state = JobState(job=job, ledger_id=self.id, version=table.version())
            rows = [
                row
                for row in self._rows_after(table, job, summed - 1)
                if row.entry.sequence > summed or isinstance(row.entry.event, Summary)
            ]
        _check_complete(rows, state.sequence, last, lambda what: self._damaged(job, what))
        try:
            return self._remember(fold(state, [row.entry for row in rows]))
        except (IllegalEvent, LeaseLost) as error:
            raise self._damaged(job, f"its events contradict each other: {error}") from error

    def _rows_after(self, table: DeltaTable, job: str, sequence: int) -> list[codec.Row]:
        return self._rows(table, job, f"{job_predicate(job)} AND seq > {sequence}")

    def _rows(self, table: DeltaTable, job: str, predicate: str) -> list[codec.Row]:
        try:
            found = scanned(table, predicate)
        except STORE_ERRORS as error:
            if "not found" in str(error).lower():
                raise self._damaged(job, f"a data file is gone: {error}") from error
            raise
        return codec.decode(job, found)

    def _wrote(self, table: DeltaTable, job: str, sequence: int, name: str) -> bool:
        """Whether a commit that failed with an error is in the table nevertheless."""
        return any(
            row.entry.sequence == sequence and row.transition == name
            for row in self._rows_after(table, job, sequence - 1)
        )

    def _damaged(self, job: str, what: str) -> Refused:
        return Refused.of("ledger-damaged", {"what": what}, case="events", ledger=self.path, job=job)

    # --- writing

    def _commit(self, found: TableObject, job: str, sequence: int, name: str, rows: Table) -> int:
        """Returns the new version."""
        properties = self.commit_properties(job, sequence, sorted(set(rows["kind"].to_pylist())), name=name)
        before = found.table.version()
        write_deltalake(found.table, rows, mode="append", commit_properties=properties)
        if found.committed(name, job, sequence, on=before):
            self._objects.give(found)
        return found.table.version()

    def commit_properties(
        self, job: str, sequence: int, kinds: Sequence[str], *, name: str, summed: int = 0
    ) -> CommitProperties:
        """The ledger's app transactions, and a description of the commit for readers of the table's history.

        name: unique to the commit. summed: number of a summary in the commit; 0: there is none.
        """
        transactions = [Transaction(self.app_id(job), sequence)]
        if summed:
            transactions.append(Transaction(self.summary_app_id(job), summed))
        return CommitProperties(
            app_transactions=transactions,
            max_commit_retries=REBASES,
            custom_metadata={JOB: job, SEQUENCE: str(sequence), NAME: name, "kseg.kinds": ",".join(kinds)},
        )


def scanned(table: DeltaTable, predicate: str) -> Table:
    """The rows that match an SQL condition. Raises STORE_ERRORS."""
    scan = table.scan(codec.SCHEMA.names, predicate)
    try:
        if is_local(table.table_uri):
            return scan.read_all()
        import pyarrow as pa  # arro3 would block all threads of the process until the store responds

        return Table.from_arrow(pa.RecordBatchReader.from_stream(scan).read_all())
    except (OSError, MemoryError):
        raise
    except Exception as error:  # arro3 has no specific exception class for errors of a stream
        raise OSError(str(error)) from error


def job_predicate(job: str) -> str:
    """The SQL condition for the rows of one job."""
    return "job = '" + job.replace("'", "''") + "'"


def _check_complete(rows: Sequence[codec.Row], known: int, last: int, damaged: Callable[[str], Refused]) -> None:
    """Check that transitions known + 1 … last all exist and are complete; a summary replaces all up to its number.

    Raises what `damaged` returns.
    """
    expected_sequence, expected_part, parts = known + 1, 0, 0
    for row in rows:
        sequence = row.entry.sequence
        if isinstance(row.entry.event, Summary):
            if row is not rows[0]:
                raise damaged(f"transition {sequence} is there twice, as events and in a summary")
            expected_sequence = sequence
        if expected_part == 0:
            parts = row.parts
        if (sequence, row.part, row.parts) != (expected_sequence, expected_part, parts):
            raise damaged(
                f"event {expected_part} of transition {expected_sequence} should follow, "
                f"found event {row.part} of {sequence}"
            )
        expected_part += 1
        if expected_part == parts:
            expected_sequence, expected_part = expected_sequence + 1, 0
    if expected_part or expected_sequence != last + 1:
        raise damaged(f"its log has {last} transitions, its events of {expected_sequence - 1}")

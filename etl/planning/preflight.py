"""The checks that every plan begins with: brokers, tables and group as they are now, compared with the ledger.

Imports neither Spark nor the record decoder, so that `kseg plan` starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.paths import nearest_above
from kseg.etl.decoding.rules import FIRST
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.local_folders import refuse_unwritable
from kseg.etl.ledger.object_store import place_of
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.table_names import current_names
from kseg.etl.places import one_scheme
from kseg.etl.planning.group_reconciliation import committed_epochs
from kseg.etl.planning.inputs import InputReader, TargetTables
from kseg.etl.planning.plan import PlanInputs
from kseg.etl.planning.source_identity import check_source, ends_of_epochs
from kseg.etl.planning.table_rules import depends_on_rules, rules_of_tables
from kseg.etl.tables.errors import name_abandoning, nested_tables, one_table, refuse_closed
from kseg.etl.tables.parallel import parallel_map
from kseg.etl.tables.side_kinds import side_tables_of
from kseg.etl.tables.values import KnownTable, TableDescription

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.planning.schemas import FoundSchemas
    from kseg.etl.planning.snapshot import SourceSnapshot

T = TypeVar("T")


def preflight(inputs: InputReader, state: JobState, chain: str, *, accept_group_offsets: bool = False) -> PlanInputs:
    """The inputs for a plan of this chain, checked against a ledger state that was read before.

    Raises:
        Refused: a table is not what the ledger left (restored, replaced, overwritten, gone), was landed with a later
            state of this ledger or with another one.
        ConfigurationError, SchemaRegistryError: as `read_schemas`, and as `InputReader.sizes`; rows are routed by
            something else than their topic into a table that needs Spark's own writer, or a table beside the rows needs
            it; a local place of the ledger or a table is a file, or this process may not write there.
    """
    job, target_tables = inputs.job, inputs.tables
    snapshot = inputs.snapshot(state)
    of_rows = job.sink.tables_of(snapshot.topics)
    tables = set(of_rows)
    if job.sink.routed:
        target_tables.refuse_spark(sorted(tables))
    for kind, table in side_tables_of(job):
        target_tables.refuse_spark_side_table(table, kind.setting)
        tables.add(table)
    _refuse_unwritable(job, tables)
    if not state.bases and not accept_group_offsets:
        ledgers = {state.ledger_id, *state.lost_ledgers}
        parallel_map(sorted(tables), lambda table: target_tables.refuse_other_ledger(table, ledgers))
    examined = _examined(inputs, state, chain, tables)
    found = {table: now.state for table, now in examined.items()}
    known = _known(state)
    decoded = {table: (known(table, now.state).record, now) for table, now in examined.items() if table in of_rows}
    rules = rules_of_tables(decoded, may_differ=not depends_on_rules(job)) if job.decode is not None else FIRST
    group = inputs.group_view(snapshot.partitions, accept=accept_group_offsets)
    # After the ranges' ends: a record's schema is registered before the record is written.
    schemas = _read_schemas(inputs, snapshot, state) if inputs.registry is not None else {}
    sizes = inputs.sizes(snapshot) if chain == ev.INCREMENTAL and job.run.max_bytes is not None else {}
    committed = () if group is None else committed_epochs(group, state)
    ends = ends_of_epochs(inputs.logs, snapshot, state, committed)
    notes = target_tables.layout_notes(of_rows)
    described = {table: now for table, (_, now) in decoded.items()}
    return PlanInputs(job, snapshot, found, group, ends, schemas, sizes, tuple(notes), rules, described)


def _refuse_unwritable(job: Job, tables: Iterable[str]) -> None:
    """Before anything is read: the first write to a table is its commit, when the run's records are read."""
    refuse_unwritable(job.ledger, setting="ledger", ledger=job.ledger)
    if job.spark.remote is not None:  # the server may write where this process only reads
        return
    for table in sorted(tables):
        location = resolve(table).location
        if location is not None:
            refuse_unwritable(location, setting="sink", table=table)


def _read_schemas(inputs: InputReader, snapshot: SourceSnapshot, state: JobState) -> dict[str, FoundSchemas]:
    from kseg.etl.planning.schemas import read_schemas  # all formats of a registry, which most jobs do not have

    return read_schemas(inputs.job, inputs.registry, snapshot.topics, state)


def check_again(inputs: InputReader, state: JobState) -> None:
    """Whether the source is still the one of this state: before a run is taken up, and before offsets are committed.

    Raises:
        Refused: as `check_source`.
        RetriableFailure: the brokers' answers stay older than what the ledger knows.
    """
    snapshot = inputs.bounds(state)
    check_source(snapshot, state, ends_of_epochs(inputs.logs, snapshot, state))


def read_without_lease(read_state: Callable[[], JobState], read: Callable[[JobState], T]) -> T:
    """Call a function that writes nothing, and so needs no lease, with the job's current state.

    Other runs may land and commit between the read of the state and the function's own reads, which then look as if the
    ledger had been rolled back. So a Refused is raised only if the ledger has not changed; otherwise both are repeated.

    Raises:
        Refused: as `read` does.
    """
    while True:
        state = read_state()
        try:
            return read(state)
        except Refused:
            if read_state().sequence == state.sequence:
                raise


def examine_tables(
    inputs: InputReader, state: JobState, chain: str, tables: Iterable[str]
) -> dict[str, ev.TableState | None]:
    """These tables as they are now, compared with a ledger state that was read before.

    Raises:
        Refused: a table is not what the ledger left, or was landed with a later state of this ledger.
        ConfigurationError: two of the names are one table, or one of the tables and the ledger lies inside another.
    """
    return {table: now.state for table, now in _examined(inputs, state, chain, tables).items()}


def _known(state: JobState) -> Callable[[str, ev.TableState | None], KnownTable]:
    """Returns what a ledger knows of a table, by its name and its state."""
    ids = {state.tables[name].id: name for name in current_names(state.tables)}

    def known(name: str, now: ev.TableState | None) -> KnownTable:
        # A table goes by another name once the job file, a symbolic link or a catalog does.
        if name not in state.tables and now is not None:
            name = ids.get(now.id, name)
        return KnownTable(state.tables.get(name), state.table_records.get(name, ev.TableRecord()))

    return known


def _examined(inputs: InputReader, state: JobState, chain: str, tables: Iterable[str]) -> dict[str, TableDescription]:
    """Does the same as `examine_tables`, and returns all that was found."""
    known = _known(state)

    def examine(name: str) -> TableDescription:
        try:
            return inputs.tables.examine(name, lambda now: known(name, now), state.job_app, apps)
        except Refused as refused:
            for run in state.unfinished_runs():
                if run.accounted is None and name in run.landed:
                    name_abandoning(refused, run.run_id)
                elif run.accounted is None and _reads(run, name) and refused.code == "table-missing":
                    # Its offsets are its own until then: no replacement may read the lost dead letters' records again.
                    name_abandoning(refused, run.run_id, "has planned its dead letters")
            raise

    apps = [state.next_app_transaction(of)[0] for of in {ev.INCREMENTAL, chain}]
    found = parallel_map(sorted(tables), examine)
    _refuse_two_names(found, state.ledger_id, inputs.job.ledger)
    _refuse_nested({inputs.job.ledger: place_of(inputs.job.ledger), **{t: now.place for t, now in found.items()}})
    # Read after the tables: every run is planned in the ledger before it can land.
    newest = inputs.read_state()
    for table, now in found.items():
        refuse_unknown_runs(newest, inputs.tables, table, now.transactions)
    return found


def _reads(run: RunState, table: str) -> bool:
    """Whether a run is a redrive of this table of dead letters."""
    return run.mode == REDRIVE and run.plan.dead_letters == table


def _refuse_two_names(found: Mapping[str, TableDescription], ledger_id: str, ledger: str) -> None:
    names = {("id", ledger_id): ledger}
    for table, now in found.items():
        of_table = [("place", now.place)] if now.place else []
        of_table += [("id", now.state.id)] if now.state is not None else []
        for key in of_table:
            if (other := names.setdefault(key, table)) != table:
                raise one_table(other, table)


def _refuse_nested(places: Mapping[str, str]) -> None:
    """The job file's own rules do not know the topics of a pattern, and follow no symbolic links.

    places: by name, without symbolic links; empty: not known.
    """
    names = {one_scheme(place).rstrip("/"): name for name, place in places.items() if place}
    for place, name in names.items():
        outer = nearest_above(place, names)
        if outer is not None:
            raise nested_tables(name, outer)


def refuse_unknown_runs(state: JobState, tables: TargetTables, table: str, transactions: Mapping[str, int]) -> None:
    """A table that has landed runs which the ledger has never planned was landed with a later state of it.

    transactions: the last ones of the job's apps, by app id.

    Raises:
        Refused: `ledger-older-than-table`.
    """
    for app_id, version in transactions.items():
        known = state.planned_app_version(app_id)
        if version > known:
            refuse_closed(table, app_id, lambda app: tables.transaction_version(table, app) or None)
            values = {"version": version, "chain": app_id, "known": known}
            raise Refused.of("ledger-older-than-table", values, case="plans", table=table)

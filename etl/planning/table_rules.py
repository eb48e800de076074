"""By which rules a run decodes (`etl.decoding.rules`): those of the rows that its job's tables have.

    what is known of a table                               its rules
    ----------------------------------------------------   ------------------------------------------------
    the ledger has a landing in it                         those of that landing's run
    its rows were compared when it was accepted            those that the ledger knew before
    otherwise, its property `kseg.decodingRules`           those (of another job, or of a ledger that was lost)
    otherwise, it has rows, or may have some               version 1
    otherwise                                              none: it takes any

All of a job's tables are decoded by the same rules, because they share readers' schemas and steps: a job that brings
together tables whose rows have different rules is refused, if its rows depend on them (`depends_on_rules`). A
replacement of all rows that the job has landed begins anew, by the newest rules, if the columns stay the same. Columns
by schemas of a registry do, because the ledger has them (a lineage); a property of the table has the rules that made
them, for a ledger that is rebuilt (`column_rules`).

No two unfinished runs of a job have different rules (`beside_unfinished`), so none lands rows by rules that a
replacement has changed since it was planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.decoding import Payload, sections_of
from kseg.etl.config.job import Job
from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules, rules_of
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import TableRecord
from kseg.etl.tables.values import TableDescription

if TYPE_CHECKING:
    import pyarrow as pa


def rules_of_tables(
    found: Mapping[str, tuple[TableRecord, TableDescription]], *, may_differ: bool = False
) -> DecodingRules | None:
    """The rules for tables, by what the ledger knows of each and what it is now; None if no table has any.

    may_differ: the job's rows do not depend on them; then the oldest are taken.

    Raises:
        Refused: a later release has decoded the rows of one (`ledger-newer`).
        ConfigurationError: tables with rows have different rules.
    """
    known = {table: rules for table, one in found.items() if (rules := _of_table(table, *one)) is not None}
    with_rows = {table: rules for table, rules in known.items() if not _is_empty(found[table][1])}
    if not may_differ and len({rules.version for rules in with_rows.values()}) > 1:
        raise _different(with_rows)
    return min((with_rows or known).values(), key=lambda one: one.version, default=None)


def column_rules(found: Mapping[str, TableDescription], rules: DecodingRules) -> DecodingRules:
    """The rules for a registry's schemas of which a ledger knows none: those that made the tables' columns.

    rules: of the rows. Raises Refused: `ledger-newer`.
    """
    made = [_known_rules(table, now.column_rules) for table, now in found.items() if now.column_rules is not None]
    return rules.with_columns_of(_oldest((rules, *made)))


def schema_rules(state: JobState, found: Mapping[str, TableDescription], rules: DecodingRules) -> DecodingRules:
    """The rules by which a registry's schemas become columns. found, rules: as of `column_rules`, which applies where
    the ledger has no such schemas, as after `kseg repair --rebuild-ledger`. Raises Refused: `ledger-newer`."""
    return rules if state.lineages else column_rules(found, rules)


def _is_empty(now: TableDescription) -> bool:
    return now.state is not None and now.state.rows == 0


def _different(tables: Mapping[str, DecodingRules]) -> ConfigurationError:
    by_age = sorted(tables, key=lambda table: tables[table].version)
    old, new = by_age[0], by_age[-1]
    return ConfigurationError.of(
        "sink",
        f"the rows of {old} were decoded by version {tables[old].version} of the rules of decoding, and those of {new} "
        f"by version {tables[new].version}: one job cannot decode for both",
        f"land the topics of {old} with a job of their own",
    )


def depends_on_rules(job: Job) -> bool:
    """Whether a job's rows may be others by other rules of decoding."""
    if job.decode is None:
        return False
    sections = sections_of(job.decode).values()
    payloads = [payload for section in sections for payload in section.payloads]
    return (
        any(section.on_error == "set_null" for section in sections)
        or any(payload.by_registry and FORMATS[payload.format].declared_type for payload in payloads)
        or job.hash_by(FIRST) != job.hash_by(NEWEST)
        or not has_same_columns(job)
    )


def beside_unfinished(of_tables: DecodingRules | None, state: JobState, *, may_differ: bool = False) -> DecodingRules:
    """The rules of a new run beside the unfinished runs that have yet to land: by those of its tables, by theirs where
    no table has rows, or the newest. may_differ: as of `rules_of_tables`.

    Raises:
        Refused: `run-unfinished`: such a run has other rules, as a replacement of all rows of an earlier release has.
    """
    others = [run for run in state.unfinished_runs() if run.accounted is None]
    rules = of_tables or min((run.plan.rules for run in others), key=lambda one: one.version, default=NEWEST)
    for run in others:
        if run.plan.rules != rules and not may_differ:
            raise Refused.of(
                "run-unfinished",
                {"theirs": run.plan.decoding_rules, "ours": rules.version},
                case="other rules of decoding",
                run=run.run_id,
            )
    return rules


def next_rules(
    job: Job, state: JobState, look: Callable[[str], TableDescription | None], topics: Iterable[str] = ()
) -> DecodingRules:
    """The rules of the job's next run, with those of its columns by a registry's schemas, for commands that plan none.

    look: a table as it is; None: it cannot be looked at, and is taken to be as the ledger left it. topics: further ones
    of the job. Where the next run is refused because its tables have different rules, the oldest. Raises Refused:
    `ledger-newer`.
    """
    try:
        tables: Iterable[str] = job.sink.tables_of({*state.topics, *(job.source.named_topics or ()), *topics})
    except ConfigurationError:  # a topic that an earlier job file had a route for
        tables = state.table_records
    records = {table: state.table_records.get(table, TableRecord()) for table in tables}
    found = {table: look(table) or TableDescription(record.landed) for table, record in records.items()}
    of_tables = rules_of_tables({table: (records[table], now) for table, now in found.items()}, may_differ=True)
    return schema_rules(state, found, beside_unfinished(of_tables, state, may_differ=True))


def replaces_all(state: JobState, wanted: Mapping[TopicPartition, OffsetSet]) -> bool:
    """Whether a replacement of these offsets reads all that the job has landed."""
    return all(not landed.subtract(wanted.get(tp, EMPTY)) for tp, landed in state.landed_offsets.items())


def has_same_columns(job: Job) -> bool:
    """Whether all rules give a job's rows the same columns: a table's columns do not change their types. Columns by
    schemas of a registry stay those of their lineage."""
    if job.decode is None:
        return True
    sections = sections_of(job.decode).values()
    payloads = [payload for section in sections for payload in section.payloads]
    if any(payload.unavailable_by(FIRST) != payload.unavailable_by(NEWEST) for payload in payloads):
        return False  # one has `_kseg_unavailable`
    return all(_columns_by(FIRST, payload) == _columns_by(NEWEST, payload) for payload in payloads)


def _columns_by(rules: DecodingRules, payload: Payload) -> pa.DataType | None:
    """The type of the rows of a schema in the job file; None where no rules give others, or these read none of it."""
    text, type_of = payload.declared.text, FORMATS[payload.format].declared_type
    return None if text is None or type_of is None else type_of(text, payload.unknown, rules)


def _oldest(rules: Iterable[DecodingRules]) -> DecodingRules:
    return min(rules, key=lambda one: one.version, default=NEWEST)


def _of_table(table: str, record: TableRecord, now: TableDescription) -> DecodingRules | None:
    if now.state is None:
        return None
    recorded = record.landed or (record.examined if record.rules > FIRST.version else None)
    if recorded is not None and recorded.id == now.state.id:
        return rules_of(record.rules)
    if now.decoding_rules is not None:
        return _known_rules(table, now.decoding_rules)
    return None if now.state.rows == 0 else rules_of(1)


def _known_rules(table: str, version: int) -> DecodingRules:
    try:
        return rules_of(version)
    except ValueError as error:
        raise Refused.of("ledger-newer", {"error": error}, case="rules of decoding", table=table) from None

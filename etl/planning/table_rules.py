"""By which rules a run decodes (`etl.decoding.rules`): those of the rows that its job's tables have.

    what is known of a table                               its rules
    ----------------------------------------------------   ------------------------------------------------
    the ledger has a landing in it                         those of that landing's run
    otherwise, its property `kseg.decodingRules`           those (of another job, or of a ledger that was lost)
    otherwise, it has rows, or may have some               version 1
    otherwise                                              none: it takes any

All of a job's tables are decoded by the same rules, the oldest of their rows, because they share readers' schemas and
steps. A replacement of all rows that the job has landed begins anew, by the newest rules, if the columns stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.decoding import sections_of
from kseg.etl.config.job import Job
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules, rules_of
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import TableRecord
from kseg.etl.tables.values import TableDescription


def rules_of_tables(found: Mapping[str, tuple[TableRecord, TableDescription]]) -> DecodingRules:
    """The rules for tables, by what the ledger knows of each and what it is now; the newest ones if none has rows.

    Raises:
        Refused: a later release has decoded the rows of one (`ledger-newer`).
    """
    return _oldest(of_one for table, known in found.items() if (of_one := _of_table(table, *known)) is not None)


def rules_in_ledger(job: Job, state: JobState) -> DecodingRules:
    """The rules for a job's tables, as far as its ledger knows: for commands that look at no table."""
    try:
        tables: Iterable[str] = job.sink.tables_of(state.topics)
    except ConfigurationError:  # a topic that an earlier job file had a route for
        tables = state.table_records
    records = (state.table_records.get(table, TableRecord()) for table in tables)
    return _oldest(rules_of(record.rules) for record in records if record.landed is not None)


def replaces_all(state: JobState, wanted: Mapping[TopicPartition, OffsetSet]) -> bool:
    """Whether a replacement of these offsets reads all that the job has landed."""
    return all(not landed.subtract(wanted.get(tp, EMPTY)) for tp, landed in state.landed_offsets.items())


def has_same_columns(job: Job) -> bool:
    """Whether all rules give a job's rows the same columns: a table's columns do not change their types. Columns by
    schemas of a registry stay those of their lineage."""
    if job.decode is None:
        return True
    sections = sections_of(job.decode).values()
    payloads = [payload for section in sections for payload in (section.key, section.value) if payload is not None]
    if any(payload.unavailable_by(FIRST) != payload.unavailable_by(NEWEST) for payload in payloads):
        return False  # one has `_kseg_unavailable`
    texts = [text for payload in payloads if payload.format == "avro" and (text := payload.declared.text) is not None]
    if not texts:
        return True
    from kseg.segment_reader.payload.avro.schema import parse_schema
    from kseg.segment_reader.payload.avro.types import arrow_type

    return all(arrow_type(parse_schema(text)) == arrow_type(parse_schema(text, connect=True)) for text in texts)


def _oldest(rules: Iterable[DecodingRules]) -> DecodingRules:
    return min(rules, key=lambda one: one.version, default=NEWEST)


def _of_table(table: str, record: TableRecord, now: TableDescription) -> DecodingRules | None:
    if now.state is None:
        return None
    if record.landed is not None and record.landed.id == now.state.id:
        return rules_of(record.rules)
    if now.decoding_rules is not None:
        try:
            return rules_of(now.decoding_rules)
        except ValueError as error:
            raise Refused(
                "ledger-newer",
                f"a later release of kseg has decoded the table's rows: {error}",
                remedy="use that release",
                table=table,
            ) from None
    return None if now.state.rows == 0 else rules_of(1)

"""Records that a job has set aside instead of landing it as rows, read from the tables beside the rows.

dead letters    one offset each
quarantine      the offsets of damaged bytes; a damage may reach beyond the ranges of the run that found it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.ranges import Interval
from kseg.etl.rows.names import OWN_ADDRESS, RUN_COLUMN
from kseg.etl.tables.protocol import TableAccess

_DAMAGE = ("topic", "partition", "first_offset", "last_offset", RUN_COLUMN)
_LETTER = (*OWN_ADDRESS, RUN_COLUMN)


@dataclass(slots=True)
class SetAside:
    """Records that one run has set aside in one table. rows: their number. offsets: in no order, and some perhaps
    twice."""

    rows: int = 0
    offsets: dict[TopicPartition, list[Interval]] = field(default_factory=dict)


def set_aside(table: str, access: TableAccess) -> dict[str, SetAside]:
    """By run, what a table beside the rows has; rows that no run wrote are left out.

    Raises ConfigurationError: the table is none of the two.
    """
    found: dict[str, SetAside] = {}
    for topic, partition, first, last, run in _rows(table, access):
        if run is not None:
            of_run = found.setdefault(run, SetAside())
            of_run.rows += 1
            of_run.offsets.setdefault(TopicPartition(topic, partition), []).append((first, last))
    return found


def _rows(table: str, access: TableAccess) -> Iterator[tuple[str, int, int, int, str | None]]:
    there = set(access.column_names())
    columns = next((names for names in (_DAMAGE, _LETTER) if there.issuperset(names)), None)
    if columns is None:
        raise ConfigurationError.of(
            "sink", f"{table} has neither dead letters nor damaged bytes with their run", "name the job's own tables"
        )
    for batch in access.scan(columns):
        values = [batch.column(name).to_pylist() for name in columns]
        if columns is _LETTER:
            values.insert(3, [offset + 1 for offset in values[2]])
        yield from zip(*values, strict=True)

"""Events as rows of the ledger's Delta table, and back.

    job         string      partition column: a read opens only the files of one job
    seq         long        number of the transition, 1 for the job's first; without gaps
    part, parts int         the event's index in its transition, from 0 on, and the number of the transition's events
    transition  string      random name of the transition, by which a writer finds its commit if the response was lost
    written_at  timestamp   writer's clock, UTC
    chain, run_id, kind, owner, attempt         as in `etl.ledger.events.Event`
    payload     string      the event's other fields as JSON

A transition is one file in one commit, so either all of its rows exist or none. `parts` and the gapless numbers show if
a restore, a deleted file or a DELETE has removed rows: the ledger is then damaged.

Rows are Arrow tables of arro3, which delta-rs itself returns. Every command opens the ledger, and on a local disk most
commands would otherwise import pyarrow and numpy only for this: a fifth of the time of a run with nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

from arro3.core import Array, DataType, Field, Schema, Table
from pydantic import TypeAdapter, ValidationError

from kseg.etl.errors import Refused
from kseg.etl.ledger import bases, events, expired_letters, schemas, state, table_shaped
from kseg.etl.ledger.fold import Entry
from kseg.etl.ledger.json_form import UNKNOWN_RULES
from kseg.etl.ledger.values import UNKNOWN_SNAPSHOT_FORMAT

FORMAT = 1
"""Version of this layout; ledgers of a higher version are refused."""

SCHEMA = Schema(
    [
        Field("job", DataType.string(), nullable=False),
        Field("seq", DataType.int64(), nullable=False),
        Field("part", DataType.int32(), nullable=False),
        Field("parts", DataType.int32(), nullable=False),
        Field("transition", DataType.string(), nullable=False),
        Field("written_at", DataType.timestamp("us", tz="UTC"), nullable=False),
        Field("chain", DataType.string(), nullable=False),
        Field("run_id", DataType.string(), nullable=False),
        Field("kind", DataType.string(), nullable=False),
        Field("owner", DataType.string(), nullable=False),
        Field("attempt", DataType.int64(), nullable=False),
        Field("payload", DataType.string(), nullable=False),
    ]
)

_TIME: Final = "written_at"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

IN_COLUMNS = {"chain", "run_id", "owner", "attempt"}

_OF_A_LATER_RELEASE = frozenset(
    {"unexpected_keyword_argument", "literal_error", UNKNOWN_SNAPSHOT_FORMAT, UNKNOWN_RULES}
)
"""Types of validation errors that values of a later release cause."""

AnyEvent = (
    events.Leased
    | events.Renewed
    | events.Released
    | events.Planned
    | events.Reconfigured
    | events.Replacing
    | events.Landed
    | events.Accounted
    | events.AccountFailed
    | events.AccountCleared
    | events.OffsetsCommitted
    | events.Finished
    | events.RunRefused
    | events.Abandoning
    | events.Abandoned
    | bases.BasePinned
    | events.BoundaryPinned
    | events.BoundaryNotPinned
    | events.OffsetsGivenUp
    | events.OffsetsReclaimed
    | events.GroupOffsetsAccepted
    | events.TopicSeen
    | events.SourceAccepted
    | events.TableAccepted
    | events.LedgerRebuilt
    | schemas.SchemasAdded
    | expired_letters.LettersExpired
    | table_shaped.TableShaped
    | state.Summary
)

KINDS: dict[str, type[events.Event]] = {event.KIND: event for event in get_args(AnyEvent)}


@dataclass(frozen=True, slots=True)
class Row:
    """An event, and the columns of its row that describe its transition."""

    entry: Entry
    part: int
    parts: int
    transition: str


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _adapter(event: type[events.Event]) -> TypeAdapter[Any]:
    adapter = _ADAPTERS.get(event.KIND)
    if adapter is None:  # compiled on first use: most processes need only a few
        adapter = _ADAPTERS[event.KIND] = TypeAdapter(event)
    return adapter


def encode(job: str, rows: Iterable[Row]) -> Table:
    """The rows as a table of SCHEMA."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for row in rows:
        event = row.entry.event
        # A summary has thousands of fields with default values. Other events have them in JSON, for users' queries.
        sparse = isinstance(event, state.Summary)
        payload = _adapter(type(event)).dump_json(event, exclude=IN_COLUMNS, exclude_defaults=sparse)
        values = {
            "job": job,
            "seq": row.entry.sequence,
            "part": row.part,
            "parts": row.parts,
            "transition": row.transition,
            _TIME: (row.entry.at - _EPOCH) // _MICROSECOND,
            "chain": event.chain,
            "run_id": event.run_id,
            "kind": event.KIND,
            "owner": event.owner,
            "attempt": event.attempt,
            "payload": payload.decode(),
        }
        for name, value in values.items():
            columns[name].append(value)
    return Table.from_arrays([_array(name, column) for name, column in columns.items()], schema=SCHEMA)


def _array(name: str, column: Sequence[Any]) -> Array:
    """The inverse of `column_values`."""
    kind = SCHEMA.field(name).type
    return Array(column, DataType.int64()).cast(kind) if name == _TIME else Array(column, kind)


def column_values(name: str, table: Table) -> list[Any]:
    """The values of a column; times as microseconds since the epoch."""
    column = table.column(name)
    return list((column.cast(DataType.int64()) if name == _TIME else column).to_pylist())


def without_copies(table: Table) -> Table:
    """The table without duplicate rows, in its order."""
    rows = dict.fromkeys(zip(*(column_values(name, table) for name in SCHEMA.names), strict=True))
    columns = zip(SCHEMA.names, zip(*rows, strict=True) if rows else [()] * len(SCHEMA.names), strict=True)
    return Table.from_arrays([_array(name, column) for name, column in columns], schema=SCHEMA)


def time_of(microseconds: int) -> datetime:
    """The time of this many microseconds since the epoch, in UTC."""
    return _EPOCH + microseconds * _MICROSECOND


def transition_rows(batch: Sequence[events.Event], at: datetime, sequence: int, transition: str) -> list[Row]:
    """One transition's events as rows."""
    return [
        Row(Entry(event, at, sequence), part=part, parts=len(batch), transition=transition)
        for part, event in enumerate(batch)
    ]


def decode(job: str, table: Table) -> list[Row]:
    """The rows in the order of the ledger, without duplicates.

    A transition's rows contain its random name, so equal rows are copies of one row. Two concurrent OPTIMIZE of the
    ledger's table make such copies (delta-rs 1.6.6 lets both commit).

    Raises:
        Refused: `ledger-newer` if this release does not know a kind or field, `ledger-damaged` if a row cannot be
            parsed.
    """
    columns = [column_values(name, table) for name in SCHEMA.names]
    rows = [_row(job, dict(zip(SCHEMA.names, values, strict=True))) for values in zip(*columns, strict=True)]
    # A summary has the same number as the last transition that it replaces, and is sorted after it.
    rows.sort(key=lambda row: (row.entry.sequence, row.entry.event.KIND == state.Summary.KIND, row.part))
    return [row for before, row in zip([None, *rows], rows, strict=False) if row != before]


def _row(job: str, values: dict[str, Any]) -> Row:
    kind, sequence = values["kind"], values["seq"]
    event_type = KINDS.get(kind)
    if event_type is None:
        raise Refused.of("ledger-newer", {"kind": kind}, case="kind", job=job, sequence=sequence)
    try:
        event = _adapter(event_type).validate_json(values["payload"])
    except ValidationError as error:
        newer = any(fault["type"] in _OF_A_LATER_RELEASE for fault in error.errors())
        raise Refused.of(
            "ledger-newer" if newer else "ledger-damaged",
            {"kind": kind, "error": error.errors()[0]["msg"]},
            case="event",
            job=job,
            sequence=sequence,
        ) from error
    event = replace(event, **{name: values[name] for name in IN_COLUMNS})
    return Row(Entry(event, time_of(values[_TIME]), sequence), values["part"], values["parts"], values["transition"])

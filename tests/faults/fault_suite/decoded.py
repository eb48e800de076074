"""A job beside the others whose values are Avro of a schema registry: typed columns, and dead letters for what is none.

Each record must be in one of the two tables, in the right one, and its columns must be what fastavro reads.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from fault_suite.journal import Address, Partition, digest
from fault_suite.oracle import Content, read_table

BAD = 0.03
"""The share of values that cannot be decoded."""

COLUMNS = ("id", "note", "amount")

Read = Callable[[bytes | None], tuple[Any, ...] | None]
"""The columns of a value; None where it is none."""

OfRun = tuple[str, Content]
"""A row, or a dead letter, with its run."""

_ADDRESS = ["_kseg_topic", "_kseg_partition", "_kseg_offset"]
_KEPT = ["_kseg_key", "_kseg_value", "_kseg_timestamp", "_kseg_headers"]
_DEAD = ["topic", "partition", "offset", "key", "value", "timestamp", "headers"]

NO_SUCH_SCHEMA = 0x7FFFFFF0


def _schema(*fields: tuple[str, Any]) -> dict[str, Any]:
    listed = [{"name": name, "type": kind, **({"default": None} if "null" in kind else {})} for name, kind in fields]
    return {"type": "record", "name": "Event", "namespace": "faults", "fields": listed}


SCHEMAS = (
    _schema(("id", "int"), ("note", "string")),
    _schema(("id", "long"), ("note", "string"), ("amount", ["null", "long"])),
)


class Events:
    """The values of one topic, and how they read. registry: where its schemas are registered."""

    def __init__(self, registry: str, topic: str) -> None:
        self.topic = topic
        with SchemaRegistryClient({"url": registry}) as client:
            ids = [client.register_schema(f"{topic}-value", Schema(json.dumps(one), "AVRO")) for one in SCHEMAS]
        self._schemas = dict(zip(ids, map(fastavro.parse_schema, SCHEMAS), strict=True))

    def value(self, choice: random.Random) -> bytes | None:
        """One at random: of either schema, now and then a tombstone, or bytes that are of none."""
        kind = choice.random()
        if kind < 0.02:
            return None
        number = choice.choice(sorted(self._schemas))
        if kind < 0.02 + BAD / 2:
            number = NO_SUCH_SCHEMA
        record = {"id": choice.randrange(1 << 30), "note": "n" * choice.randrange(50), "amount": choice.randrange(9)}
        written = io.BytesIO()
        fastavro.schemaless_writer(written, self._schemas.get(number, next(iter(self._schemas.values()))), record)
        data = b"\0" + number.to_bytes(4, "big") + written.getvalue()
        return data[:-1] if kind > 1 - BAD / 2 else data

    def read(self, value: bytes | None) -> tuple[Any, ...] | None:
        """The columns of a value; None where it is none."""
        if value is None:
            return (None, None, None)
        schema = self._schemas.get(int.from_bytes(value[1:5], "big"))
        if schema is None:
            return None
        stream = io.BytesIO(value[5:])
        try:
            record: Any = fastavro.schemaless_reader(stream, schema, None)
        except (EOFError, IndexError, ValueError):
            return None
        return None if stream.read(1) else tuple(record.get(name) for name in COLUMNS)

    def job(self, registry: str, table: str) -> dict[str, Any]:
        """The sections of the job file. registry: as drivers reach it."""
        value = {"format": "avro", "schema": "registry"}
        keep = ["key", "value", "timestamp", "headers"]
        return {
            "registry": {"url": registry},
            "decode": {"value": value, "on_error": "dead_letter", "keep": keep},
            "sink": {"path": table, "dead_letters": {"max": "100%"}},
        }


@dataclass
class DecodedTables:
    """The tables of such a job, as `oracle.Tables` are: path has the typed rows, dead the others.

    runs_of: the runs of backfills by their mode. The table of dead letters is a log: each replacing one adds its
    letter, and the older ones stay.
    """

    path: str
    dead: str
    events: Events
    runs_of: Callable[[str], set[str]] = lambda _: set()

    def offsets(self) -> dict[Partition, Counter[int]]:
        found: dict[Partition, Counter[int]] = defaultdict(Counter)
        for path, columns in ((self.path, _ADDRESS), (self.dead, _DEAD[:3])):
            rows = read_table(path, columns)
            for topic, partition, offset in (
                zip(*(rows[one].to_pylist() for one in columns), strict=True) if rows else ()
            ):
                found[topic, partition][offset] += 1
        return found

    def contents(self) -> dict[Address, list[Content]]:
        """Every row by its address; one that is wrong in itself has a content that no record has."""
        found: dict[Address, list[Content]] = defaultdict(list)
        for at, rows in typed_rows(self.path, COLUMNS, self.events.read).items():
            found[at] += [content for _, content in rows]
        replacing, appending = self.runs_of("replace"), self.runs_of("append")
        for at, letters in dead_letters(self.dead, self.events.read).items():
            found[at] += standing(letters, replacing, appending)
        return found


def typed_rows(path: str, columns: Sequence[str], read: Read) -> dict[Address, list[OfRun]]:
    """The rows of a table by their addresses. columns: those that `read` gives of the value that is kept in the row."""
    wanted = [*_ADDRESS, *_KEPT, "_kseg_run", *columns]
    found: dict[Address, list[OfRun]] = defaultdict(list)
    for row in _rows(read_table(path, wanted), wanted, "_kseg_timestamp"):
        right = read(row[4]) == tuple(row[8:])
        found[row[0], row[1], row[2]].append((row[7], _content(row[3], row[4], row[5], row[6], right)))
    return found


def dead_letters(path: str, read: Read) -> dict[Address, list[OfRun]]:
    """Dead letters by their addresses; one of a value that `read` reads is wrong."""
    wanted = [*_DEAD, "_kseg_run"]
    found: dict[Address, list[OfRun]] = defaultdict(list)
    for row in _rows(read_table(path, wanted), wanted, "timestamp"):
        right = read(row[4]) is None
        found[row[0], row[1], row[2]].append((row[7], _content(row[3], row[4], row[5], row[6], right)))
    return found


def standing(letters: list[tuple[str, Content]], replacing: set[str], appending: set[str]) -> list[Content]:
    """The letters of one address as rows of a table in which a replacement takes the place of what was there.

    letters: by their runs. One of each replacing run is left out, but for one where no run but appending ones has
    landed the record before; a second letter of the same run stays, and is found as a duplicate.
    """
    first_of_run: dict[str, Content] = {}
    kept: list[Content] = []
    for run, content in letters:
        if run in replacing and run not in first_of_run:
            first_of_run[run] = content
        else:
            kept.append(content)
    landed_first = any(run not in replacing and run not in appending for run, _ in letters)
    return kept if landed_first else [*list(first_of_run.values())[-1:], *kept]


def _rows(table: pa.Table | None, columns: list[str], time: str) -> Any:
    if table is None:
        return ()
    stamps = pc.cast(pc.cast(table[time], pa.timestamp("ms", "UTC")), pa.int64())
    table = table.set_column(table.schema.get_field_index(time), time, stamps)
    return zip(*(table[one].to_pylist() for one in columns), strict=True)


def _content(key: bytes | None, value: bytes | None, time: int, headers: Any, right: bool) -> Content:
    listed = tuple((one["key"], one["value"]) for one in headers or ())
    return (digest(key, value) if right else b"wrong", time, listed)

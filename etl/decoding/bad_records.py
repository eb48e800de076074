"""Records that cannot be decoded, or break an expectation: how a task handles them (`decode.on_error`).

    fail          UndecodablePayload with the record's address
    set_null      a row with nulls in place of what could not be decoded
    dead_letter   a row of the dead-letter table in place of the row, with the record's bytes and the error

Each attempt of a task has its own `BadRecords`, which counts bad records and passes dead letters to their writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import TooManyDeadLetters, TooManyNulled
from kseg.segment_reader.decode.schema import HEADER, RAW_HEADER, RAW_HEADERS, TIMESTAMP

OnError = Literal["fail", "set_null", "dead_letter"]

#: A record that has no row: its address, its bytes as they were read, and why. source: `key`, `value`, `headers` or
#: `row` (what broke an expectation). error: a name of `payload.decoder.Status`, or a class of `etl.decoding`
#: (docs/guides). path: the place within the payload, or the column. rawHeaders: null if all names of headers are UTF-8,
#: so that `headers` has them as they are; tables of earlier releases lack the column until a run adds it.
DEAD_LETTERS: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER)),
        pa.field("schema_id", pa.int32()),
        pa.field("source", pa.string()),
        pa.field("error", pa.string()),
        pa.field("path", pa.string()),
        pa.field("message", pa.string()),
        pa.field(RAW_HEADERS, pa.list_(RAW_HEADER)),
    ]
)

TRANSFORM: Final = "TRANSFORM"
"""The error class of a dead letter that a step of the transform raised for."""

RECORD_COLUMNS: Final = (
    *("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"),
    RAW_HEADERS,
)
"""The columns of a dead letter that come from its record."""

_MOST_ID: Final = 2**31 - 1
"""The largest value of the column `schema_id`."""

MAX_EXAMPLES: Final = 3
"""Errors that a task lists, for messages."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """Why one record has no row, or a row with nulls. row: its number in the batch."""

    row: int
    source: str
    error: str
    path: str
    message: str
    schema_id: int | None = None


class LetterWriter(Protocol):
    """The writer of a task's dead letters (`etl.tables.parquet.side_table.TaskFiles`).

    wants_reasons: whether every dead letter needs its reason; if not, only the first ones have one.
    """

    @property
    def wants_reasons(self) -> bool: ...

    def write(self, batch: pa.RecordBatch) -> None: ...


class BadRecords:
    """The bad records that one attempt of a task finds when it decodes records.

    letters: the writer; None if dead letters are only counted, because their table has landed. most, most_nulled: the
    maximum of dead letters, and of rows with nulls, in the whole run; a task that exceeds it alone fails at once.
    dead_examples, nulled_examples: the first dead letters, and the first rows with nulls, a line each.
    """

    def __init__(
        self, letters: LetterWriter | None = None, most: int | None = None, most_nulled: int | None = None
    ) -> None:
        self._letters, self._most, self._most_nulled = letters, most, most_nulled
        self._counts = DecodingCounts()
        self._routed: Counter[str] = Counter()
        self.dead_examples: list[str] = []
        self.nulled_examples: list[str] = []

    @property
    def counts(self) -> DecodingCounts:
        return self._counts

    @property
    def most_more(self) -> int | None:
        """How many more dead letters are allowed; None: any number."""
        return None if self._most is None else max(self._most - self._counts.dead, 0)

    def enough(self, on_error: OnError) -> int | None:
        """With how many more bad records the run is refused; None: with no number of them."""
        if on_error == "fail":
            return 1
        most = self.most_more if on_error == "dead_letter" else self._most_nulled
        found = self._counts.nulled if on_error == "set_null" else 0
        return None if most is None else max(most - found, 0) + 1

    def dead(self, batch: pa.RecordBatch, rows: Sequence[int], explain: Callable[[int], BadRecord]) -> None:
        """Make dead letters of the records in these rows of a batch. Raises TooManyDeadLetters.

        explain: returns why a record has no row. It is slow, so it is called only for examples if that is enough: if no
        reasons are written.
        """
        if not rows:
            return
        self.refuse_dead(batch, rows, explain)
        self.count(DecodingCounts(dead=len(rows)))
        explained = len(rows)
        if self._letters is None or not self._letters.wants_reasons:
            explained = min(MAX_EXAMPLES, explained)
        found = [explain(row) for row in rows[:explained]]
        found += [BadRecord(row, "", "", "", "") for row in rows[explained:]]
        for bad in found[: MAX_EXAMPLES - len(self.dead_examples)]:
            self.dead_examples.append(example(batch, bad))
        if self._letters is not None:
            self._letters.write(dead_letters(batch, found))

    def refuse_dead(self, batch: pa.RecordBatch, rows: Sequence[int], explain: Callable[[int], BadRecord]) -> None:
        """Raises TooManyDeadLetters if these rows of a batch are more than the run may have as dead letters.

        explain: as of `dead`; called for examples.
        """
        if self._most is not None and (dead := self._counts.dead + len(rows)) > self._most:
            for row in rows[: MAX_EXAMPLES - len(self.dead_examples)]:
                self.dead_examples.append(example(batch, explain(row)))
            raise TooManyDeadLetters(dead, self._most, self.dead_examples)

    def refuse_nulls(self, batch: pa.RecordBatch, rows: Sequence[int], explain: Callable[[int], BadRecord]) -> None:
        """Raises TooManyNulled if nulls in these rows of a batch are more than the run may have.

        explain: as of `dead`; called for examples.
        """
        if self._most_nulled is not None and (nulled := self._counts.nulled + len(rows)) > self._most_nulled:
            self.show_nulls(batch, rows, explain)
            raise TooManyNulled(nulled, self._most_nulled, self.nulled_examples)

    def show_nulls(self, batch: pa.RecordBatch, rows: Sequence[int], explain: Callable[[int], BadRecord]) -> None:
        """Keep the first of these rows of a batch as examples of nulls. explain: as of `dead`."""
        for row in rows[: MAX_EXAMPLES - len(self.nulled_examples)]:
            self.nulled_examples.append(example(batch, explain(row)))

    def count(self, counts: DecodingCounts) -> None:
        self._counts += counts

    @property
    def routed(self) -> dict[str, int]:
        """Number of rows by route, if routes do not depend on the topic alone; otherwise empty."""
        return {route: rows for route, rows in sorted(self._routed.items()) if rows}

    def route(self, routes: pa.Array, sign: int = 1) -> None:
        """Count rows by their routes (strings). sign: -1 for rows that were counted and then became dead letters."""
        for found in pc.value_counts(routes).to_pylist():
            if found["values"] is not None:
                self._routed[found["values"]] += sign * found["counts"]


def dead_letters(batch: pa.RecordBatch, found: Sequence[BadRecord]) -> pa.RecordBatch:
    """These records of a batch as rows of `DEAD_LETTERS`, in the batch's order. batch: with all columns of a record."""
    in_order = sorted(found, key=lambda bad: bad.row)
    rows = pa.array([bad.row for bad in in_order], pa.int64())
    there = batch.select([name for name in RECORD_COLUMNS if name in batch.schema.names]).take(rows)
    columns = [
        there.column(field.name).cast(field.type)
        if field.name in there.schema.names
        else pa.array([_why(bad, field.name) for bad in in_order], field.type)
        for field in DEAD_LETTERS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTERS)


def _why(bad: BadRecord, name: str) -> Any:
    """What a column of a dead letter has of the error. Ids of 8 bytes that the column cannot have are null: the message
    has those that the registry does not know."""
    if name == "schema_id" and bad.schema_id is not None and bad.schema_id > _MOST_ID:
        return None
    return getattr(bad, name, None)


def example(batch: pa.RecordBatch, bad: BadRecord) -> str:
    """One bad record in a line."""
    topic, partition, offset = (batch.column(name)[bad.row].as_py() for name in ("topic", "partition", "offset"))
    at = f" at {bad.path}" if bad.path else ""
    return f"{topic}-{partition} offset {offset}: {bad.source}{at}: {bad.error}: {bad.message}"

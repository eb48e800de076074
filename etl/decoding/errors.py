"""Errors of decoding. They are sent from a worker to the driver (`etl.tasks.error_transport`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kseg.etl.errors import KsegError, Refused, listed

if TYPE_CHECKING:
    import pyarrow as pa


def address_of(records: pa.RecordBatch, row: int) -> dict[str, Any]:
    """Topic, partition and offset of a record."""
    return {name: records.column(name)[row].as_py() for name in ("topic", "partition", "offset")}


class UnknownSchemas(KsegError):
    """Records name schemas that the run's plan lacks: the driver fetches them from the registry, and reads again.

    found: ids and GUIDs as text, by lineage. The address is that of the first such record.
    """

    def __init__(
        self, source: str, found: Mapping[str, tuple[str, ...]], topic: str, partition: int, offset: int
    ) -> None:
        schemas = listed(key for keys in found.values() for key in keys)
        super().__init__(
            f"the {source} names a schema that the plan does not know: {schemas}",
            remedy="run the job or the query again: it asks the registry when it is planned",
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.source = source
        self.found = dict(found)


class UndecodablePayload(Refused):
    """A key or value that its declared format or schema does not fit, or headers with a name that is refused.

    `status`: a name of `payload.decoder.Status`, or `HEADER_NAME`.
    """

    def __init__(
        self, source: str, status: str, path: str, message: str, topic: str, partition: int, offset: int
    ) -> None:
        self._say(
            "payload-undecodable",
            {"source": source, "at": f" at {path}" if path else "", "status": status, "message": message},
            case="headers" if source == "headers" else "key or value",
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.source = source
        self.status = status
        self.path = path


class ExpectationBroken(Refused):
    """A value of a decoded column that breaks its condition in `decode.expect`."""

    def __init__(self, column: str, message: str, topic: str, partition: int, offset: int) -> None:
        self._say(
            "expectation-broken",
            {"column": column, "message": message},
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.column = column


class NoRouteForRecord(Refused):
    """A record for which `sink.routes` has no table. route_by: what decides (`sink.route_by`)."""

    def __init__(self, route_by: str, message: str, topic: str, partition: int, offset: int) -> None:
        self._say(
            "record-without-route",
            {"route_by": route_by, "message": message},
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.route_by = route_by


class TooManyDeadLetters(Refused):
    """More records of a run cannot be decoded than `sink.dead_letters.max` allows; nothing was committed.

    dead: how many, in the whole run or in the task that first exceeded the limit. most: the limit.
    """

    def __init__(self, dead: int, most: int, examples: Sequence[str] = (), run: str | None = None) -> None:
        at_least = "" if run is not None else "at least "  # a task does not know of the others
        first = "".join(f"\n  {line}" for line in examples)
        self._say("too-many-dead-letters", {"at_least": at_least, "dead": dead, "most": most, "first": first}, run=run)
        self.dead = dead
        self.most = most
        self.examples = tuple(examples)


class TooManyNulled(Refused):
    """More records of a run have nulls in place of what cannot be decoded than `decode.max_nulled` allows; nothing was
    committed.

    nulled: how many, in the whole run or in the task that first exceeded the limit. most: the limit. columns: how many
    in each column, as far as they are known.
    """

    def __init__(
        self,
        nulled: int,
        most: int,
        examples: Sequence[str] = (),
        run: str | None = None,
        columns: Mapping[str, int] | None = None,
    ) -> None:
        at_least = "" if run is not None else "at least "  # a task does not know of the others
        first = "".join(f"\n  {line}" for line in examples)
        by_column = f" ({shown_columns(columns)})" if columns else ""
        self._say(
            "too-many-nulled",
            {"at_least": at_least, "nulled": nulled, "by_column": by_column, "most": most, "first": first},
            run=run,
        )
        self.nulled = nulled
        self.most = most
        self.examples = tuple(examples)


def shown_columns(columns: Mapping[str, int]) -> str:
    """Columns with their numbers of nulled records, most first."""
    ordered = sorted(columns.items(), key=lambda item: (-item[1], item[0]))
    return listed(f"{column} {count:,}" for column, count in ordered)

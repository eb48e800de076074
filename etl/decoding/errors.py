"""Errors of decoding. They are sent from a worker to the driver (`etl.spark.error_transport`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kseg.etl.errors import KsegError, Refused

if TYPE_CHECKING:
    import pyarrow as pa


def address_of(records: pa.RecordBatch, row: int) -> dict[str, Any]:
    """Topic, partition and offset of a record."""
    return {name: records.column(name)[row].as_py() for name in ("topic", "partition", "offset")}


class UnknownSchemas(KsegError):
    """Records name schemas that the run's plan does not know: the driver asks the registry, and reads again.

    found: ids and GUIDs as text, by lineage. The address is of the first such record.
    """

    def __init__(
        self, source: str, found: Mapping[str, tuple[str, ...]], topic: str, partition: int, offset: int
    ) -> None:
        listed = ", ".join(key for keys in found.values() for key in keys[:10])
        super().__init__(
            f"the {source} names a schema that the plan does not know: {listed}",
            remedy="run the job again",
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.source = source
        self.found = dict(found)


class UndecodablePayload(Refused):
    """A key or value that its declared format or schema does not fit. `status`: a name of `payload.decoder.Status`."""

    def __init__(
        self, source: str, status: str, path: str, message: str, topic: str, partition: int, offset: int
    ) -> None:
        at = f" at {path}" if path else ""
        super().__init__(
            "payload-undecodable",
            f"the {source}{at} cannot be decoded ({status}): {message}",
            remedy=f"correct decode.{source} in the job file, then abandon the run (kseg repair) and run again",
            topic=topic,
            partition=partition,
            offset=offset,
        )
        self.source = source
        self.status = status
        self.path = path

"""Errors of decoding. They are sent from a worker to the driver (`etl.spark.error_transport`)."""

from __future__ import annotations

from kseg.etl.errors import Refused


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

"""How far, and for how long, an open transaction holds read_committed below the high watermark.

The age comes from the first undecided batch itself, whose header carries its records' largest timestamp.
"""

from __future__ import annotations

import time

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.run.report import OpenTransactionLag
from kseg.etl.source.logs import UNREADABLE, Logs


def open_transaction_lags(logs: Logs, seen: dict[TopicPartition, ev.HeldBack]) -> list[OpenTransactionLag]:
    """One entry for each partition whose last stable offset is below its high watermark."""
    return [
        OpenTransactionLag(
            topic=tp.topic,
            partition=tp.partition,
            last_stable_offset=held.last_stable_offset,
            high_watermark=held.high_watermark,
            records=held.high_watermark - held.last_stable_offset,
            seconds=_age(logs, tp, held.last_stable_offset),
        )
        for tp, held in sorted(seen.items())
    ]


def _age(logs: Logs, tp: TopicPartition, offset: int) -> float | None:
    """Seconds since the batch at this offset, by its timestamp; None where it has none, or cannot be read."""
    try:
        written = logs.batch_time(tp, offset)
    except UNREADABLE:
        return None  # it is only shown to users: nothing depends on it
    return None if written is None else max(0.0, time.time() - written / 1000)

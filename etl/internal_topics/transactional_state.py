"""The transaction coordinator's state of a transactional id, from its records in `__transaction_state`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kseg.client.protocol.embedded.internal_topics import TRANSACTION_STATE, decode_internal
from kseg.client.protocol.embedded.transaction_records import TransactionLogValue, TransactionStatus
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.internal_topics.errors import UndecodableRecord
from kseg.etl.internal_topics.key_places import find
from kseg.etl.internal_topics.locations import KeyPlace, LogDirs
from kseg.etl.internal_topics.records_by_key import KeyChange, changes, time_of


@dataclass(frozen=True, slots=True)
class TransactionalIdState:
    """A transactional id. `state` in Kafka's words, "Dead" where nothing is known of it (or it was deleted).

    Ids and epochs are -1 where there are none; `next_…` are those that a client of the second protocol goes on with
    (KIP-890). Times are ms since 1970, -1 for none.
    """

    transactional_id: str
    place: KeyPlace
    state: str = "Dead"
    producer_id: int = -1
    producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    next_producer_epoch: int = -1
    timeout_ms: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    started: int = -1
    last_update: int = -1
    client_transaction_version: int = 0
    record_offset: int = -1

    def to_json(self) -> dict[str, Any]:
        """All of it; times as ISO 8601, None for what there is not."""
        values = {name: None if value == -1 else value for name, value in asdict(self).items() if name != "place"}
        values["partitions"] = [str(tp) for tp in self.partitions]
        return (
            values | self.place.to_json() | {"started": time_of(self.started), "last_update": time_of(self.last_update)}
        )


def transactional_id_state(
    log_dirs: LogDirs, transactional_id: str, *, partitions: int | None = None
) -> TransactionalIdState:
    """The latest state in the files.

    partitions: how many `__transaction_state` has, where the folders do not show it.

    Raises:
        ConfigurationError: as `key_places.place_of`.
        LogFileError, RecordFormatError, UndecodableRecord: the files are damaged, or newer than this release knows.
    """

    def last_of(place: KeyPlace) -> KeyChange | None:
        last: KeyChange | None = None
        for change in changes(place.replica, transactional_id):
            if isinstance(change, KeyChange):
                last = change
        return last

    place, last = find(
        log_dirs, TRANSACTION_STATE, transactional_id, partitions, last_of, lambda found: found is not None
    )
    if last is None or last.value is None:
        return TransactionalIdState(transactional_id, place)
    try:
        value = decode_internal(TRANSACTION_STATE, last.key, last.value).value
    except DecodeError as fault:
        raise UndecodableRecord.of(place, last.offset, str(fault)) from fault
    if not isinstance(value, TransactionLogValue):
        raise UndecodableRecord.of(place, last.offset, "its type or version is newer than this release supports")
    return TransactionalIdState(
        transactional_id,
        place,
        _word(value.transaction_status),
        value.producer_id,
        value.producer_epoch,
        value.previous_producer_id,
        value.next_producer_id,
        value.next_producer_epoch,
        value.transaction_timeout_ms,
        tuple(
            TopicPartition(one.topic, number)
            for one in value.transaction_partitions or ()
            for number in one.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        last.offset,
    )


def _word(status: int) -> str:
    """`PREPARE_COMMIT` is "PrepareCommit", as DescribeTransactions has it."""
    try:
        name = TransactionStatus(status).name
    except ValueError:
        return f"Unknown({status})"
    return "".join(part.capitalize() for part in name.split("_"))

"""The identity of a producer at brokers: producer id and epoch, of its own or of a transactional id.

An idempotent producer asks any broker for an id of its own (InitProducerId without a transactional id); a transactional
one gets the id that belongs to its transactional id from the coordinator (`client.transactions.transaction`). KIP-98.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import error_from_code
from kseg.client.protocol.messages.produce import InitProducerIdRequest
from kseg.client.protocol.versions import TRANSACTION_VERSION
from kseg.client.retry import Deadline

_SECOND_PROTOCOL: Final = 2


def by_second_protocol(finalized_features: Mapping[str, int]) -> bool:
    """Whether transactions use the second protocol (KIP-890): decided by the finalized `transaction.version` alone."""
    return finalized_features.get(TRANSACTION_VERSION, 0) >= _SECOND_PROTOCOL


@dataclass(frozen=True, slots=True)
class TransactionIdentity:
    """The producer's fields of a transaction's record batches, and the transaction's protocol. Picklable, so that other
    processes can use it.

    Producers that share it must write to different partitions: sequence numbers are counted per partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    finalized_features: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def second_protocol(self) -> bool:
        """Whether the transaction uses the second protocol (KIP-890)."""
        return by_second_protocol(self.finalized_features)


def init_producer_id(cluster: Cluster) -> tuple[int, int]:
    """Producer id and epoch for an idempotent producer without transactions, from any broker."""
    return cluster.retry(lambda deadline: init_producer_id_now(cluster, deadline))


def init_producer_id_now(cluster: Cluster, deadline: Deadline) -> tuple[int, int]:
    """`init_producer_id` for one try: errors are raised at once."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    # If the response is lost, an id remains unused.
    response = cluster.send_now(InitProducerIdRequest, lambda _: request, deadline, repeatable=True)
    if response.error_code:
        raise error_from_code(response.error_code, "InitProducerId")
    return response.producer_id, response.producer_epoch

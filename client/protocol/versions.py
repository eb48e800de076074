"""Chooses the version of an API to use with a broker, by its own range and by the rules about it that Kafka's
definitions do not have.

The rule is the highest version that both sides have. The exceptions (those by API are in the requests' classes:
`FOR_CLIENTS`, `FIRST_TRANSACTION_PROTOCOL`, `BY_TOPIC_NAME`):

- AddPartitionsToTxn from version 4 on is for brokers among themselves; clients stay at 3 (KIP-890).
- In a transaction, Produce above 11 and TxnOffsetCommit and EndTxn above 4 mean the second transaction protocol
  (KIP-890): only when the cluster's *finalized* feature transaction.version is 2 or more. That a broker supports such a
  version says nothing about it. EndTxn 5 then returns the producer id and epoch of the next transaction.
- Fetch above 12, Produce above 12, and OffsetCommit and OffsetFetch above 9 name topics by id alone (KIP-516): only
  when all topic ids are known.
- OffsetCommit and OffsetFetch 0 use ZooKeeper, which no later version reads; ListOffsets 0 returns where segments
  start, not offsets by time. They are used only if a caller requests the version by number.
- Metadata below 4 creates every topic that it names: see `asking_creates_topics`.
- OffsetFetch below 7 cannot ask for stable offsets: see `can_require_stable`.

Versions that Kafka calls unstable have no definition here, so they are never chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kseg.client.protocol.api import Api
from kseg.client.protocol.errors import UnsupportedVersionError

TRANSACTION_VERSION = "transaction.version"


def negotiate(
    api: Api[Any],
    broker_ranges: Mapping[int, tuple[int, int]],
    *,
    finalized_features: Mapping[str, int],
    topic_ids_known: bool,
    transactional: bool = True,
) -> int:
    """The version to use.

    `broker_ranges` maps API keys to (lowest, highest), `finalized_features` names to levels, both as the broker of this
    connection returned them with ApiVersions. `topic_ids_known` is about the topics that the request names,
    `transactional` about a Produce request: without a transactional id the transaction's protocol does not matter.
    Raises `UnsupportedVersionError` when there is no version left.
    """
    theirs = broker_ranges.get(api.key)
    if theirs is None:
        raise UnsupportedVersionError("the broker does not offer this API", message=api.name, ours=api.versions)
    cap = _cap(api, finalized_features, topic_ids_known=topic_ids_known, transactional=transactional)
    highest = min(api.versions.highest, theirs[1], cap)
    lowest = max(api.versions.lowest, api.request.FOR_CLIENTS.lowest)
    if highest < max(lowest, theirs[0]):
        ours = f"versions {lowest} to {api.versions.highest} are supported"
        capped = f", and no version above {cap} may be used here" if cap < api.versions.highest else ""
        raise UnsupportedVersionError(
            f"{ours}, the broker supports {theirs[0]} to {theirs[1]}{capped}",
            message=api.name,
            ours=api.versions,
            theirs=theirs,
        )
    return highest


def _cap(api: Api[Any], finalized_features: Mapping[str, int], *, topic_ids_known: bool, transactional: bool) -> int:
    request = api.request
    caps = [request.FOR_CLIENTS.highest]
    first_protocol = finalized_features.get(TRANSACTION_VERSION, 0) < 2
    if first_protocol and (transactional or api.name != "Produce"):
        caps.append(request.FIRST_TRANSACTION_PROTOCOL.highest)
    if not topic_ids_known:
        caps.append(request.BY_TOPIC_NAME.highest)
    return min(caps)


def asking_creates_topics(metadata_version: int) -> bool:
    """Whether a Metadata request of this version creates the topics it names, if `auto.create.topics.enable` is set.

    From version 4 on `allow_auto_topic_creation=False` prevents it. Older versions cannot name a topic without creating
    it: request all topics (`all_topics`) and filter.
    """
    return metadata_version < 4


def all_topics(metadata_version: int) -> list[Any] | None:
    """The value of `MetadataRequest.topics` that requests all of them: an empty list in version 0, then null."""
    return [] if metadata_version == 0 else None


def can_require_stable(offset_fetch_version: int) -> bool:
    """Whether OffsetFetch of this version can wait for open transactions (KIP-447): the flag is an error below 7."""
    return offset_fetch_version >= 7

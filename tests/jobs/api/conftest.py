"""What the live tests of single APIs share: a broker with a topic, and calls that are judged by their error codes.

A test module has one function an API, named after it in snake case: it makes what the call needs, calls, and looks at
what the answer means. It is run in every version of today (those that Kafka 4 has not dropped).
"""

from __future__ import annotations

import base64
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

import pytest

from kseg.client import ClientConfig, Cluster
from kseg.client.errors import UnsupportedVersion
from kseg.client.protocol.api import Api
from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.api import destination
from kseg.jobs.api.calling import call
from kseg.segment_reader.encode.batches import Record, encode_batch


class Broker(Protocol):
    bootstrap_servers: str

    def topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


#: Below these topics stand in a request by name, from them on by id.
BY_ID = {"Produce": 13, "Fetch": 13, "OffsetCommit": 10, "OffsetFetch": 10}


def snake(api: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in api).lstrip("_")


API_OF: dict[str, Api[Any]] = {snake(api.name): api for api in API_BY_NAME.values() if api.scope == "client"}


def current(api: Api[Any]) -> list[int]:
    """The versions that Kafka 4 has not dropped."""
    versions = range(api.versions.lowest, api.versions.highest + 1)
    return [version for version in versions if not api.deprecated.has(version)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`function` with `version`: each function of the module that is named after an API, in every version of today."""
    if {"function", "version"} <= set(metafunc.fixturenames):
        names = vars(metafunc.module)
        found = [(names[name], version) for name, api in API_OF.items() if name in names for version in current(api)]
        ids = [f"{API_OF[function.__name__].name}-v{version}" for function, version in found]
        metafunc.parametrize(("function", "version"), found, ids=ids)


@dataclass
class Live:
    """A broker with a topic of two partitions, the first of which holds one record."""

    kafka: Broker
    cluster: Cluster
    topic: str
    topic_id: str = ""
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def ask(
        self, api: str, document: dict[str, Any], version: int | None = None, *, to: str | None = None, fails: str = ""
    ) -> Any:
        """The answer. Its error codes are none, or, with `fails`, these (names, divided by blanks)."""
        deadline = time.monotonic() + 120
        while True:
            found = API_BY_NAME[api]
            target = destination.parse(to) if to else None
            [outcome] = call(self.cluster, found, document, version=version, to=target)
            if outcome.error is not None:
                raise outcome.error
            codes = {str(named(outcome.answer, path)) for path, _ in outcome.codes}
            # What a coordinator or a controller needs a moment for, and what another test's change leads to.
            if outcome.exit_code != 4 or fails or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert codes <= set(fails.split()), f"{api} v{outcome.version}: {outcome.answer}"
        assert bool(codes) == bool(fails), f"{api} v{outcome.version}: {outcome.answer}"
        assert version is None or outcome.version == version
        return outcome.answer

    def try_out(self, function: Callable[[Live, int], None], version: int) -> None:
        """Call a function named after an API. An API that the broker does not offer is refused before it is sent."""
        api = API_OF[function.__name__]
        if api.key in self.offered():
            function(self, version)
        else:
            with pytest.raises(UnsupportedVersion):
                function(self, version)

    def offered(self) -> dict[int, tuple[int, int]]:
        return dict(self.cluster.retry(self.cluster.any_connection).versions.ranges)

    def eventually(self, wanted: Any, found: Callable[[], Any]) -> None:
        """A change is the controller's at once, and every broker's a moment later."""
        deadline = time.monotonic() + 120
        while found() != wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        assert found() == wanted

    @staticmethod
    def latest(api: str) -> int:
        return API_BY_NAME[api].versions.highest

    @staticmethod
    def records(**options: Any) -> str:
        """A batch of one record, too young to be removed while the tests run."""
        record = Record(b"k", b"v", timestamp=int(time.time() * 1000))
        return base64.b64encode(encode_batch([record], **options)).decode()

    @staticmethod
    def new_id() -> str:
        return base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")

    def new(self, what: str) -> str:
        return f"{what}-{os.getpid()}-{next(self.numbers)}"

    def named(self, api: str, version: int, name: str = "name") -> dict[str, str]:
        """The topic, by name or by id, as this version wants it."""
        return {"topicId": self.topic_id} if version >= BY_ID.get(api, 99) else {name: self.topic}

    def a_transaction(self) -> dict[str, Any]:
        """A producer with an id of its own: the fields that the APIs of transactions begin with."""
        transactional_id = self.new("transaction")
        answer = self.ask("InitProducerId", {"transactionalId": transactional_id, "transactionTimeoutMs": 60_000})
        return {
            "transactionalId": transactional_id,
            "producerId": answer["producerId"],
            "producerEpoch": answer["producerEpoch"],
        }

    def begin(self, version: int = 3) -> dict[str, Any]:
        """A transaction with a partition in it."""
        who = self.a_transaction()
        ids = {f"v3AndBelow{name[0].upper()}{name[1:]}": value for name, value in who.items()}
        topics = [{"name": self.topic, "partitions": [1]}]
        answer = self.ask("AddPartitionsToTxn", ids | {"v3AndBelowTopics": topics}, version)
        [result] = answer["resultsByTopicV3AndBelow"]
        assert result["resultsByPartition"] == [{"partitionIndex": 1, "partitionErrorCode": "NONE"}]
        return who

    def end(self, who: dict[str, Any], version: int = 4) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("EndTxn", who | {"committed": False}, version)
        return answer

    def a_group_with_offsets(self, version: int | None = None) -> str:
        group = self.new("group")
        version = self.latest("OffsetCommit") if version is None else version
        partitions = [{"partitionIndex": 0, "committedOffset": 5, "committedMetadata": "m"}]
        document = {"groupId": group, "topics": [self.named("OffsetCommit", version) | {"partitions": partitions}]}
        [topic] = self.ask("OffsetCommit", document, version)["topics"]
        assert topic["partitions"] == [{"partitionIndex": 0, "errorCode": "NONE"}]
        return group

    def join(self, version: int = 9) -> dict[str, Any]:
        """The only member of a new group, which waits for its assignment."""
        who = {"groupId": self.new("group"), "memberId": ""}
        subscription = {"version": 1, "topics": [self.topic]}
        document = who | {
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": subscription}],
            "sessionTimeoutMs": 120_000,  # no member of a busy machine is taken for dead
            "rebalanceTimeoutMs": 120_000,
        }
        if version >= 4:  # the broker gives the id first (KIP-394)
            refused = self.ask("JoinGroup", document, version, fails="MEMBER_ID_REQUIRED")
            document["memberId"] = refused["memberId"]
        answer = self.ask("JoinGroup", document, version)
        assert answer["leader"] == answer["memberId"]
        assert answer["protocolName"] == "range"
        [member] = answer["members"]
        if version >= 7:
            assert member["metadata"]["topics"] == [self.topic]
        else:  # without the protocol's type in the answer they are but bytes
            assert self.topic.encode() in base64.b64decode(member["metadata"])
        return {
            "groupId": who["groupId"],
            "memberId": answer["memberId"],
            "generationId": answer["generationId"],
        }

    def sync(self, member: dict[str, Any], version: int = 5) -> None:
        assignment = {"version": 1, "assignedPartitions": [{"topic": self.topic, "partitions": [0, 1]}]}
        document = member | {"assignments": [{"memberId": member["memberId"], "assignment": assignment}]}
        if version >= 5:
            document |= {"protocolType": "consumer", "protocolName": "range"}
        answer = self.ask("SyncGroup", document, version)
        if version >= 5:
            assert answer["assignment"]["assignedPartitions"] == [{"topic": self.topic, "partitions": [0, 1]}]
        else:
            assert self.topic.encode() in base64.b64decode(answer["assignment"])

    def leave(self, member: dict[str, Any], version: int = 5) -> None:
        who = {"memberId": member["memberId"]}
        document = {"groupId": member["groupId"]} | ({"members": [who]} if version >= 3 else who)
        self.ask("LeaveGroup", document, version)

    def share(self) -> dict[str, Any]:
        """A member of a new share group that has got the first partition."""
        group, member = self.new("share"), self.new_id()
        setting = {"name": "share.auto.offset.reset", "value": "earliest", "configOperation": "SET"}
        resource = {"resourceType": "GROUP", "resourceName": group, "configs": [setting]}
        self.ask("IncrementalAlterConfigs", {"resources": [resource]})
        asked = {"resourceType": "GROUP", "resourceName": group, "configurationKeys": [setting["name"]]}
        self.eventually(
            "earliest",
            lambda: self.ask("DescribeConfigs", {"resources": [asked]})["results"][0]["configs"][0]["value"],
        )
        who = {"groupId": group, "memberId": member}
        epoch, deadline = 0, time.monotonic() + 120
        while True:
            beat = who | {"memberEpoch": epoch} | ({"subscribedTopicNames": [self.topic]} if not epoch else {})
            answer = self.ask("ShareGroupHeartbeat", beat)
            epoch = answer["memberEpoch"]
            if answer["assignment"] and answer["assignment"]["topicPartitions"]:
                return who
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def share_fetch(self, who: dict[str, Any], version: int) -> tuple[int, int]:
        """Acquire the record; the range of offsets that was acquired."""
        place = {"topicId": self.topic_id, "partitions": [{"partitionIndex": 0}]}
        limits = {"maxWaitMs": 500, "minBytes": 1, "maxRecords": 10, "batchSize": 10}
        epoch, deadline = 0, time.monotonic() + 120
        while True:
            document = who | limits | {"shareSessionEpoch": epoch} | ({"topics": [place]} if not epoch else {})
            answer = self.ask("ShareFetch", document, version, to=f"leader:{self.topic}:0")
            epoch += 1
            for topic in answer["responses"]:
                for acquired in topic["partitions"][0]["acquiredRecords"]:
                    return epoch, acquired["lastOffset"]
            assert time.monotonic() < deadline


def named(answer: Any, path: str) -> Any:
    """What stands at a path such as `topics[0].errorCode`."""
    for part in path.replace("]", "").replace("[", ".").split("."):
        answer = answer[int(part)] if part.isdigit() else answer[part]
    return answer


@pytest.fixture(scope="session")
def live(kafka: Broker) -> Iterator[Live]:
    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="every-api")
    with Cluster(config) as cluster:
        live = Live(kafka, cluster, kafka.topic(2))
        [topic] = live.ask("Metadata", {"topics": [{"name": live.topic}]})["topics"]
        live.topic_id = topic["topicId"]
        data = {"index": 0, "records": live.records()}
        live.ask(
            "Produce", {"acks": -1, "timeoutMs": 5000, "topicData": [{"name": live.topic, "partitionData": [data]}]}
        )
        yield live

"""Topics, partitions, configurations, replicas and log directories: what was changed is what is told afterwards."""

from __future__ import annotations

from typing import Any

from kseg.client.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kseg.client.protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

TOPIC = 2
RETENTION = "retention.ms"


def _partitions(peer: Any, topic: str) -> int:
    """How many the topic has; 0 where there is none. Never creates it."""
    version = peer.newest("Metadata")
    asked = None if version < 4 else [MetadataRequest.MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=asked)
    if version >= 4:
        request.allow_auto_topic_creation = False
    found = {one.name: len(one.partitions) for one in peer.call(request, version).topics if not one.error_code}
    return found.get(topic, 0)


def _await_partitions(peer: Any, topic: str, count: int) -> None:
    def look() -> None:
        assert _partitions(peer, topic) == count

    peer.eventually(look)


def _create(peer: Any, version: int, topic: str, partitions: int = 2, replicas: int = 1, **fields: Any) -> Any:
    made = CreateTopicsRequest.CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=RETENTION, value="86400001")],
        assignments=fields.pop("assignments", []),
    )
    [result] = peer.call(CreateTopicsRequest(topics=[made], timeout_ms=20_000, **fields), version).topics
    assert result.name == topic
    return result


def create_topics(peer: Any, version: int) -> None:
    topic = peer.name("made")
    if version >= 1:
        assert _create(peer, version, topic, validate_only=True).error_code == 0
        assert _partitions(peer, topic) == 0
    made = _create(peer, version, topic)
    assert made.error_code == 0, made
    _await_partitions(peer, topic, 2)
    again = _create(peer, version, topic)
    assert again.error_code == 36  # TOPIC_ALREADY_EXISTS
    if version >= 1:
        assert topic in again.error_message
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        assert {c.name: c.value for c in made.configs}[RETENTION] == "86400001"
    if version >= 7:
        assert made.topic_id == peer.topic_id(topic)
    placed = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[peer.node_id])
    manual = peer.name("placed")
    assert _create(peer, version, manual, -1, -1, assignments=[placed]).error_code == 0
    _await_partitions(peer, manual, 1)
    defaults = _create(peer, version, peer.name("defaults"), -1, -1)
    # From 2.4 on -1 is the broker's default, in every version; before that it is not a number of partitions.
    assert (defaults.error_code == 0) == (peer.release not in ("0.10.2.2", "1.1.1"))


def delete_topics(peer: Any, version: int) -> None:
    for by_id in (False, True) if version >= 6 and not _without_ids(peer) else (False,):
        topic = peer.topic()
        request = DeleteTopicsRequest(timeout_ms=20_000)
        if version >= 6:
            state = DeleteTopicsRequest.DeleteTopicState(name=None if by_id else topic)
            if by_id:
                state.topic_id = peer.topic_id(topic)
            request.topics = [state]
        else:
            request.topic_names = [topic]
        [result] = peer.call(request, version).responses
        assert (result.name, result.error_code) == (topic, 0)
        _await_partitions(peer, topic, 0)
        if not by_id:
            [again] = peer.call(request, version).responses
            assert again.error_code == 3


def _without_ids(peer: Any) -> bool:
    return bool(peer.newest("Metadata") < 10)


def create_partitions(peer: Any, version: int) -> None:
    topic = peer.topic(1)

    def ask(count: int, **fields: Any) -> int:
        made = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[made], timeout_ms=20_000, **fields)
        [result] = peer.call(request, version).results
        assert result.name == topic
        code: int = result.error_code
        return code

    assert ask(3, validate_only=True) == 0
    assert _partitions(peer, topic) == 1
    assert ask(3) == 0
    _await_partitions(peer, topic, 3)
    assert ask(2) == 37  # INVALID_PARTITIONS: never fewer


def _config(peer: Any, topic: str, version: int, keys: list[str] | None) -> dict[str, Any]:
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[asked])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = True
    [result] = peer.call(request, version).results
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, topic)
    return {entry.name: entry for entry in result.configs}


def describe_configs(peer: Any, version: int) -> None:
    topic = peer.topic(1, {RETENTION: "86400002"})
    some = _config(peer, topic, version, [RETENTION])
    assert list(some) == [RETENTION]
    entry = some[RETENTION]
    assert (entry.value, entry.read_only, entry.is_sensitive) == ("86400002", False, False)
    everything = _config(peer, topic, version, None)  # null: all of them
    assert {RETENTION, "cleanup.policy"} < set(everything)
    if version == 0:
        assert not entry.is_default
        if peer.release == "1.1.1":  # its successors leave it false for everything
            assert everything["cleanup.policy"].is_default
    else:
        assert entry.config_source == 1  # the topic's own
        assert everything["cleanup.policy"].config_source == 5  # a default
        assert entry.synonyms[0].value == "86400002"
    if version >= 3:
        assert entry.config_type == 5  # LONG
        assert entry.documentation


def _await_retention(peer: Any, topic: str, value: str) -> None:
    def look() -> None:
        assert _config(peer, topic, peer.newest("DescribeConfigs"), [RETENTION])[RETENTION].value == value

    peer.eventually(look)


def alter_configs(peer: Any, version: int) -> None:
    topic = peer.topic(1, {RETENTION: "86400003", "max.message.bytes": "5000"})

    def ask(value: str, **fields: Any) -> int:
        changed = AlterConfigsRequest.AlterConfigsResource.AlterableConfig(name=RETENTION, value=value)
        resource = AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[changed])
        [result] = peer.call(AlterConfigsRequest(resources=[resource], **fields), version).responses
        assert (result.resource_type, result.resource_name) == (TOPIC, topic)
        code: int = result.error_code
        return code

    assert ask("86400004", validate_only=True) == 0
    _await_retention(peer, topic, "86400003")
    assert ask("86400005") == 0
    _await_retention(peer, topic, "86400005")
    # It replaces all: what was not named is back at its default.
    assert _config(peer, topic, peer.newest("DescribeConfigs"), None)["max.message.bytes"].value != "5000"
    assert ask("not a number") in (40, 42)  # INVALID_CONFIG; INVALID_REQUEST before 2.0


def incremental_alter_configs(peer: Any, version: int) -> None:
    topic = peer.topic(1, {RETENTION: "86400003", "max.message.bytes": "5000"})

    def ask(operation: int, name: str, value: str | None) -> None:
        made = IncrementalAlterConfigsRequest.AlterConfigsResource
        changed = made.AlterableConfig(name=name, config_operation=operation, value=value)
        resource = made(resource_type=TOPIC, resource_name=topic, configs=[changed])
        [result] = peer.call(IncrementalAlterConfigsRequest(resources=[resource]), version).responses
        assert (result.error_code, result.resource_name) == (0, topic)

    def value(name: str) -> str:
        found: str = _config(peer, topic, peer.newest("DescribeConfigs"), [name])[name].value
        return found

    def becomes(name: str, wanted: str) -> None:
        def look() -> None:
            assert value(name) == wanted

        peer.eventually(look)

    ask(0, RETENTION, "86400006")  # set
    becomes(RETENTION, "86400006")
    assert value("max.message.bytes") == "5000"  # what was not named stays
    ask(1, RETENTION, None)  # delete
    becomes(RETENTION, "604800000")
    ask(2, "cleanup.policy", "compact")  # append
    becomes("cleanup.policy", "delete,compact")
    ask(3, "cleanup.policy", "delete")  # subtract
    becomes("cleanup.policy", "compact")


def list_config_resources(peer: Any, version: int) -> None:
    response = peer.call(ListConfigResourcesRequest(), version)
    assert response.error_code == 0
    assert {found.resource_type for found in response.config_resources} <= {
        16
    }  # version 0: metrics subscriptions alone
    name = peer.name("metrics")
    made = IncrementalAlterConfigsRequest.AlterConfigsResource
    changed = made.AlterableConfig(name="interval.ms", config_operation=0, value="60000")
    resource = made(resource_type=16, resource_name=name, configs=[changed])
    [result] = peer.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code == 0, result

    def look() -> None:
        found = peer.call(ListConfigResourcesRequest(), version).config_resources
        assert name in {one.resource_name for one in found}

    peer.eventually(look)


def describe_log_dirs(peer: Any, version: int) -> None:
    topic, other = peer.topic(), peer.topic()
    peer.write(topic, [b"x" * 1000])
    asked = DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0])
    for topics in ([asked], None):  # null: all partitions
        response = peer.call(DescribeLogDirsRequest(topics=topics), version)
        [found] = response.results
        assert (found.error_code, found.log_dir) == (0, str(peer.kafka.log_dirs[0]))
        names = {one.name: one for one in found.topics if one.partitions}  # 2.8 names all topics, most without any
        assert (other in names) == (topics is None)
        [partition] = names[topic].partitions
        assert (partition.partition_index, partition.offset_lag, partition.is_future_key) == (0, 0, False)
        assert partition.partition_size > 1000
        if version >= 4:
            assert found.total_bytes > found.usable_bytes > 0


def alter_replica_log_dirs(peer: Any, version: int) -> None:
    topic = peer.topic()

    def ask(path: str) -> int:
        made = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        moved = made(path=path, topics=[made.AlterReplicaLogDirTopic(name=topic, partitions=[0])])
        [result] = peer.call(AlterReplicaLogDirsRequest(dirs=[moved]), version).results
        assert (result.topic_name, result.partitions[0].partition_index) == (topic, 0)
        code: int = result.partitions[0].error_code
        return code

    assert ask(str(peer.kafka.log_dirs[0])) == 0  # it is there already
    assert ask("/no/such/directory") == 57  # LOG_DIR_NOT_FOUND


def elect_leaders(peer: Any, version: int) -> None:
    topic = peer.topic()

    def ask(topics: Any) -> dict[tuple[str, int], int]:
        response = peer.call(ElectLeadersRequest(topic_partitions=topics, timeout_ms=20_000), version)
        assert response.error_code == 0
        return {
            (found.topic, result.partition_id): result.error_code
            for found in response.replica_election_results
            for result in found.partition_result
        }

    one = ask([ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[0])])
    assert one == {(topic, 0): 84}  # ELECTION_NOT_NEEDED: the preferred leader leads already
    nobody = ask([ElectLeadersRequest.TopicPartitions(topic=peer.name("nobody"), partitions=[0])])
    assert set(nobody.values()) == {3}
    assert set(ask(None).values()) <= {0, 84}  # null: all partitions


def alter_partition_reassignments(peer: Any, version: int) -> None:
    topic = peer.topic()

    def ask(replicas: list[int] | None) -> int:
        made = AlterPartitionReassignmentsRequest.ReassignableTopic
        moved = made(name=topic, partitions=[made.ReassignablePartition(partition_index=0, replicas=replicas)])
        response = peer.call(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=20_000), version)
        assert response.error_code == 0
        [found] = response.responses
        assert (found.name, found.partitions[0].partition_index) == (topic, 0)
        code: int = found.partitions[0].error_code
        return code

    assert ask([peer.node_id]) == 0
    assert ask([77]) == 39  # INVALID_REPLICA_ASSIGNMENT: no such broker
    assert ask(None) == 85  # NO_REASSIGNMENT_IN_PROGRESS: nothing to cancel


def list_partition_reassignments(peer: Any, version: int) -> None:
    topic = peer.topic()
    asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(name=topic, partition_indexes=[0])
    for topics in (None, [asked]):
        response = peer.call(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=20_000), version)
        assert (response.error_code, response.topics) == (0, [])  # one broker has nowhere to move anything


CHECKS = {
    "CreateTopics": create_topics,
    "DeleteTopics": delete_topics,
    "CreatePartitions": create_partitions,
    "DescribeConfigs": describe_configs,
    "AlterConfigs": alter_configs,
    "IncrementalAlterConfigs": incremental_alter_configs,
    "ListConfigResources": list_config_resources,
    "DescribeLogDirs": describe_log_dirs,
    "AlterReplicaLogDirs": alter_replica_log_dirs,
    "ElectLeaders": elect_leaders,
    "AlterPartitionReassignments": alter_partition_reassignments,
    "ListPartitionReassignments": list_partition_reassignments,
}

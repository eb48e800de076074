"""ACLs are made, found and deleted; and what is not allowed is refused with the ACL that would allow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client import (
    LATEST,
    AuthorizationFailed,
    CommittedOffset,
    OffsetCommitFailed,
    PartitionReader,
    TopicPartition,
    Transaction,
    commit_offsets,
    committed_offsets,
    list_offsets,
)
from kseg.client.admin.acls import AclBinding, AclFilter, create_acls, delete_acls, describe_acls
from kseg.client.admin.configs import (
    AlterConfig,
    ConfigResource,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from kseg.client.admin.credentials import DeleteScram, alter_scram_users, describe_scram_users
from kseg.client.admin.describe import describe_topics
from kseg.client.admin.features import update_features
from kseg.client.admin.groups import delete_groups
from kseg.client.admin.log_dirs import describe_log_dirs
from kseg.client.admin.nodes import describe_cluster, describe_quorum, unregister_broker
from kseg.client.admin.placement import alter_reassignments, elect_leaders, list_reassignments
from kseg.client.admin.quotas import alter_quotas, describe_quotas, quota_entity
from kseg.client.admin.topics import (
    NewTopic,
    create_partitions,
    create_topic,
    create_topics,
    delete_records,
    delete_topics,
)
from kseg.client.admin.transactions import describe_producers, describe_transactions, list_transactions
from kseg.client.errors import KafkaError
from kseg.client.groups.descriptions import describe_group, list_groups
from kseg.client.protocol.enums import AclOperation as Op
from kseg.client.protocol.enums import ConfigResourceType, PatternType, PermissionType, ResourceType, ScramMechanism
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.security import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kseg.segment_reader.encode.batches import Record
from releases import OtherKafka
from sending import send_to

ETL = "User:etl"


@pytest.fixture
def root(guarded_kafka: Any, connect: Any) -> Any:
    """Somebody who may do everything."""
    return connect(guarded_kafka.bootstrap_servers)


@pytest.fixture
def etl(guarded_kafka: Any, connect: Any) -> Any:
    """Somebody who may do nothing."""
    properties = {name.replace(".", "_"): value for name, value in guarded_kafka.properties().items()}
    return connect(properties.pop("bootstrap_servers"), **properties)


@pytest.fixture
def allow(root: Any, until: Any) -> Iterator[Callable[..., AclBinding]]:
    """`allow(Op.READ, ResourceType.TOPIC, name)` for user etl; taken away after the test."""
    given: list[AclBinding] = []

    def give(operation: Op, kind: ResourceType, name: str, **more: Any) -> AclBinding:
        binding = AclBinding(kind, name, ETL, operation, **more)
        create_acls(root, [binding]).or_raise()
        given.append(binding)
        return binding

    yield give
    delete_acls(root, [_exactly(binding) for binding in given]).or_raise()
    assert until(lambda: not {*given} & describe_acls(root))  # some are about the cluster, of which there is one


def _exactly(binding: AclBinding) -> AclFilter:
    return AclFilter(
        binding.resource_type,
        binding.resource_name,
        binding.principal,
        binding.operation,
        binding.pattern_type,
        binding.permission,
        binding.host,
    )


@pytest.mark.rule(250, "305-307")
def test_every_version_makes_finds_and_deletes_bindings(root: Any, each_version: Any, name: str, until: Any):
    literal = AclBinding(ResourceType.TOPIC, name, ETL, Op.READ)
    prefixed = AclBinding(ResourceType.TOPIC, name[:-3], ETL, Op.WRITE, PatternType.PREFIXED)
    denied = AclBinding(ResourceType.GROUP, name, "User:eve", Op.READ, permission=PermissionType.DENY, host="10.0.0.1")
    wildcard = AclBinding(ResourceType.TOPIC, "*", f"User:{name}", Op.DESCRIBE)
    every = [literal, prefixed, denied, wildcard]
    mine = {binding.resource_name for binding in every[:3]}

    def ours(*filter_: AclFilter) -> set[AclBinding]:
        return {found for found in describe_acls(root, *filter_) if found.resource_name in mine or found == wildcard}

    for _ in each_version(root, CreateAclsRequest):
        assert create_acls(root, every).failed() == {}
        assert until(lambda: ours() == {*every})
        for _ in each_version(root, DescribeAclsRequest):
            assert ours(AclFilter(pattern_type=PatternType.PREFIXED)) == {prefixed}
            assert ours(AclFilter(permission=PermissionType.DENY)) == {denied}
            assert ours(AclFilter(principal="User:eve", host="10.0.0.1")) == {denied}
            assert ours(AclFilter(operation=Op.WRITE)) == {prefixed}
            # All that applies to the name: its own, its prefixes, and those of any name.
            matching = AclFilter(ResourceType.TOPIC, name, pattern_type=PatternType.MATCH)
            assert ours(matching) == {literal, prefixed, wildcard}
            assert ours(AclFilter(ResourceType.TOPIC, name, pattern_type=PatternType.LITERAL)) == {literal}
        for _ in each_version(root, DeleteAclsRequest):
            create_acls(root, every).or_raise()
            assert until(lambda: ours() == {*every})
            results = delete_acls(root, [_exactly(literal), _exactly(prefixed), AclFilter(resource_name="no-such")])
            assert results.or_raise() == {
                _exactly(literal): {literal},
                _exactly(prefixed): {prefixed},
                AclFilter(resource_name="no-such"): frozenset(),
            }
            assert until(lambda: ours() == {denied, wildcard})
        delete_acls(root, [_exactly(denied), _exactly(wildcard)]).or_raise()
        assert until(lambda: ours() == set())


def test_one_binding_that_is_none_keeps_no_other_back(root: Any, name: str):
    good = AclBinding(ResourceType.TOPIC, name, ETL, Op.READ)
    bad = AclBinding(ResourceType.TOPIC, "", ETL, Op.READ)
    results = create_acls(root, [bad, good])
    assert results[good] is None
    assert results.failed()[bad].code == ErrorCode.INVALID_REQUEST
    assert results.failed()[bad].resource == str(bad)
    delete_acls(root, [_exactly(good)]).or_raise()


def test_without_an_authorizer_there_are_no_acls(cluster: Any):
    for ask in (
        lambda: describe_acls(cluster),
        lambda: create_acls(cluster, [AclBinding(ResourceType.TOPIC, "t", ETL, Op.READ)]).or_raise(),
        lambda: delete_acls(cluster, [AclFilter()]).or_raise(),
    ):
        with pytest.raises(KafkaError) as caught:
            ask()
        assert caught.value.code == ErrorCode.SECURITY_DISABLED


@pytest.mark.rule("305-307")
def test_the_first_version_knows_literal_patterns_alone(connect: Any, each_version: Any, until: Any):
    """Spoken until 3.9: prefixes are refused before they are sent, and not shown as if they were literal names."""
    guarded = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with OtherKafka("3.9.2", config=guarded) as kafka:
        cluster = connect(kafka.bootstrap_servers)
        literal = AclBinding(ResourceType.TOPIC, "t", ETL, Op.READ)
        prefixed = AclBinding(ResourceType.TOPIC, "t", ETL, Op.READ, PatternType.PREFIXED)
        create_acls(cluster, [prefixed]).or_raise()
        for version in each_version(cluster, CreateAclsRequest):
            if version == 0:
                with pytest.raises(KafkaError, match="supports only literal patterns"):
                    create_acls(cluster, [prefixed])
            create_acls(cluster, [literal]).or_raise()
            assert until(lambda: len(describe_acls(cluster)) == 2)
            for asked in each_version(cluster, DescribeAclsRequest):
                found = describe_acls(cluster, AclFilter(resource_name="t"))
                assert found == ({literal} if asked == 0 else {literal, prefixed})
            for _ in each_version(cluster, DeleteAclsRequest):
                create_acls(cluster, [literal]).or_raise()
                assert until(lambda: literal in describe_acls(cluster))
                deleted = delete_acls(cluster, [_exactly(literal)]).or_raise()
                assert set(deleted.values()) == {frozenset({literal})}
                assert until(lambda: literal not in describe_acls(cluster))
        assert describe_acls(cluster) == {prefixed}


@pytest.mark.rule(46)
def test_what_one_may_do_is_told_bit_by_bit(etl: Any, allow: Any, root: Any, name: str, until: Any):
    create_topic(root, name)
    allow(Op.READ, ResourceType.TOPIC, name)
    allow(Op.ALTER_CONFIGS, ResourceType.TOPIC, name[:-2], pattern_type=PatternType.PREFIXED)
    allow(Op.DELETE, ResourceType.GROUP, name)
    allow(Op.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    # They come to the broker in their order: with the last one, all are there.
    assert until(lambda: describe_cluster(etl, operations=True).operations == {Op.DESCRIBE})
    operations = describe_topics(etl, [name], operations=True).or_raise()[name].operations
    # What allows reading allows describing as well, and so does what allows changing settings.
    assert operations == {Op.READ, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS}
    commit_offsets(root, name, {TopicPartition(name, 0): CommittedOffset(0)})
    assert describe_group(etl, name, operations=True).operations == {Op.DELETE, Op.DESCRIBE}


TOPIC, GROUP, CLUSTER, TRANSACTION = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)


def _first(results: Any) -> None:
    results.or_raise()


def _read(cluster: Any, name: str) -> None:
    with PartitionReader(cluster, TopicPartition(name, 0), isolation_level="read_committed") as reader:
        reader.request(0)
        reader.response()


def _begin(cluster: Any, name: str) -> None:
    Transaction(cluster, name).begin()


#: What is asked, what is lacking at first, and then with the right to describe it (None: nothing).
REFUSED: dict[str, tuple[Callable[[Any, str], Any], str, str | None]] = {
    "metadata": (
        lambda c, n: list_offsets(c, {_tp(n): LATEST}, isolation_level="read_committed"),
        "DESCRIBE on topic",
        None,
    ),
    "fetch": (_read, "DESCRIBE on topic", "READ on topic"),
    "produce": (lambda c, n: send_to(c, {_tp(n): [Record(value=b"v")]}), "IDEMPOTENT_WRITE on cluster", None),
    "create_topics": (lambda c, n: _first(create_topics(c, [NewTopic(f"{n}-new", 1, 1)])), "CREATE on topic", None),
    "delete_topics": (lambda c, n: _first(delete_topics(c, [n])), "DELETE on topic", "DELETE on topic"),
    "create_partitions": (lambda c, n: _first(create_partitions(c, {n: 5})), "ALTER on topic", "ALTER on topic"),
    "delete_records": (lambda c, n: _first(delete_records(c, {_tp(n): 0})), "DESCRIBE on topic", "DELETE on topic"),
    "describe_configs": (
        lambda c, n: _first(describe_configs(c, [ConfigResource(ConfigResourceType.TOPIC, n)])),
        "DESCRIBE_CONFIGS on topic",
        "DESCRIBE_CONFIGS on topic",
    ),
    "alter_configs": (
        lambda c, n: _first(
            alter_configs(c, {ConfigResource(ConfigResourceType.TOPIC, n): [AlterConfig("retention.ms", "1")]})
        ),
        "ALTER_CONFIGS on topic",
        "ALTER_CONFIGS on topic",
    ),
    "describe_producers": (
        lambda c, n: _first(describe_producers(c, [_tp(n)])),
        "DESCRIBE on topic",
        "READ on topic",
    ),
    "committed_offsets": (lambda c, n: committed_offsets(c, n), "DESCRIBE on group", None),
    "delete_groups": (lambda c, n: _first(delete_groups(c, [n])), "DESCRIBE on group", "DELETE on group"),
    "begin": (_begin, "DESCRIBE on transactional id", "WRITE on transactional id"),
    "describe_transactions": (
        lambda c, n: _first(describe_transactions(c, [n])),
        "DESCRIBE on transactional id",
        None,
    ),
}


def _tp(name: str) -> TopicPartition:
    return TopicPartition(name, 0)


@pytest.mark.rule(86)
@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_names_operation_and_resource(what: str, etl: Any, root: Any, allow: Any, name: str, until: Any):
    do, at_first, then = REFUSED[what]
    create_topic(root, name)
    commit_offsets(root, name, {_tp(name): CommittedOffset(0)})
    Transaction(root, name).begin()
    with pytest.raises(AuthorizationFailed) as caught:
        do(etl, name)
    lacking = caught.value.lacking
    assert lacking is not None
    assert str(lacking).startswith(at_first)
    assert lacking.name in (None, name, f"{name}-new")
    assert lacking.remedy in str(caught.value)

    if lacking.operation == Op.DESCRIBE or then is not None:
        allow(Op.DESCRIBE, lacking.resource_type, lacking.name)
        if then is None:
            assert until(lambda: _goes(do, etl, name))
            return
        assert until(lambda: str(_lacking(do, etl, name)) == f"{then} {name}")
        lacking = _lacking(do, etl, name)
    # The very ACL that the error names is the one that helps.
    allow(lacking.operation, lacking.resource_type, lacking.name or "kafka-cluster")
    if what == "produce":
        allow(Op.WRITE, TOPIC, name)
    assert until(lambda: _goes(do, etl, name))


def _lacking(do: Any, cluster: Any, name: str) -> Any:
    try:
        do(cluster, name)
    except AuthorizationFailed as error:
        return error.lacking
    return None


def _goes(do: Any, cluster: Any, name: str) -> bool:
    try:
        do(cluster, name)
    except AuthorizationFailed:
        return False
    except KafkaError:
        return True  # it was allowed to find out what else is wrong
    return True


CLUSTER_WIDE: dict[str, tuple[Callable[[Any], Any], Op]] = {
    "describe_acls": (describe_acls, Op.DESCRIBE),
    "create_acls": (lambda c: _first(create_acls(c, [AclBinding(TOPIC, "t", ETL, Op.READ)])), Op.ALTER),
    "delete_acls": (lambda c: _first(delete_acls(c, [AclFilter(resource_name="no-such")])), Op.ALTER),
    "describe_log_dirs": (lambda c: _first(describe_log_dirs(c)), Op.DESCRIBE),
    "describe_quotas": (lambda c: describe_quotas(c, {}), Op.DESCRIBE_CONFIGS),
    "alter_quotas": (lambda c: _first(alter_quotas(c, {quota_entity(user="u"): {"x": 1.0}})), Op.ALTER_CONFIGS),
    "describe_scram": (lambda c: _first(describe_scram_users(c)), Op.DESCRIBE),
    "alter_scram": (lambda c: _first(alter_scram_users(c, [DeleteScram("u", ScramMechanism(1))])), Op.ALTER),
    "update_features": (lambda c: _first(update_features(c, {"group.version": 1})), Op.ALTER),
    "describe_quorum": (describe_quorum, Op.DESCRIBE),
    "list_reassignments": (list_reassignments, Op.DESCRIBE),
    "alter_reassignments": (lambda c: _first(alter_reassignments(c, {_tp("t"): [1]})), Op.ALTER),
    "elect_leaders": (lambda c: _first(elect_leaders(c, "preferred", [_tp("t")])), Op.ALTER),
    "unregister_broker": (lambda c: unregister_broker(c, 77), Op.ALTER),
    "list_config_resources": (list_config_resources, Op.DESCRIBE_CONFIGS),
    "broker_configs": (
        lambda c: _first(describe_configs(c, [ConfigResource(ConfigResourceType.BROKER, "1")])),
        Op.DESCRIBE_CONFIGS,
    ),
}


@pytest.mark.rule(86)
@pytest.mark.parametrize("what", CLUSTER_WIDE)
def test_a_refusal_about_the_cluster_names_the_operation(what: str, etl: Any):
    ask, operation = CLUSTER_WIDE[what]
    with pytest.raises(AuthorizationFailed) as caught:
        ask(etl)
    lacking = caught.value.lacking
    assert lacking is not None
    assert (lacking.operation, lacking.resource_type) == (operation, CLUSTER)
    assert f"--operation {operation.name.title().replace('_', '')} --cluster" in str(caught.value)


def test_listings_show_what_one_may_see(etl: Any, root: Any, allow: Any, name: str, until: Any):
    """They are no refusals: who may see nothing gets an empty answer."""
    create_topic(root, name)
    commit_offsets(root, name, {_tp(name): CommittedOffset(0)})
    Transaction(root, name).begin()
    assert list_groups(etl).or_raise() == {1: ()}
    assert list_transactions(etl).or_raise() == {1: ()}
    assert describe_topics(etl) == {}
    allow(Op.DESCRIBE, GROUP, name)
    allow(Op.DESCRIBE, TRANSACTION, name)
    allow(Op.DESCRIBE, TOPIC, name)
    assert until(lambda: [group.group for group in list_groups(etl).or_raise()[1]] == [name])
    assert until(lambda: [found.transactional_id for found in list_transactions(etl).or_raise()[1]] == [name])
    assert until(lambda: list(describe_topics(etl)) == [name])


def test_a_commit_that_is_refused_names_the_topic(etl: Any, root: Any, allow: Any, name: str, until: Any):
    create_topic(root, name)
    allow(Op.READ, GROUP, name)
    allow(Op.DESCRIBE, TOPIC, name)
    assert until(lambda: name in describe_topics(etl, [name]).done())
    with pytest.raises((OffsetCommitFailed, AuthorizationFailed), match="lacking: READ on topic") as caught:
        commit_offsets(etl, name, {_tp(name): CommittedOffset(0)})
    assert caught.value.lacking is not None
    assert caught.value.lacking.name == name

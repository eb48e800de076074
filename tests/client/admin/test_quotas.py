"""Client quotas: set, told by every way of asking, and removed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kseg.client.admin.quotas import Match, alter_quotas, describe_quotas, quota_entity
from kseg.client.admin.topics import NewTopic, create_topics
from kseg.client.errors import KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kseg.client.protocol.messages.topics import CreateTopicsRequest


def test_every_version_sets_and_removes_a_quota(any_cluster: Any, each_version: Any, name: str, until: Any):
    user = quota_entity(user=name)
    for version in each_version(any_cluster, AlterClientQuotasRequest):
        rate = 1000.0 + version
        alter_quotas(any_cluster, {user: {"consumer_byte_rate": rate}}, validate_only=True).or_raise()
        assert describe_quotas(any_cluster, {"user": name}) == {}
        alter_quotas(any_cluster, {user: {"consumer_byte_rate": rate, "request_percentage": 50.5}}).or_raise()
        assert until(
            lambda rate=rate: (
                describe_quotas(any_cluster, {"user": name})
                == {user: {"consumer_byte_rate": rate, "request_percentage": 50.5}}
            )
        )
        alter_quotas(any_cluster, {user: {"request_percentage": None}}).or_raise()
        assert until(
            lambda rate=rate: describe_quotas(any_cluster, {"user": name}) == {user: {"consumer_byte_rate": rate}}
        )
        alter_quotas(any_cluster, {user: {"consumer_byte_rate": None}}).or_raise()
        assert until(lambda: describe_quotas(any_cluster, {"user": name}) == {})


def test_every_version_finds_by_name_by_default_and_by_type(any_cluster: Any, each_version: Any, name: str, until: Any):
    alone, both = quota_entity(user=name), quota_entity(user=name, client_id="app")
    default = quota_entity(user=name, client_id=None)
    rates = {alone: 1.0, both: 2.0, default: 3.0}
    alter_quotas(any_cluster, {entity: {"producer_byte_rate": rate} for entity, rate in rates.items()}).or_raise()
    expected = {entity: {"producer_byte_rate": rate} for entity, rate in rates.items()}
    assert until(lambda: describe_quotas(any_cluster, {"user": name}) == expected)

    def found(wanted: dict[str, Any], **options: Any) -> set[Any]:
        return {entity for entity in describe_quotas(any_cluster, wanted, **options) if ("user", name) in entity}

    for _ in each_version(any_cluster, DescribeClientQuotasRequest):
        assert found({"user": name}, strict=True) == {alone}
        assert found({"user": name, "client-id": "app"}) == {both}
        assert found({"user": name, "client-id": Match.DEFAULT}) == {default}
        assert found({"user": Match.ANY, "client-id": Match.ANY}) == {both, default}
        assert found({}) == {alone, both, default}
    alter_quotas(any_cluster, {entity: {"producer_byte_rate": None} for entity in rates}).or_raise()


def test_a_quota_that_is_none_is_refused_for_its_entity_alone(cluster: Any, name: str):
    good, bad = quota_entity(user=name), quota_entity(user=f"{name}-b")
    results = alter_quotas(cluster, {good: {"producer_byte_rate": 9.0}, bad: {"speed": 1.0}})
    assert results[good] is None
    refused = results[bad]
    assert isinstance(refused, KafkaError)
    assert (refused.code, refused.resource) == (ErrorCode.INVALID_REQUEST, f"quota of user {name}-b")
    alter_quotas(cluster, {good: {"producer_byte_rate": None}}).or_raise()


def test_a_type_that_there_is_not_is_refused_as_a_whole(cluster: Any):
    with pytest.raises(KafkaError, match="planet"):
        describe_quotas(cluster, {"planet": "mars"})


@pytest.mark.rule(265)
def test_a_client_over_its_quota_of_changes_is_told_and_waits(
    cluster: Any, kafka: Any, connect: Any, name: str, until: Any
):
    """The controller refuses and tells for how long (KIP-599); the next try comes when it may."""
    limited = quota_entity(client_id=name)
    alter_quotas(cluster, {limited: {"controller_mutation_rate": 3.0}}).or_raise()
    assert until(lambda: describe_quotas(cluster, {"client-id": name}))
    client = connect(kafka.bootstrap_servers, client_id=name)

    def creation(topic: str, partitions: int) -> CreateTopicsRequest:
        new = CreateTopicsRequest.CreatableTopic(
            name=f"{name}-{topic}", num_partitions=partitions, replication_factor=1
        )
        return CreateTopicsRequest(topics=[new])

    # 40 are more than the 33 that may come at once: until the rest is made good again, everything is refused. A machine
    # that is slow has made it good before the next question comes.
    for number in range(30):
        assert client.send(creation(f"many-{number}", 40), controller=True).topics[0].error_code == 0
        started = time.monotonic()
        answer = client.send(creation(f"refused-{number}", 1), controller=True)
        if answer.topics[0].error_code:
            break
    assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms > 0
    created = create_topics(client, [NewTopic(f"{name}-late", 1, 1)]).or_raise()
    assert created[f"{name}-late"].partitions == 1
    assert time.monotonic() - started > answer.throttle_time_ms / 1000 / 2
    alter_quotas(cluster, {limited: {"controller_mutation_rate": None}}).or_raise()

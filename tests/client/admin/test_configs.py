"""Settings of topics, brokers, loggers, groups and client metrics: told, changed, and back to their defaults."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import ConfigResource as TheirResource

from kseg.client import UnknownTopic, UnsupportedVersion
from kseg.client.admin.configs import (
    AlterConfig,
    AlterOperation,
    ConfigResource,
    alter_configs,
    describe_configs,
    describe_topic_configs,
    list_config_resources,
    replace_configs,
)
from kseg.client.admin.topics import NewTopic, create_topic, create_topics
from kseg.client.errors import KafkaError
from kseg.client.protocol.enums import ConfigResourceType as Type
from kseg.client.protocol.enums import ConfigType
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(Type.TOPIC, name)


@pytest.mark.rule(308)
def test_settings_tell_where_they_come_from(cluster: Any, kafka: Any, connect: Any):
    topic = kafka.topic(config={"cleanup.policy": "compact"})
    settings = describe_topic_configs(cluster, [topic])[topic]
    assert (settings["cleanup.policy"].value, settings["cleanup.policy"].source) == ("compact", "topic")
    assert settings["cleanup.policy"].is_set
    assert settings["cleanup.policy"].type == ConfigType.LIST
    assert not settings["retention.ms"].is_set
    impatient = connect(kafka.bootstrap_servers, default_api_timeout_ms=4000)  # the topic might be a very new one
    with pytest.raises(UnknownTopic):
        describe_topic_configs(impatient, ["nope"])


@pytest.mark.rule(308)
def test_every_version_tells_value_and_source(any_cluster: Any, each_version: Any, name: str):
    create_topics(any_cluster, [NewTopic(name, 1, 1, {"retention.ms": "777", "cleanup.policy": "compact,delete"})])
    for version in each_version(any_cluster, DescribeConfigsRequest):
        found = describe_configs(
            any_cluster,
            [topic_resource(name), ConfigResource(Type.BROKER, "1")],
            synonyms=version >= 1,
            documentation=version >= 3,
        ).or_raise()
        retention = found[topic_resource(name)]["retention.ms"]
        assert retention.value == "777"
        assert retention.source == ("topic" if version >= 1 else "unknown")
        # This late release answers version 0's question whether it is the default with no, always.
        assert found[topic_resource(name)]["max.message.bytes"].source == ("default" if version >= 1 else "unknown")
        assert found[ConfigResource(Type.BROKER, "1")]["node.id"].value == "1"
        assert found[ConfigResource(Type.BROKER, "1")]["node.id"].read_only
        if version >= 1:
            assert retention.synonyms[0].source == "topic"
        if version >= 3:
            assert retention.type == ConfigType.LONG
            assert "retain" in (retention.documentation or "")


def test_named_settings_alone_are_told_and_none_for_none(cluster: Any, kafka: Any):
    """None asks for all, an empty collection for none: brokers take an empty list for all too."""
    resource = topic_resource(kafka.topic())
    assert list(describe_configs(cluster, [resource], names=["retention.ms"]).or_raise()[resource]) == ["retention.ms"]
    assert describe_configs(cluster, [resource], names=[]).or_raise()[resource] == {}
    assert len(describe_configs(cluster, [resource]).or_raise()[resource]) > 20


def test_a_brokers_settings_are_asked_of_that_very_broker(three: Any, kafka3: Any):
    resources = [ConfigResource(Type.BROKER, str(number)) for number in (1, 2, 3)]
    found = describe_configs(three, resources, names=["broker.rack", "log.dirs"]).or_raise()
    assert {resource.name: found[resource]["broker.rack"].value for resource in resources} == {
        "1": "rack-1",
        "2": "rack-2",
        "3": "rack-3",
    }
    assert all(found[resource]["broker.rack"].source == "broker-static" for resource in resources)
    gone = describe_configs(three, [ConfigResource(Type.BROKER, "1")])
    assert "node.id" in gone.or_raise()[ConfigResource(Type.BROKER, "1")]


def test_one_broker_that_is_not_there_keeps_no_other_back(kafka: Any, connect: Any):
    impatient = connect(kafka.bootstrap_servers, default_api_timeout_ms=4000)
    there, none = ConfigResource(Type.BROKER, "1"), ConfigResource(Type.BROKER, "77")
    found = describe_configs(impatient, [there, none])
    assert found.done()[there]["node.id"].value == "1"
    assert "77" in str(found.failed()[none])


@pytest.mark.rule(250, 320)
def test_every_version_sets_deletes_appends_and_subtracts(any_cluster: Any, each_version: Any, name: str, until: Any):
    create_topics(any_cluster, [NewTopic(name, 1, 1)]).or_raise()
    resource = topic_resource(name)

    def settings(value: str, policy: str) -> bool:
        found = describe_topic_configs(any_cluster, [name])[name]
        return (found["retention.ms"].value, found["cleanup.policy"].value) == (value, policy)

    before = describe_topic_configs(any_cluster, [name])[name]["retention.ms"].value
    for version in each_version(any_cluster, IncrementalAlterConfigsRequest):
        retention = str(1000 + version)
        appended = AlterConfig("cleanup.policy", "compact", AlterOperation.APPEND)
        changed = {resource: [AlterConfig("retention.ms", retention), appended]}
        alter_configs(any_cluster, changed, validate_only=True).or_raise()
        assert describe_topic_configs(any_cluster, [name])[name]["cleanup.policy"].value == "delete"
        alter_configs(any_cluster, changed).or_raise()
        assert until(lambda retention=retention: settings(retention, "delete,compact"))
        alter_configs(
            any_cluster,
            {
                resource: [
                    AlterConfig("retention.ms", None, AlterOperation.DELETE),
                    AlterConfig("cleanup.policy", "compact", AlterOperation.SUBTRACT),
                ]
            },
        ).or_raise()
        assert until(lambda: settings(before, "delete"))


def test_a_change_that_is_refused_is_told_for_its_resource_alone(cluster: Any, kafka: Any, until: Any):
    good, bad = (topic_resource(kafka.topic()) for _ in range(2))
    results = alter_configs(
        cluster, {good: [AlterConfig("retention.ms", "5")], bad: [AlterConfig("retention.ms", "soon")]}
    )
    assert results[good] is None
    assert isinstance(results[bad], KafkaError)
    assert (results[bad].code, results[bad].topic) == (ErrorCode.INVALID_CONFIG, bad.name)
    assert until(lambda: describe_topic_configs(cluster, [good.name])[good.name]["retention.ms"].value == "5")


@pytest.mark.rule(309)
def test_every_version_replaces_all_settings(any_cluster: Any, each_version: Any, name: str, until: Any):
    create_topics(any_cluster, [NewTopic(name, 1, 1, {"segment.bytes": "1048576"})]).or_raise()

    def set_ones() -> dict[str, str | None]:
        found = describe_topic_configs(any_cluster, [name])[name]
        return {key: entry.value for key, entry in found.items() if entry.is_set}

    for version in each_version(any_cluster, AlterConfigsRequest):
        key = ("retention.ms", "retention.bytes", "segment.ms")[version]
        before = set_ones()
        replace_configs(any_cluster, {topic_resource(name): {key: "12345678"}}, validate_only=True).or_raise()
        assert set_ones() == before
        replace_configs(any_cluster, {topic_resource(name): {key: "12345678"}}).or_raise()
        assert until(lambda key=key: set_ones() == {key: "12345678"})


def test_a_brokers_logger_is_set_at_that_broker(three: Any, until: Any):
    second, third = (ConfigResource(Type.BROKER_LOGGER, number) for number in "23")
    logger = "root"

    def level(resource: ConfigResource) -> str | None:
        return describe_configs(three, [resource]).or_raise()[resource][logger].value

    alter_configs(three, {second: [AlterConfig(logger, "WARN")]}).or_raise()
    assert until(lambda: level(second) == "WARN")
    assert level(third) == "INFO"
    alter_configs(three, {second: [AlterConfig(logger, "INFO")]}).or_raise()
    assert until(lambda: level(second) == "INFO")
    refused = alter_configs(three, {second: [AlterConfig(logger, "LOUD")]}).failed()[second]
    assert refused.code == ErrorCode.INVALID_CONFIG


def test_settings_of_all_brokers_of_a_group_and_of_client_metrics(cluster: Any, name: str, until: Any):
    everywhere = ConfigResource(Type.BROKER, "")
    group = ConfigResource(Type.GROUP, name)
    metrics = ConfigResource(Type.CLIENT_METRICS, name)
    changes = {
        everywhere: AlterConfig("log.cleaner.threads", "2"),
        group: AlterConfig("consumer.session.timeout.ms", "50000"),
        metrics: AlterConfig("interval.ms", "1000"),
    }
    alter_configs(cluster, {resource: [change] for resource, change in changes.items()}).or_raise()
    sources = {everywhere: "cluster-dynamic", group: "group", metrics: "client-metrics"}

    def is_told(resource: ConfigResource) -> bool:
        found = describe_configs(cluster, [resource]).or_raise()[resource].get(changes[resource].name)
        return found is not None and (found.value, found.source) == (changes[resource].value, sources[resource])

    assert until(lambda: all(is_told(resource) for resource in changes))
    assert until(lambda: {group, metrics} <= set(list_config_resources(cluster)))
    gone = {resource: [AlterConfig(change.name, None, AlterOperation.DELETE)] for resource, change in changes.items()}
    alter_configs(cluster, gone).or_raise()
    assert until(lambda: not {group, metrics} & set(list_config_resources(cluster)))


def test_every_version_lists_resources(cluster: Any, kafka: Any, each_version: Any, name: str, until: Any):
    metrics = ConfigResource(Type.CLIENT_METRICS, name)
    alter_configs(cluster, {metrics: [AlterConfig("interval.ms", "1000")]}).or_raise()
    topic = topic_resource(kafka.topic())
    assert until(lambda: metrics in list_config_resources(cluster))
    for version in each_version(cluster, ListConfigResourcesRequest):
        only = list_config_resources(cluster, [Type.CLIENT_METRICS])
        assert metrics in only
        assert {resource.type for resource in only} == {Type.CLIENT_METRICS}
        if version == 0:
            with pytest.raises(UnsupportedVersion, match="client metrics"):
                list_config_resources(cluster, [Type.TOPIC])
            continue
        assert topic in list_config_resources(cluster, [Type.TOPIC])
        assert {ConfigResource(Type.BROKER, "1"), topic, metrics} <= set(list_config_resources(cluster))
    alter_configs(cluster, {metrics: [AlterConfig("interval.ms", None, AlterOperation.DELETE)]}).or_raise()


def test_another_client_sees_the_same_settings(cluster: Any, kafka: Any, name: str):
    create_topic(cluster, name, config={"max.message.bytes": "4321"})
    client = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    theirs_of = client.describe_configs([TheirResource(TheirResource.Type.TOPIC, name)])
    [theirs] = [future.result(30) for future in theirs_of.values()]
    ours = describe_topic_configs(cluster, [name])[name]
    assert {key: entry.value for key, entry in ours.items()} == {key: entry.value for key, entry in theirs.items()}

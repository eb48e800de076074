"""Which broker a request is for: by its API and what it names, and by a person's word."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.routing import RequestTarget
from kseg.etl.errors import ConfigurationError
from kseg.jobs.api import destination
from kseg.jobs.api.calling import _any_version
from kseg.jobs.api.destination import Destination, by_default, parse

TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("any", Destination("any")),
        ("controller", Destination("controller")),
        ("all", Destination("all")),
        ("broker:3", Destination("broker", number=3)),
        ("leader:a:b:0", Destination("leader", "a:b", 0)),
        ("group:a:b", Destination("group", "a:b")),
        ("transaction:t", Destination("transaction", "t")),
    ],
)
def test_a_persons_word_is_read_and_told_back(text: str, meant: Destination) -> None:
    assert parse(text) == meant
    assert str(meant) == text


@pytest.mark.parametrize(
    "text", ["", "nobody", "broker", "broker:", "broker:x", "leader:t", "leader:t:x", "group:", "all:1"]
)
def test_what_says_nobody_is_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(text)
    assert "leader:TOPIC:PARTITION" in str(raised.value)


def asked(api: str, document: dict[str, Any]) -> list[Destination]:
    return by_default(api, _any_version(API_BY_NAME[api], document))


@pytest.mark.rule(36, 234)
@pytest.mark.parametrize(
    ("api", "document", "meant"),
    [
        ("Metadata", {}, [Destination("any")]),
        ("ApiVersions", {}, [Destination("any")]),
        ("CreateTopics", {}, [Destination("controller")]),
        ("ElectLeaders", {}, [Destination("controller")]),
        ("ListGroups", {}, [Destination("all")]),
        ("DescribeLogDirs", {}, [Destination("all")]),
        (
            "Produce",
            {"topicData": [{"name": "t", "partitionData": [{"index": 2}, {"index": 3}]}]},
            [Destination("leader", "t", 2), Destination("leader", "t", 3)],
        ),
        ("Fetch", {"topics": [{"topic": "t", "partitions": [{"partition": 1}]}]}, [Destination("leader", "t", 1)]),
        (
            "Fetch",
            {"topics": [{"topicId": str(TOPIC_ID), "partitions": [{"partition": 1}]}]},
            [Destination("leader", "", 1, TOPIC_ID)],
        ),
        ("ListOffsets", {"topics": [{"name": "t", "partitions": [{}]}]}, [Destination("leader", "t", 0)]),
        (
            "DeleteRecords",
            {"topics": [{"name": "t", "partitions": [{"partitionIndex": 4}]}]},
            [Destination("leader", "t", 4)],
        ),
        (
            "WriteTxnMarkers",
            {"markers": [{"topics": [{"name": "t", "partitionIndexes": [4]}]}, {"topics": []}]},
            [Destination("leader", "t", 4)],
        ),
        ("DescribeProducers", {"topics": [{"name": "t", "partitionIndexes": [4]}]}, [Destination("leader", "t", 4)]),
        ("ShareGroupDescribe", {"groupIds": ["g"]}, [Destination("group", "g")]),
        ("DescribeShareGroupOffsets", {"groups": [{"groupId": "g"}]}, [Destination("group", "g")]),
        ("DescribeTransactions", {"transactionalIds": ["t"]}, [Destination("transaction", "t")]),
        ("OffsetCommit", {"groupId": "g"}, [Destination("group", "g")]),
        (
            "OffsetFetch",
            {"groups": [{"groupId": "g"}, {"groupId": "h"}]},
            [Destination("group", "g"), Destination("group", "h")],
        ),
        ("OffsetFetch", {"groupId": "g"}, [Destination("group", "g")]),
        ("DescribeGroups", {"groups": ["g"]}, [Destination("group", "g")]),
        ("ConsumerGroupDescribe", {"groupIds": ["g"]}, [Destination("group", "g")]),
        ("JoinGroup", {"groupId": "g", "protocols": []}, [Destination("group", "g")]),
        ("TxnOffsetCommit", {"transactionalId": "t", "groupId": "g"}, [Destination("group", "g")]),
        ("AddOffsetsToTxn", {"transactionalId": "t", "groupId": "g"}, [Destination("transaction", "t")]),
        ("EndTxn", {"transactionalId": "t"}, [Destination("transaction", "t")]),
        ("AddPartitionsToTxn", {"v3AndBelowTransactionalId": "t"}, [Destination("transaction", "t")]),
        ("AddPartitionsToTxn", {"transactions": [{"transactionalId": "t"}]}, [Destination("transaction", "t")]),
        ("InitProducerId", {"transactionalId": "t"}, [Destination("transaction", "t")]),
        ("InitProducerId", {"transactionalId": None}, [Destination("any")]),
        ("DescribeConfigs", {"resources": [{"resourceType": "TOPIC", "resourceName": "7"}]}, [Destination("any")]),
        (
            "DescribeConfigs",
            {"resources": [{"resourceType": "BROKER", "resourceName": "7"}]},
            [Destination("broker", number=7)],
        ),
        (
            "IncrementalAlterConfigs",
            {"resources": [{"resourceType": "BROKER_LOGGER", "resourceName": "7"}]},
            [Destination("broker", number=7)],
        ),
        (
            "IncrementalAlterConfigs",
            {"resources": [{"resourceType": "BROKER", "resourceName": ""}]},
            [Destination("any")],
        ),
    ],
)
def test_whom_follows_from_the_api_and_what_it_names(
    api: str, document: dict[str, Any], meant: list[Destination]
) -> None:
    assert asked(api, document) == meant


@pytest.mark.parametrize("api", ["Fetch", "Produce", "DescribeGroups", "OffsetCommit"])
def test_a_request_that_names_nothing_is_asked_back(api: str) -> None:
    with pytest.raises(ConfigurationError, match=api):
        asked(api, {})


def test_every_api_that_leaders_are_asked_for_says_where_its_partitions_stand() -> None:
    asked = {
        name
        for name, api in API_BY_NAME.items()
        if api.request.ROUTE.target in (RequestTarget.LEADER, RequestTarget.REPLICA)
    }
    assert asked == {*destination._LEADER, "WriteTxnMarkers"}


CLIENTS = [api for api in API_BY_NAME.values() if api.scope == "client"]


@pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.name)
def test_every_api_has_somebody_to_ask_or_asks_back(api: Any) -> None:
    plain = {
        RequestTarget.ANY: "any",
        RequestTarget.CONTROLLER: "controller",
        RequestTarget.ALL_BROKERS: "all",
        RequestTarget.SAME_CONNECTION: "any",
    }
    asked = api.request.ROUTE.target
    if asked in plain:
        assert by_default(api.name, api.request()) == [Destination(plain[asked])]
    elif api.name in ("InitProducerId", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"):
        assert by_default(api.name, api.request()) == [Destination("any")]
    elif asked is not RequestTarget.TRANSACTION_COORDINATOR:
        with pytest.raises(ConfigurationError, match="its destination is unknown"):
            by_default(api.name, api.request())


@pytest.mark.rule(172)
def test_the_fields_of_leaders_tables_are_those_of_the_definitions() -> None:
    for api, (topics, name, partitions, number) in destination._LEADER.items():
        [field] = [field for field in API_BY_NAME[api].request.FIELDS if field.name == topics]
        assert isinstance(field.of, type)
        fields = {inner.name: inner for inner in field.of.FIELDS}
        assert name in fields, api
        of = fields[partitions].of
        assert (of == "int32") if not number else (isinstance(of, type) and number in {f.name for f in of.FIELDS}), api

"""The table API x error code: complete, derived from the codes' own words, and what the client really does."""

from __future__ import annotations

import re
import zipfile
from typing import Any

import pytest

from kseg.client import KafkaError
from kseg.client.errors import error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction, reaction_by_code
from kseg.client.protocol.lookup import reaction
from kseg.client.protocol.messages.fetch import FETCH_FROM_FOLLOWER
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.broker import jars

E = ErrorCode
#: API name -> code -> what to do: the policies of all requests.
TABLE = {name: api.request.ERRORS for name, api in API_BY_NAME.items() if api.request.ERRORS}
for _api in API_BY_NAME.values():
    TABLE |= _api.request.ERRORS_BY_USE

#: The errors that the protocol guides list for an API, by code.
GUIDES = {
    "Metadata": {3, 5, 17, 29},
    "Fetch": {1, 3, 6, 9, -1},
    "ListOffsets": {3, 6, -1, 43},
    "FindCoordinator": {15, 30},
    "OffsetCommit": {12, 14, 15, 16, 22, 25, 27, 28, 29, 30},
    "OffsetFetch": {3, 14, 16, 22, 25, 29, 30},
    "JoinGroup": {14, 15, 16, 23, 25, 26, 30},
    "SyncGroup": {15, 16, 22, 25, 27, 30},
    "Heartbeat": {15, 16, 22, 25, 27, 30},
    "LeaveGroup": {14, 15, 16, 25, 30},
    "ListGroups": {15, 29},
    "DescribeGroups": {14, 15, 16, 30},
    "Produce": {2, 3, 5, 6, 7, 10, 17, 18, 19, 20, 21, 29, 31, 32},
}

#: Those that the documentation of Java's response classes lists.
JAVA = {
    "AddOffsetsToTxn": {16, 15, 14, 49, 47, 90, 48, 30, 53},
    "AddPartitionsToTxn": {16, 15, 14, 48, 49, 47, 90, 29, 53, 3},
    "AlterReplicaLogDirs": {57, 56, 9, -1},
    "ApiVersions": {35, 42},
    "DescribeQuorum": {31, 8, 6, 3},
    "EndTxn": {16, 15, 14, 48, 49, 47, 90, 53},
    "Fetch": {1, 29, 9, 6, 74, 75, 3, 56, 76, 2, 100, 106, 103, -1},
    "InitProducerId": {16, 15, 14, 53, 31, 47, 90},
    "LeaveGroup": {14, 15, 16, 30, 82, 25},
    "ListOffsets": {43, 29, 9, 6, 74, 75, 3, 56, -1, 5, 78},
    "OffsetCommit": {3, 7, 12, 14, 15, 16, 22, 25, 27, 28, 29, 30, 49, 48, 69, 113},
    "OffsetDelete": {86, 29, 3, 14, 15, 16, 30, 24, 69, 68},
    "OffsetFetch": {3, 29, 88, 14, 15, 16, 30, 25, 113},
    "OffsetForLeaderEpoch": {29, 9, 6, 74, 75, 3, 56, -1},
    "Produce": {2, 3, 6, 10, 17, 18, 19, 20, 21, 29, 43, 47, 31, 53, 87, 48, 49},
    "TxnOffsetCommit": {47, 16, 15, 14, 12, 30, 28, 53, 43, 7, 25, 82, 22},
    "UpdateFeatures": {31, 41, 42, 96},
    "WriteTxnMarkers": {2, 47, 3, 6, 10, 18, 19, 20, 21, 52, 7, 31},
}

ROWS = [(api, code) for api, rows in TABLE.items() for code in rows]
BETTER_KNOWN = [(api, code) for api, code in ROWS if TABLE[api][code] is not reaction_by_code(code)]


@pytest.mark.rule(47, 85, 170, 194, 200, 222, 271, 274, 275)
@pytest.mark.parametrize("api", [*GUIDES])
def test_every_error_that_the_guides_list_has_its_row(api: str):
    assert GUIDES[api] <= {int(code) for code in TABLE[api]}


@pytest.mark.parametrize("api", [*JAVA])
def test_every_error_that_javas_documentation_lists_has_its_row(api: str):
    assert JAVA[api] <= {int(code) for code in TABLE[api]}


@pytest.mark.rule(271)
def test_every_error_that_the_definitions_comments_list_has_its_row():
    (path,) = jars.ensure(jars.KAFKA).glob("kafka-clients-*.jar")
    checked = 0
    with zipfile.ZipFile(path) as jar:
        for api in API_BY_NAME:
            text = jar.read(f"common/message/{api}Response.json").decode()
            comments = "\n".join(line for line in text.splitlines() if line.lstrip().startswith("//"))
            listed = comments.partition("Supported errors")[2]
            codes = {ErrorCode[name] for name in re.findall(r"^\s*// - ([A-Z_]+) ", listed, re.MULTILINE)}
            assert codes <= set(TABLE.get(api, {})), api
            checked += len(codes)
    assert checked > 15


def test_every_api_that_a_client_may_call_has_rows():
    codec_only = {"WriteTxnMarkers"}
    clients = {name for name, api in API_BY_NAME.items() if getattr(api, "scope", "client") == "client"}
    assert clients <= set(TABLE) | codec_only


@pytest.mark.parametrize("code", list(ErrorCode))
def test_what_is_not_told_by_the_api_is_the_codes_own_word(code: ErrorCode):
    assert reaction("an API without rows", code) is reaction_by_code(code)
    if code not in (E.NOT_CONTROLLER, E.REBOOTSTRAP_REQUIRED):
        assert reaction_by_code(code).retriable == code.retriable
        assert (reaction_by_code(code) is Reaction.REFRESH) == code.refresh_metadata
        assert (reaction_by_code(code) is Reaction.FIND_COORDINATOR) == code.refresh_coordinator


def test_the_two_codes_that_say_more_than_java_does():
    assert reaction("CreateTopics", E.NOT_CONTROLLER) is Reaction.REFRESH
    assert reaction("Metadata", E.REBOOTSTRAP_REQUIRED) is Reaction.REBOOTSTRAP


@pytest.mark.rule(275)
@pytest.mark.parametrize(
    ("api", "code", "kind"),
    [
        ("Fetch", 1, Reaction.RESET_OFFSET),
        (FETCH_FROM_FOLLOWER, 1, Reaction.TO_LEADER),
        (FETCH_FROM_FOLLOWER, 78, Reaction.TO_LEADER),
        (FETCH_FROM_FOLLOWER, 29, Reaction.FAIL),
        ("Fetch", 70, Reaction.NEW_SESSION),
        ("Fetch", 71, Reaction.NEW_SESSION),
        ("Fetch", 78, Reaction.AGAIN),
        ("Fetch", 74, Reaction.REFRESH),
        ("Fetch", 75, Reaction.AGAIN),
        ("Fetch", -1, Reaction.AGAIN),
        (FETCH_FROM_FOLLOWER, -1, Reaction.TO_LEADER),
        ("ListOffsets", -1, Reaction.AGAIN),
        ("OffsetForLeaderEpoch", -1, Reaction.AGAIN),
        ("DeleteRecords", -1, Reaction.FAIL),
        ("Metadata", 9, Reaction.DONE),
        ("Heartbeat", 27, Reaction.REJOIN),
        ("Heartbeat", 22, Reaction.JOIN_AFRESH),
        ("Heartbeat", 25, Reaction.JOIN_AFRESH),
        ("Heartbeat", 82, Reaction.FAIL),
        ("Heartbeat", 16, Reaction.FIND_COORDINATOR),
        ("JoinGroup", 79, Reaction.REJOIN),
        ("LeaveGroup", 25, Reaction.DONE),
        ("ConsumerGroupHeartbeat", 110, Reaction.JOIN_AFRESH),
        ("Produce", 10, Reaction.SPLIT),
        ("Produce", 46, Reaction.DONE),
        ("Produce", 45, Reaction.NEW_PRODUCER),
        ("Produce", 120, Reaction.ABORT),
        ("EndTxn", 120, Reaction.ABORT),
        ("EndTxn", 51, Reaction.AGAIN),
        ("EndTxn", 90, Reaction.FAIL),
        ("DeleteTopics", 3, Reaction.FAIL),
        ("DescribeTopicPartitions", 3, Reaction.REFRESH),
    ],
)
def test_what_an_api_knows_better(api: str, code: int, kind: Reaction):
    assert reaction(api, code) is kind


def test_an_unknown_code_keeps_its_number_and_is_never_tried_again():
    assert reaction("Fetch", 9999) is Reaction.FAIL
    error = error_from_code(9999, "Fetch")
    assert (error.code, error.reaction, error.retriable) == (9999, Reaction.FAIL, False)


@pytest.mark.rule(145, 274)
def test_an_error_is_retriable_as_its_row_says():
    for api, code in ROWS:
        error = error_from_code(code, api)
        assert error.reaction is TABLE[api][code], (api, code)
        assert error.retriable is TABLE[api][code].retriable, (api, code)


def test_some_rows_do_differ_from_the_codes_own_word():
    assert 30 < len(BETTER_KNOWN) < len(ROWS) / 2


#: Each kind of reaction once, by API and code: what the cluster does before it sends again, if it does.
KINDS = {kind: next((api, code) for api, code in ROWS if TABLE[api][code] is kind) for kind in Reaction}


@pytest.mark.parametrize("kind", list(Reaction), ids=lambda kind: kind.name)
def test_the_cluster_does_what_the_table_says(fake: Any, connect: Any, kind: Reaction):
    api, code = KINDS[kind]
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(error_code=code), lambda _: ListGroupsResponse())

    def check(response: ListGroupsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, api)

    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata([])
    if kind.retriable:
        cluster.send(ListGroupsRequest(), coordinator=("group", "g"), check=check)
    else:
        with pytest.raises(KafkaError) as caught:
            cluster.send(ListGroupsRequest(), coordinator=("group", "g"), check=check)
        assert caught.value.code == code
    found_again = kind in (Reaction.FIND_COORDINATOR, Reaction.REBOOTSTRAP)
    assert len(fake.requests(ListGroupsRequest)) == (2 if kind.retriable else 1)
    assert len(fake.requests(FindCoordinatorRequest)) == (2 if found_again else 1)
    cluster.metadata([])
    assert len(fake.requests(MetadataRequest)) == (2 if kind in (Reaction.REFRESH, Reaction.REBOOTSTRAP) else 1)

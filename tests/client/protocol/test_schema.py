"""Message objects as values."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from kseg.client.protocol.messages.connection import RequestHeader
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.reader import reader_source
from kseg.client.protocol.writer import writer_source


def test_fields_have_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.max_bytes, request.replica_id, request.session_epoch, request.cluster_id) == (
        0x7FFFFFFF,
        -1,
        -1,
        None,
    )
    assert request.replica_state == FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert MetadataRequest().topics == []
    assert MetadataRequest().allow_auto_topic_creation


def test_lists_and_structs_are_not_shared_between_messages() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchRequest.FetchTopic())
    one.replica_state.replica_id = 5
    assert other == FetchRequest()


def test_messages_are_equal_by_value_and_class() -> None:
    assert FetchRequest(min_bytes=1) == FetchRequest(min_bytes=1)
    assert FetchRequest(min_bytes=1) != FetchRequest(min_bytes=2)
    assert FetchRequest() != MetadataRequest()
    with pytest.raises(TypeError):
        hash(FetchRequest())


def test_a_message_shows_what_differs_from_its_defaults() -> None:
    topic = FetchRequest.FetchTopic(topic="t")
    assert repr(FetchRequest(max_wait_ms=5, topics=[topic])) == (
        "FetchRequest(max_wait_ms=5, topics=[FetchRequest.FetchTopic(topic='t')])"
    )
    assert repr(FetchResponse.PartitionData(records=memoryview(bytes(100)))).endswith(
        "PartitionData(records=<100 bytes>)"
    )
    assert repr(FetchResponse.PartitionData(records=b"few")).endswith("PartitionData(records=b'few')")


def test_messages_survive_pickling_and_copying() -> None:
    request = FetchRequest(topics=[FetchRequest.FetchTopic(partitions=[FetchRequest.FetchPartition(partition=4)])])
    assert pickle.loads(pickle.dumps(request)) == request
    assert copy.deepcopy(request) == request


def test_messages_take_no_attributes_that_they_do_not_define() -> None:
    with pytest.raises(TypeError, match="max_wait"):
        FetchRequest(max_wait=5)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().max_wait = 5  # type: ignore[attr-defined]


def test_the_constructor_tells_its_fields() -> None:
    assert list(inspect.signature(RequestHeader).parameters) == [
        "request_api_key",
        "request_api_version",
        "correlation_id",
        "client_id",
    ]


def test_generated_functions_can_be_looked_at() -> None:
    assert reader_source(RequestHeader, 1, False).text == (
        "def read_RequestHeader(buf, pos, end):\n"
        "    o = new(cls)\n"
        "    if end - pos < 8:\n"
        "        raise short(pos, 8, end)\n"
        "    o.request_api_key, o.request_api_version, o.correlation_id = unpack_from_hhi(buf, pos)\n"
        "    pos += 8\n"
        "    o.client_id, pos = read_nullable_string(buf, pos, end)\n"
        "    return o, pos\n"
    )
    assert writer_source(RequestHeader, 2, True).text == (
        "def write_RequestHeader(o, put):\n"
        "    put(pack_hhi(o.request_api_key, o.request_api_version, o.correlation_id))\n"
        "    if o.client_id is None:\n"
        "        put(b'\\xff\\xff')\n"
        "    else:\n"
        "        put_string(put, o.client_id)\n"
        "    put(b'\\x00')\n"
    )

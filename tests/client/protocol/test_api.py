"""Whole frames: headers and bodies."""

from __future__ import annotations

import pytest

from kseg.client.protocol.api import api_of, decode_response, encode_request
from kseg.client.protocol.errors import DecodeError, EncodeError
from kseg.client.protocol.messages.brokers import ControlledShutdownRequest
from kseg.client.protocol.messages.connection import ApiVersionsRequest, ApiVersionsResponse
from kseg.client.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from kseg.client.protocol.registry import API_BY_KEY, API_BY_NAME, decode_request, encode_response


@pytest.mark.rule(18)
def test_the_header_of_a_plain_request() -> None:
    frame = encode_request(0, 9, "me", HeartbeatRequest(group_id="g"))
    assert frame.hex(" ") == "00 0c 00 00 00 00 00 09 00 02 6d 65 00 01 67 00 00 00 00 00 00"


def test_the_header_of_a_flexible_request_keeps_the_long_client_id() -> None:
    frame = encode_request(4, 9, "me", HeartbeatRequest(group_id="g"))
    assert frame.hex(" ") == "00 0c 00 04 00 00 00 09 00 02 6d 65 00 02 67 00 00 00 00 01 00 00"


@pytest.mark.rule(19)
def test_a_client_may_have_no_id() -> None:
    header, request = decode_request(encode_request(4, 9, None, HeartbeatRequest(group_id="g")))
    assert (header.client_id, header.correlation_id, header.request_api_version) == (None, 9, 4)
    assert request == HeartbeatRequest(group_id="g")


def test_a_client_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="client_id"):
        encode_request(4, 9, "c" * 40000, HeartbeatRequest())


@pytest.mark.rule(16)
@pytest.mark.parametrize("version", range(5))
def test_a_response_is_read_with_its_correlation_id(version: int) -> None:
    frame = encode_response(version, 77, HeartbeatResponse(error_code=27))
    assert decode_response(api_of(HeartbeatRequest()), version, frame) == (77, HeartbeatResponse(error_code=27))


@pytest.mark.rule(21)
def test_an_api_versions_response_has_the_oldest_header_in_all_versions() -> None:
    answer = ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, max_version=13)])
    for version in range(5):
        frame = encode_response(version, 1, answer)
        assert frame[:6] == b"\0\0\0\1\0\0"
        assert decode_response(api_of(ApiVersionsRequest), version, frame) == (1, answer)


def test_a_broker_that_is_too_old_answers_api_versions_in_version_0() -> None:
    offered = [ApiVersionsResponse.ApiVersion(api_key=18, max_version=2)]
    answer = ApiVersionsResponse(error_code=35, api_keys=offered)
    frame = encode_response(0, 5, answer)
    assert decode_response(api_of(ApiVersionsRequest), 4, frame) == (5, answer)


def test_an_api_is_found_by_key_name_request_and_class() -> None:
    api = api_of(HeartbeatRequest)
    assert api is API_BY_KEY[12] is API_BY_NAME["Heartbeat"] is api_of(HeartbeatRequest())
    assert (api.key, api.name, api.versions) == (12, "Heartbeat", (0, 4))


@pytest.mark.rule(20, 262, 283)
def test_the_request_header_of_controlled_shutdown_0_has_no_client_id() -> None:
    request = ControlledShutdownRequest(broker_id=3)
    assert encode_request(0, 9, "me", request).hex(" ") == "00 07 00 00 00 00 00 09 00 00 00 03"
    assert encode_request(1, 9, "me", request).hex(" ") == "00 07 00 01 00 00 00 09 00 02 6d 65 00 00 00 03"
    header, read = decode_request(encode_request(0, 9, "me", request))
    assert (header.request_api_key, header.correlation_id, header.client_id, read) == (7, 9, "", request)


def test_a_request_of_an_unknown_api_is_refused() -> None:
    with pytest.raises(DecodeError, match="API key 999"):
        decode_request(bytes.fromhex("03e7 0000 00000001 ffff"))

"""JSON to bytes and back on the command line: bytes that Kafka's own classes write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kseg.client.protocol.api import encode_request
from kseg.client.protocol.embedded.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.registry import decode_request
from kseg.jobs.cli import cli

#: What the generated classes of kafka-clients 4.3.1 make of the JSON: name, side, version, JSON, hex.
GOLDEN = [
    (
        "Metadata", "request", 12, {"topics": [{"name": "orders"}], "allowAutoTopicCreation": False},
        "0200000000000000000000000000000000076f726465727300000000",
    ),
    ("Metadata", "request", 1, {"topics": None}, "ffffffff"),
    ("Metadata", "request", 1, {"topics": []}, "00000000"),
    (
        "OffsetFetch", "response", 8,
        {"groups": [{"groupId": "g", "errorCode": "GROUP_AUTHORIZATION_FAILED", "topics": [
            {"name": "t", "partitions": [{"partitionIndex": 3, "committedOffset": 42, "metadata": "m"}]}
        ]}]},
        "000000000202670202740200000003000000000000002affffffff026d00000000001e0000",
    ),
    (
        "ApiVersions", "response", 3,
        {"apiKeys": [{"apiKey": "Fetch", "minVersion": 4, "maxVersion": 18}], "finalizedFeaturesEpoch": 7},
        "00000200010004001200000000000101080000000000000007",
    ),
    ("FindCoordinator", "request", 1, {"key": "orders-etl", "keyType": "TRANSACTION"}, "000a6f72646572732d65746c01"),
]  # fmt: skip
IDS = [f"{name}-{side}-v{version}-{number}" for number, (name, side, version, _, _) in enumerate(GOLDEN)]


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["api", *args], input=stdin)


@pytest.mark.parametrize(("name", "side", "version", "document", "hexed"), GOLDEN, ids=IDS)
def test_bytes_are_those_of_kafka_both_ways(name: str, side: str, version: int, document: object, hexed: str) -> None:
    encoded = run("encode", name, side, "--version", str(version), json.dumps(document))
    assert (encoded.exit_code, encoded.stdout) == (0, hexed + "\n")
    decoded = run("decode", name, side, "--version", str(version), hexed)
    assert decoded.exit_code == 0
    again = run("encode", name, side, "--version", str(version), decoded.stdout)
    assert again.stdout == hexed + "\n"
    raw = run("decode", name, side, "--version", str(version), "--raw", hexed)
    assert run("encode", name, side, "--version", str(version), raw.stdout).stdout == hexed + "\n"


def test_raw_is_without_names() -> None:
    hexed = GOLDEN[3][4]
    named, raw = (json.loads(run("decode", "OffsetFetch", "response", "--version", "8", hexed, *flag).stdout)
                  for flag in ((), ("--raw",)))  # fmt: skip
    assert named["groups"][0]["errorCode"] == "GROUP_AUTHORIZATION_FAILED"
    assert raw["groups"][0]["errorCode"] == 30


@pytest.mark.parametrize("hexed", ["0xffffffff", "ffff ffff\n", "FFFFFFFF"])
def test_hex_is_read_as_people_write_it(hexed: str) -> None:
    decoded = run("decode", "Metadata", "request", "--version", "1", hexed)
    assert json.loads(decoded.stdout) == {"topics": None}


def test_both_come_from_stdin_and_from_files(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text('{"topics": null}')
    assert run("encode", "Metadata", "request", "--version", "1", f"@{file}").stdout == "ffffffff\n"
    assert run("encode", "Metadata", "request", "--version", "1", stdin='{"topics": null}').stdout == "ffffffff\n"
    file.write_text("ffffffff\n")
    assert json.loads(run("decode", "Metadata", "request", "--version", "1", f"@{file}").stdout) == {"topics": None}
    assert (
        json.loads(run("decode", "Metadata", "request", "--version", "1", "-", stdin="ffffffff").stdout)["topics"]
        is None
    )


def test_with_header_it_is_the_frame_of_the_wire() -> None:
    document = {"header": {"correlationId": 7, "clientId": "me"}, "body": {"topics": []}}
    encoded = run("encode", "metadata", "request", "--version", "12", "--with-header", json.dumps(document))
    frame = bytes.fromhex(encoded.stdout)
    assert frame == encode_request(12, 7, "me", MetadataRequest(topics=[]))
    header, request = decode_request(frame)
    assert (header.request_api_key, header.request_api_version, request) == (3, 12, MetadataRequest(topics=[]))
    decoded = json.loads(run("decode", "Metadata", "request", "--version", "12", "--with-header", frame.hex()).stdout)
    assert decoded["header"] == {
        "requestApiKey": "Metadata", "requestApiVersion": 12, "correlationId": 7, "clientId": "me"
    }  # fmt: skip
    again = run("encode", "Metadata", "request", "--version", "12", "--with-header", json.dumps(decoded))
    assert again.stdout == encoded.stdout


@pytest.mark.rule(21)
def test_the_header_of_an_api_versions_answer_is_never_flexible() -> None:
    document = {"header": {"correlationId": 7}, "body": {}}
    encoded = run("encode", "ApiVersions", "response", "--version", "3", "--with-header", json.dumps(document))
    assert encoded.stdout.startswith("00000007" + "0000" + "01")


def test_a_header_that_names_another_api_is_refused() -> None:
    document = {"header": {"requestApiKey": "Fetch"}, "body": {}}
    refused = run("encode", "Metadata", "request", "--version", "12", "--with-header", json.dumps(document))
    assert refused.exit_code == 2
    assert "requestApiKey" in refused.stderr


def test_formats_inside_of_bytes_are_data() -> None:
    name, document = "ConsumerProtocolSubscription", {"topics": ["orders"], "rackId": "a"}
    body = run("encode", name, "data", "--version", "3", json.dumps(document)).stdout.strip()
    whole = run("encode", name, "data", "--version", "3", "--with-header", json.dumps(document)).stdout.strip()
    assert whole == "0003" + body
    assert whole == encode_subscription(ConsumerProtocolSubscription(topics=["orders"], rack_id="a"), 3).hex()
    for args in ((body,), (whole, "--with-header")):
        told = json.loads(run("decode", name.lower(), "data", "--version", "3", *args).stdout)
        assert (told["topics"], told["rackId"]) == (["orders"], "a")
    refused = run("decode", name, "data", "--version", "1", "--with-header", whole)
    assert (refused.exit_code, "v3" in refused.stderr) == (2, True)
    assert "kseg api docs" in run("encode", "Metadata", "data", "--version", "1", "{}").stderr


def test_an_acl_of_the_metadata_log_is_told_by_names() -> None:
    document = {"resourceType": "GROUP", "patternType": "PREFIXED", "operation": "READ", "permissionType": "DENY"}
    body = run("encode", "AccessControlEntryRecord", "data", "--version", "0", json.dumps(document)).stdout
    told = json.loads(run("decode", "AccessControlEntryRecord", "data", "--version", "0", body).stdout)
    assert {name: told[name] for name in document} == document


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("encode", "Metadata", "request", "--version", "12", '{"topics": [{"nmae": "t"}]}'), "topics[0].nmae"),
        (("encode", "Metadata", "request", "--version", "12", "{"), "not JSON"),
        (("encode", "Metadata", "request", "--version", "12", '{"topics": [], "topics": []}'), "twice"),
        (("encode", "Metadata", "request", "--version", "12", "[NaN]"), "NaN"),
        (("encode", "Metadata", "request", "--version", "99", "{}"), "v99"),
        (("encode", "Metadata", "request", "--version", "12", "@nowhere.json"), "nowhere.json"),
        (("encode", "Metdata", "request", "--version", "12", "{}"), "did you mean Metadata?"),
        (("decode", "Metadata", "request", "--version", "1", "ffffff"), "these bytes are no Metadata request v1"),
        (("decode", "Metadata", "request", "--version", "1", "ffffffff00"), "left"),
        (("decode", "Metadata", "request", "--version", "1", "xyz"), "no hexadecimal"),
        (("decode", "Metadata", "request", "--version", "1", "@nowhere"), "nowhere"),
    ],
)
def test_what_is_wrong_is_told_with_exit_2(args: tuple[str, ...], told: str) -> None:
    refused = run(*args)
    assert refused.exit_code == 2
    assert told in refused.stderr
    assert refused.stdout == ""


def test_a_string_that_is_too_long_is_told_by_its_json_path() -> None:
    document = json.dumps({"topics": [{"name": "t" * 40_000}]})
    refused = run("encode", "Metadata", "request", "--version", "8", stdin=document)
    assert refused.exit_code == 2
    assert "topics[0].name" in refused.stderr

"""AWS' own client against a server that speaks Glue's protocol: versions by UUID and by name, and what errors mean."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glue_server import CREDENTIALS, REGION, Fault, GlueServer, glue_server
from kseg.client.errors import ConfigError
from kseg.client.registry.errors import (
    AwsRejected,
    RegistryUnavailable,
    SchemaNotFound,
    SchemaRegistryError,
    VersionPending,
)
from kseg.client.registry.glue import GlueRegistry
from kseg.client.registry.opening import open_registry, registry_config

pytest.importorskip("botocore", reason="needs the extra `glue`")

Opened = Callable[..., GlueRegistry]


@pytest.fixture(autouse=True)
def nothing_of_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the machine's configuration of AWS nor a server for the roles of instances."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def shared_server() -> Iterator[GlueServer]:
    with glue_server() as server:
        yield server


@pytest.fixture
def server(shared_server: GlueServer) -> GlueServer:
    for kept in (shared_server.faults, shared_server.asked, shared_server.logins):
        kept.clear()
    shared_server.versions.clear()
    return shared_server


@pytest.fixture
def opened(server: GlueServer) -> Iterator[Opened]:
    made: list[GlueRegistry] = []

    def make(**properties: str) -> GlueRegistry:
        given = {"type": "glue", "region": REGION, "endpoint": server.url, "retries.wait.ms": "1"}
        registry = open_registry(registry_config(given | {"retries.max.wait.ms": "5"} | properties))
        assert isinstance(registry, GlueRegistry)
        made.append(registry)
        return registry

    yield make
    for registry in made:
        registry.close()


@pytest.mark.parametrize("form", ["AVRO", "JSON", "PROTOBUF"])
def test_a_version_is_found_by_its_uuid_and_asked_for_once(server: GlueServer, opened: Opened, form: str) -> None:
    version = server.register("orders", "the text", form=form)
    registry = opened()
    schema = registry.schema(str(version).upper())
    assert (schema.text, schema.type, schema.guid, schema.id) == ("the text", form, str(version), None)
    assert registry.schema(str(version)) == schema
    assert registry.named(str(version)) == [("orders", 1)]
    assert server.asked == [("GetSchemaVersion", {"SchemaVersionId": str(version)})]
    assert f"/{REGION}/glue/aws4_request" in server.logins[0]
    assert registry.resolve(schema).references == ()


def test_versions_of_a_schema_are_those_that_are_available(server: GlueServer, opened: Opened) -> None:
    status = ["AVAILABLE", "AVAILABLE", "FAILURE", "AVAILABLE", "DELETING", "PENDING"]
    made = [server.register("orders", f"text {n}", status=one) for n, one in enumerate(status)]
    registry = opened()
    assert registry.versions("orders") == [1, 2, 4]
    latest = registry.latest("orders")
    assert (latest.subject, latest.version, latest.schema.guid) == ("orders", 4, str(made[3]))
    assert registry.version("orders", 2).schema.text == "text 1"


def test_another_registry_has_its_own_schemas(server: GlueServer, opened: Opened) -> None:
    version = server.register("orders", "theirs", registry="shop")
    assert opened(**{"registry.name": "shop"}).latest("orders").schema.text == "theirs"
    registry = opened()
    with pytest.raises(SchemaNotFound):
        registry.versions("orders")
    assert registry.schema(str(version)).text == "theirs"
    assert registry.named(str(version)) == []
    assert registry.url == f"{server.url}/default-registry"


def test_what_there_is_not_is_not_found(server: GlueServer, opened: Opened) -> None:
    server.register("orders", "text", status="FAILURE")
    registry = opened()
    with pytest.raises(SchemaNotFound, match="EntityNotFoundException"):
        registry.schema(str(uuid.uuid4()))
    with pytest.raises(SchemaNotFound, match="no available version of schema orders"):
        registry.latest("orders")
    with pytest.raises(SchemaNotFound, match="the status FAILURE"):
        registry.version("orders", 1)
    with pytest.raises(ValueError, match="no UUID"):
        registry.schema(5)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(400, "ThrottlingException", "Rate exceeded"),
        Fault(429, "TooManyRequestsException"),
        Fault(500, "InternalServiceException"),
        Fault(503, ""),
    ],
    ids=lambda fault: f"{fault.status} {fault.code}",
)
def test_a_passing_error_is_tried_again_until_the_deadline(server: GlueServer, opened: Opened, fault: Fault) -> None:
    version = server.register("orders", "text")
    server.faults += [fault] * 3
    assert opened().schema(str(version)).text == "text"
    assert len(server.asked) == 4
    server.faults += [fault] * 1_000
    with pytest.raises(RegistryUnavailable) as caught:
        opened(**{"default.api.timeout.ms": "50"}).schema(str(version))
    assert caught.value.retriable
    assert fault.code in caught.value.message


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "AccessDeniedException"), (400, "UnrecognizedClientException"), (400, "ExpiredTokenException"), (403, "")],
)
def test_a_rejection_names_the_permissions_and_is_not_tried_again(
    server: GlueServer, opened: Opened, status: int, code: str
) -> None:
    server.faults.append(Fault(status, code, "User is not authorized"))
    with pytest.raises(AwsRejected, match="glue:GetSchemaVersion") as caught:
        opened().schema(str(uuid.uuid4()))
    assert not caught.value.retriable
    assert len(server.asked) == 1


def test_another_error_is_told_with_its_code(server: GlueServer, opened: Opened) -> None:
    server.faults.append(Fault(400, "InvalidInputException", "1 validation error"))
    with pytest.raises(SchemaRegistryError, match=r"InvalidInputException.*1 validation error") as caught:
        opened().versions("orders")
    assert not caught.value.retriable


def test_a_pending_version_is_waited_for(server: GlueServer, opened: Opened) -> None:
    version = server.register("orders", "text", status="PENDING")
    with pytest.raises(VersionPending, match="is PENDING") as caught:
        opened(**{"default.api.timeout.ms": "50"}).schema(str(version))
    assert caught.value.retriable
    server.versions[str(version)]["Status"] = "AVAILABLE"
    assert opened().schema(str(version)).text == "text"


def test_no_server_at_the_endpoint_is_unavailable(opened: Opened) -> None:
    registry = opened(endpoint="http://127.0.0.1:1", **{"default.api.timeout.ms": "50"})
    with pytest.raises(RegistryUnavailable, match="EndpointConnectionError"):
        registry.versions("orders")


def test_without_credentials_what_to_check_is_said(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    with pytest.raises(AwsRejected, match=r"NoCredentialsError.*aws sts get-caller-identity"):
        opened().versions("orders")


def test_a_region_is_the_propertys_or_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="AWS_REGION"):
        open_registry(registry_config({"type": "glue"}))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    with open_registry(registry_config({"type": "glue"})) as registry:
        assert registry.url == "https://glue.eu-west-1.amazonaws.com/default-registry"
    with open_registry(registry_config({"type": "glue", "region": "eu-west-3"})) as registry:
        assert registry.url == "https://glue.eu-west-3.amazonaws.com/default-registry"


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(ConfigError, match=r"kafka-segment-etl\[glue\]"):
        open_registry(registry_config({"type": "glue", "region": REGION}))

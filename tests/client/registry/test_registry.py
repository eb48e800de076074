"""Schemas from a registry: kept, resolved, and errors that say what to do."""

from __future__ import annotations

import base64
import pickle
from typing import Any, Literal

import pytest

from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.errors import RegistryRejected, RegistryUnavailable, SchemaNotFound, SchemaRegistryError
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import ApicurioId, Reference, Schema

QUICK = {"retries.wait.ms": "1", "retries.max.wait.ms": "5", "default.api.timeout.ms": "400"}
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def opened(server: Any, **properties: str) -> SchemaRegistry:
    return SchemaRegistry(RegistryConfig.from_properties({"url": server.url} | QUICK | properties))


def test_a_schema_is_asked_for_once_and_over_one_connection(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/7"] = (200, {"schema": ORDER})
    registry_server.answers["/schemas/ids/8"] = (200, {"schema": "{}", "schemaType": "JSON", "guid": "g"})
    with opened(registry_server) as registry:
        assert registry.schema(7) == registry.schema(7) == Schema(ORDER, "AVRO", (), 7)
        assert registry.schema(8) == Schema("{}", "JSON", (), 8, "g")
    assert [asked.path for asked in registry_server.asked] == ["/schemas/ids/7", "/schemas/ids/8"]
    assert registry_server.connections == 1


def test_versions_of_a_subject_whose_name_needs_quoting(registry_server: Any) -> None:
    base = "/subjects/a%2Fb%20c-value/versions"
    registry_server.answers[base] = (200, [2, 1])
    for name, number in (("1", 1), ("latest", 2)):
        registry_server.answers[f"{base}/{name}"] = (200, {"version": number, "id": 10 + number, "schema": ORDER})
    with opened(registry_server) as registry:
        assert registry.versions("a/b c-value") == [1, 2]
        assert registry.version("a/b c-value", 1).schema.id == 11
        assert registry.latest("a/b c-value").version == registry.latest("a/b c-value").version == 2
    assert len(registry_server.asked) == 4, "the latest is asked for each time"


def test_the_subjects_and_versions_of_an_id(registry_server: Any) -> None:
    names = [{"subject": "a-value", "version": 2}, {"subject": "b", "version": 1}]
    registry_server.answers["/schemas/ids/7/versions"] = (200, names)
    registry_server.answers["/schemas/ids/7/versions?subject=%3A.prod%3A"] = (200, [])
    registry_server.answers["/schemas/ids/8/versions"] = (200, ["a-value"])
    with opened(registry_server) as registry:
        assert registry.named(7) == [("a-value", 2), ("b", 1)]
        assert registry.named(7, ":.prod:x") == []
        with pytest.raises(SchemaRegistryError, match="without subjects and versions"):
            registry.named(8)


def test_a_guid_is_checked_before_it_is_part_of_a_path(registry_server: Any) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    registry_server.answers[f"/schemas/guids/{guid}"] = (200, {"schema": ORDER, "guid": guid})
    with opened(registry_server) as registry:
        assert registry.schema(guid.upper()).guid == guid
        with pytest.raises(ValueError, match="is no GUID"):
            registry.schema("../config")


@pytest.mark.parametrize("body", [{"error_code": 404, "message": "HTTP 404 Not Found"}, {"detail": "nothing"}, "text"])
def test_another_server_is_not_taken_for_a_registry_without_the_schema(registry_server: Any, body: Any) -> None:
    registry_server.answers["/schemas/ids/9"] = (404, body)
    with (
        opened(registry_server) as registry,
        pytest.raises(SchemaRegistryError, match="not that of a registry's API") as caught,
    ):
        registry.schema(9)
    assert not isinstance(caught.value, SchemaNotFound)
    assert "/apis/ccompat/v7" in str(caught.value)


def test_references_come_before_what_uses_them(registry_server: Any) -> None:
    def add(subject: str, text: str, *references: str) -> None:
        documents = [{"name": f"{name}.proto", "subject": name, "version": 1} for name in references]
        document = {"version": 1, "id": 1, "schema": text, "schemaType": "PROTOBUF", "references": documents}
        registry_server.answers[f"/subjects/{subject}/versions/1?deleted=true"] = (200, document)

    add("money", "m")
    add("item", "i", "money")
    top = Schema("top", "PROTOBUF", tuple(Reference(f"{name}.proto", name, 1) for name in ("item", "money")))
    with opened(registry_server) as registry:
        resolved = registry.resolve(top)
    assert [(name, schema.text) for name, schema in resolved.references] == [("money.proto", "m"), ("item.proto", "i")]


CONTEXT = "%3A.prod%3A"


def test_ids_are_those_of_a_subjects_context(registry_server: Any) -> None:
    """`:.` is the default context's own name."""
    registry_server.answers["/schemas/ids/5"] = (200, {"schema": "default"})
    registry_server.answers[f"/schemas/ids/5?subject={CONTEXT}"] = (200, {"schema": "prod"})
    with opened(registry_server) as registry:
        for subject, text in ((":.prod:orders-value", "prod"), ("orders-value", "default"), (":.prod:x", "prod")):
            assert registry.schema(5, subject).text == text
        assert registry.schema(5).text == registry.schema(5, ":.:orders-value").text == "default"
    assert len(registry_server.asked) == 2


@pytest.mark.parametrize("by", ["version", "id", "guid"])
def test_references_are_in_the_context_of_what_uses_them(registry_server: Any, by: str) -> None:
    """Unless they name one themselves; those of references too."""

    def document(text: str, *subjects: str) -> tuple[int, Any]:
        references = [{"name": name.rpartition(":")[2], "subject": name, "version": 1} for name in subjects]
        return 200, {"version": 1, "id": 5, "schema": text, "references": references}

    guid = "89791762-2336-4186-9674-299b90a802e2"
    paths = {"version": f"/subjects/{CONTEXT}o/versions/1", "id": f"/schemas/ids/5?subject={CONTEXT}"}
    registry_server.answers[paths.get(by, f"/schemas/guids/{guid}")] = document("o", "item", ":.eu:money")
    registry_server.answers[f"/subjects/{CONTEXT}item/versions/1?deleted=true"] = document("i", "unit")
    registry_server.answers[f"/subjects/{CONTEXT}unit/versions/1?deleted=true"] = document("u")
    registry_server.answers["/subjects/%3A.eu%3Amoney/versions/1?deleted=true"] = document("m", "rate")
    registry_server.answers["/subjects/%3A.eu%3Arate/versions/1?deleted=true"] = document("r")
    with opened(registry_server) as registry:
        schemas = {
            "version": lambda: registry.version(":.prod:o", 1).schema,
            "id": lambda: registry.schema(5, ":.prod:o"),
            "guid": lambda: registry.schema(guid, ":.prod:o"),
        }
        resolved = registry.resolve(schemas[by]())
    assert [schema.text for _, schema in resolved.references] == ["u", "i", "r", "m"]


def test_a_deleted_version_is_still_what_others_reference(registry_server: Any) -> None:
    path = "/subjects/a/versions/1"
    registry_server.answers[path] = (404, {"error_code": 40402, "message": "Version 1 not found."})
    registry_server.answers[f"{path}?deleted=true"] = (200, {"version": 1, "id": 1, "schema": ORDER})
    with opened(registry_server) as registry:
        assert registry.resolve(Schema("t", references=(Reference("Order", "a", 1),))).references[0][1].text == ORDER


def test_schemas_that_reference_one_another_are_refused(registry_server: Any) -> None:
    reference = [{"name": "a.proto", "subject": "a", "version": 1}]
    document = {"version": 1, "id": 1, "schema": "a", "schemaType": "PROTOBUF", "references": reference}
    registry_server.answers["/subjects/a/versions/1?deleted=true"] = (200, document)
    with opened(registry_server) as registry, pytest.raises(SchemaRegistryError, match="reference one another"):
        registry.resolve(Schema("t", "PROTOBUF", (Reference("a.proto", "a", 1),)))


def test_a_schema_is_registered_and_checked(registry_server: Any) -> None:
    registry_server.answers["/subjects/s/versions"] = (200, {"id": 5})
    path = "/compatibility/subjects/s/versions/latest?verbose=true"
    registry_server.answers[path] = (200, {"is_compatible": False, "messages": ["READER_FIELD_MISSING"]})
    schema = Schema(ORDER, references=(Reference("n.C", "c-value", 2),))
    with opened(registry_server) as registry:
        assert registry.register("s", schema) == 5
        assert registry.incompatibilities("s", schema) == ["READER_FIELD_MISSING"]
        registry_server.answers[path] = (200, {"is_compatible": True})
        assert registry.incompatibilities("s", schema) is None
    sent = registry_server.asked[0].body
    assert sent == {
        "schema": ORDER,
        "schemaType": "AVRO",
        "references": [{"name": "n.C", "subject": "c-value", "version": 2}],
    }


@pytest.mark.parametrize(
    ("properties", "header"),
    [
        ({"basic.auth.user.info": "me:pä"}, "Basic " + base64.b64encode("me:pä".encode()).decode()),
        ({"bearer.auth.token": "abc"}, "Bearer abc"),
    ],
)
def test_credentials_are_sent_and_never_shown(registry_server: Any, properties: dict[str, str], header: str) -> None:
    registry_server.answers["/schemas/ids/1"] = (401, {"error_code": 401, "message": "no"})
    with opened(registry_server, **properties) as registry, pytest.raises(RegistryRejected) as caught:
        registry.schema(1)
    assert registry_server.asked[0].headers["Authorization"] == header
    assert len(registry_server.asked) == 1, "a rejection is not tried again"
    assert "check basic.auth.* or bearer.auth.*" in str(caught.value)
    assert not any(value in str(caught.value) for value in properties.values())


@pytest.fixture
def oauth(registry_server: Any) -> dict[str, str]:
    """Properties for the registry's own token endpoint, which gives t1, t2 …"""

    def token(_: Any) -> tuple[int, Any]:
        given = sum(asked.path == "/token" for asked in registry_server.asked)
        return 200, {"access_token": f"t{given}", "expires_in": 3600}

    registry_server.answers["/token"] = token
    return {
        "bearer.auth.issuer.endpoint.url": f"{registry_server.url}/token",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "hunter2",
    }


def accepting(registry_server: Any, token: str) -> None:
    def answer(asked: Any) -> tuple[int, Any]:
        known = asked.headers["Authorization"] == f"Bearer {token}"
        return (200, {"schema": ORDER}) if known else (401, {"error_code": 401, "message": "revoked"})

    registry_server.answers |= {f"/schemas/ids/{number}": answer for number in (1, 2, 3)}


def test_a_kept_token_that_was_revoked_is_replaced(registry_server: Any, oauth: dict[str, str]) -> None:
    with opened(registry_server, **oauth) as registry:
        accepting(registry_server, "t1")
        registry.schema(1)
        accepting(registry_server, "t2")
        assert registry.schema(2).text == ORDER
        accepting(registry_server, "none")
        with pytest.raises(RegistryRejected, match="revoked") as caught:
            registry.schema(3)
    assert not caught.value.retriable
    assert sum(asked.path == "/token" for asked in registry_server.asked) == 3


def test_an_unknown_id_names_the_id_and_the_registry(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/9"] = (404, {"error_code": 40403, "message": "Schema 9 not found"})
    with opened(registry_server) as registry, pytest.raises(SchemaNotFound) as caught:
        registry.schema(9)
    assert caught.value.error_code == 40403
    assert not caught.value.retriable
    assert str(caught.value) == (
        f"the schema registry {registry_server.url} answers /schemas/ids/9 with status 404, error code 40403: "
        "Schema 9 not found"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_failing_registry_is_asked_again(registry_server: Any) -> None:
    answers = iter([(503, b"busy"), (429, {}), (200, {"schema": ORDER})])
    registry_server.answers["/schemas/ids/1"] = lambda asked: next(answers)
    with opened(registry_server) as registry:
        assert registry.schema(1).text == ORDER


def test_a_registry_that_stays_away_is_a_retriable_error(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/1"] = (500, {"error_code": 50001, "message": "store"})
    with opened(registry_server) as registry, pytest.raises(RegistryUnavailable, match="50001: store") as caught:
        registry.schema(1)
    assert caught.value.retriable
    nobody = SchemaRegistry(RegistryConfig.from_properties({"url": "http://127.0.0.1:9"} | QUICK))
    with pytest.raises(RegistryUnavailable, match="does not answer: Connection refused"):
        nobody.schema(1)


def test_the_next_url_is_asked_where_one_does_not_answer(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/1"] = (200, {"schema": ORDER})
    config = RegistryConfig.from_properties({"url": f"http://127.0.0.1:9,{registry_server.url}"} | QUICK)
    with SchemaRegistry(config) as registry:
        assert registry.schema(1).text == ORDER


def test_a_connection_that_the_registry_has_closed_is_opened_again(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/1"] = (200, {"schema": ORDER})
    registry_server.answers["/schemas/ids/2"] = (200, {"schema": "2"})
    with opened(registry_server) as registry:
        assert registry.schema(1).text == ORDER
        for connection in registry._connections:
            assert connection._open is not None
            connection._open.sock.close()  # as the system does where the peer is gone
        assert registry.schema(2).text == "2"


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"schema": 1}',
        b'{"schema": "x", "schemaType": "XML"}',
        b'{"schema": "x", "references": [1]}',
        b'{"schema": "x", "id": true}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_schema_is_an_error_of_the_registry(registry_server: Any, answer: bytes) -> None:
    registry_server.answers["/schemas/ids/1"] = (200, answer)
    with opened(registry_server) as registry, pytest.raises(SchemaRegistryError, match="/schemas/ids/1"):
        registry.schema(1)


def test_a_redirect_is_not_followed(registry_server: Any) -> None:
    registry_server.answers["/schemas/ids/1"] = (302, {})
    with opened(registry_server) as registry, pytest.raises(SchemaRegistryError, match="status 302"):
        registry.schema(1)
    assert len(registry_server.asked) == 1


def test_the_hash_of_a_schema_is_that_of_its_content() -> None:
    assert Schema(ORDER, id=1).hash == Schema(ORDER, id=2, guid="g").hash
    differing = {
        Schema(ORDER).hash,
        Schema(ORDER, "JSON").hash,
        Schema(ORDER, references=(Reference("a", "b", 1),)).hash,
    }
    assert len(differing) == 3


@pytest.mark.parametrize(("version", "path"), [("latest", "versions/latest"), ("2", "versions/2"), (None, "versions")])
def test_compatibility_is_asked_of_one_version_or_of_all(registry_server: Any, version: str | None, path: str) -> None:
    answer = {"is_compatible": False, "messages": ["READER_FIELD_MISSING_DEFAULT_VALUE"]}
    registry_server.answers[f"/compatibility/subjects/o/{path}?verbose=true"] = (200, answer)
    with opened(registry_server) as registry:
        assert registry.incompatibilities("o", Schema(ORDER), version) == ["READER_FIELD_MISSING_DEFAULT_VALUE"]
    (asked,) = registry_server.asked
    assert asked.body == {"schema": ORDER, "schemaType": "AVRO"}


ARTIFACT = "/apis/registry/v3/ids/globalIds/7"


@pytest.mark.parametrize("kind", ["global", "content"])
def test_ids_of_a_known_kind_are_asked_of_apicurios_own_api(
    registry_server: Any, kind: Literal["global", "content"]
) -> None:
    """Each kind counts for itself."""
    artifact, search = ARTIFACT.replace("global", kind), f"/apis/registry/v3/search/versions?{kind}Id"
    used = [{"name": "shop.Money", "groupId": None, "artifactId": "money", "version": "2"}]
    used += [{"name": "shop.Place", "groupId": "geo", "artifactId": "place", "version": "1"}]
    found = {"versions": [{"artifactType": "AVRO", "globalId": 7, "contentId": 3}], "count": 1}
    registry_server.answers |= {
        f"{search}=7": (200, found),
        f"{search}=8": (200, {"versions": [], "count": 0}),
        artifact: (200, ORDER.encode()),
        f"{artifact}/references": (200, used),
    }
    with opened(registry_server, url=f"{registry_server.url}/apis/ccompat/v7") as registry:
        references = (Reference("shop.Money", "money", 2), Reference("shop.Place", "geo/place", 1))
        assert (
            registry.schema(ApicurioId(kind, 7))
            == registry.schema(ApicurioId(kind, 7))
            == Schema(ORDER, "AVRO", references)
        )
        assert len(registry_server.asked) == 3
        assert registry.named(ApicurioId(kind, 7)) == []
        with pytest.raises(SchemaNotFound, match=f"no version with {kind}Id=8"):
            registry.schema(ApicurioId(kind, 8))


def test_global_ids_are_asked_of_apicurio_2(registry_server: Any) -> None:
    artifact = ARTIFACT.replace("v3", "v2")
    registry_server.answers |= {
        "/apis/registry/v2/search/artifacts?globalId=7": (200, {"artifacts": [{"id": "o", "type": "JSON"}]}),
        artifact: (200, b'{"const": 1.50}'),
        f"{artifact}/references": (200, []),
    }
    with opened(registry_server, url=f"{registry_server.url}/proxy/apis/ccompat/v6") as registry:
        with pytest.raises(SchemaRegistryError) as caught:
            registry.schema(ApicurioId("global", 7))
        assert caught.value.status == 404
    with opened(registry_server, url=f"{registry_server.url}/apis/ccompat/v6") as registry:
        assert registry.schema(ApicurioId("global", 7)) == Schema('{"const": 1.50}', "JSON")


@pytest.mark.parametrize("answer", [b"[]", b'{"artifacts": []}', [{"name": "a"}], {"a": 1}, [None]])
def test_an_answer_that_is_no_artifact_is_an_error_of_the_registry(registry_server: Any, answer: Any) -> None:
    found = {"versions": [{"artifactType": "AVRO"}]}
    registry_server.answers |= {
        "/apis/registry/v3/search/versions?globalId=7": (200, found),
        ARTIFACT: (200, ORDER.encode()),
        f"{ARTIFACT}/references": (200, answer),
    }
    with opened(registry_server, url=f"{registry_server.url}/apis/ccompat/v7") as registry:
        if answer == b"[]":
            assert registry.schema(ApicurioId("global", 7)).references == ()
            return
        with pytest.raises(SchemaRegistryError, match="with no schema"):
            registry.schema(ApicurioId("global", 7))


def test_a_registry_that_is_not_apicurios_is_not_asked_for_global_ids(registry_server: Any) -> None:
    with opened(registry_server) as registry, pytest.raises(SchemaRegistryError, match="ends with /apis/ccompat/v7"):
        registry.schema(ApicurioId("global", 7))
    assert not registry_server.asked

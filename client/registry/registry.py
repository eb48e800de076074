"""A client of a Schema Registry: schemas by id, by GUID and by subject, cached because they never change.

    GET  /schemas/ids/{id}[?subject=:.{context}:]  GET  /subjects
    GET  /schemas/guids/{guid}                     GET  /subjects/{subject}/versions
    GET  /schemas/ids/{id}/versions                GET  /subjects/{subject}/versions/{version}
    POST /subjects/{subject}/versions                   of references with ?deleted=true
    POST /compatibility/subjects/{subject}/versions[/{version}]

API: https://docs.confluent.io/platform/current/schema-registry/develop/api.html (also Apicurio's ccompat v7, Karapace
and Redpanda).
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

from kseg.client.errors import AuthenticationFailed
from kseg.client.registry.apicurio import base_of, by_own_id
from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.errors import RegistryRejected, RegistryUnavailable, SchemaNotFound, SchemaRegistryError
from kseg.client.registry.schemas import ApicurioId, Resolved, Schema, SchemaId, Version, context_of, is_guid, schema_of
from kseg.client.retry import Deadline, RetryPolicy
from kseg.client.security.http import HttpAnswer, HttpConnection, HttpFailure, HttpServer
from kseg.client.security.tokens import LoginToken, forget, token_of

_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
_MAX_BYTES: Final = 64 << 20
_MAX_REFERENCES: Final = 1000
_NOT_FOUND: Final = range(40400, 40500)
"""A registry's own error codes with status 404 (40401 subject, 40402 version, 40403 schema): any server has a 404."""
_APICURIO: Final = "that of Apicurio ends with /apis/ccompat/v7, some proxies add a path"
K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E", bound=SchemaRegistryError)


class SchemaRegistry:
    """Thread-safe. Operations retry what is retriable until `default.api.timeout.ms`; see `errors`."""

    key = "url"

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._connections = [
            HttpConnection(
                HttpServer(url, config.tls, config.connect_timeout_ms, config.read_timeout_ms, config.proxy),
                max_bytes=_MAX_BYTES,
            )
            for url in config.urls
        ]
        self._next = 0
        self._by_id: dict[tuple[str, int], Schema] = {}
        self._by_guid: dict[tuple[str, str], Schema] = {}
        self._by_own: dict[ApicurioId, Schema] = {}
        self._by_version: dict[tuple[str, int], Version] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                connection.close()

    @property
    def url(self) -> str:
        """All URLs, for messages and the ledger: without credentials."""
        return ",".join(connection.server.place for connection in self._connections)

    def schema(self, key: SchemaId, subject: str = "") -> Schema:
        """The schema of an id, of a GUID (Confluent Platform 8), or of an id of Apicurio's own API.

        subject: any of the context in which the id is known, since each has ids of its own, or of that in which the
        GUID's references are. Raises SchemaNotFound where the registry does not know it; ValueError: no GUID.
        """
        if isinstance(key, ApicurioId):
            return self._kept(self._by_own, key, lambda: self._of_own_id(key))
        context = context_of(subject)
        if isinstance(key, int):
            path = f"/schemas/ids/{key}" + (f"?subject={_quoted(context)}" if context else "")
            return self._kept(self._by_id, (context, key), lambda: self._schema(path, key, context))
        if not is_guid(key):
            raise ValueError(f"{key!r} is no GUID")
        guid = key.lower()
        return self._kept(
            self._by_guid, (context, guid), lambda: self._schema(f"/schemas/guids/{guid}", context=context)
        )

    def subjects(self) -> list[str]:
        return [str(name) for name in self._get("/subjects", list)]

    def versions(self, subject: str) -> list[int]:
        """A subject's versions, ascending. Raises SchemaNotFound where there is no such subject."""
        return sorted(int(number) for number in self._get(f"/subjects/{_quoted(subject)}/versions", list))

    def named(self, key: SchemaId, subject: str = "") -> list[tuple[str, int]]:
        """Subject and version of all names that a schema has; none by a GUID. subject: as of `schema`.

        Raises SchemaNotFound where the registry does not know the id, or cannot tell its subjects.
        """
        if not isinstance(key, int):
            return []
        context = context_of(subject)
        path = f"/schemas/ids/{key}/versions" + (f"?subject={_quoted(context)}" if context else "")
        try:
            return [(str(one["subject"]), int(one["version"])) for one in self._get(path, list)]
        except (TypeError, KeyError, ValueError):
            raise self._error(SchemaRegistryError, f"answers {path} without subjects and versions") from None

    def latest(self, subject: str) -> Version:
        """The newest version, requested each time. Raises SchemaNotFound."""
        return self._version(subject, "latest")

    def version(self, subject: str, version: int) -> Version:
        """Raises SchemaNotFound where subject or version do not exist."""
        return self._kept(self._by_version, (subject, version), lambda: self._version(subject, str(version)))

    def resolve(self, schema: Schema) -> Resolved:
        """A schema with all that it references, deleted versions included, as Confluent's deserializers resolve it.

        Raises SchemaNotFound where a reference leads nowhere.
        """
        found: dict[str, Schema] = {}
        self._resolve(schema, found, ())
        return Resolved(schema, tuple(found.items()))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema as the subject's next version, or find it there; its id.

        Raises SchemaRegistryError with status 409 where it is not compatible with earlier versions.
        """
        document = self._ask("POST", f"/subjects/{_quoted(subject)}/versions", _request(schema))
        if not isinstance(document, dict) or not isinstance(document.get("id"), int):
            raise self._error(SchemaRegistryError, "answers without an id")
        return int(document["id"])

    def incompatibilities(self, subject: str, schema: Schema, version: str | None = "latest") -> list[str] | None:
        """Why a schema cannot follow a version under the subject's compatibility level; None if it can.

        version: None takes all versions that the level compares with, as `register` does.
        """
        versions = "versions" if version is None else f"versions/{version}"
        path = f"/compatibility/subjects/{_quoted(subject)}/{versions}?verbose=true"
        document = self._ask("POST", path, _request(schema))
        if not isinstance(document, dict) or not isinstance(document.get("is_compatible"), bool):
            raise self._error(SchemaRegistryError, "answers without is_compatible")
        return None if document["is_compatible"] else [str(message) for message in document.get("messages") or []]

    # Inside

    def _kept(self, cache: dict[K, V], key: K, ask: Callable[[], V]) -> V:
        with self._lock:
            if key in cache:
                return cache[key]
        value = ask()
        with self._lock:
            return cache.setdefault(key, value)

    def _resolve(self, schema: Schema, found: dict[str, Schema], above: tuple[str, ...]) -> None:
        for reference in schema.references:
            if reference.name in above:
                raise self._error(SchemaRegistryError, f"has schemas that reference one another: {reference.name}")
            if reference.name in found:
                continue
            if len(found) >= _MAX_REFERENCES:
                raise self._error(SchemaRegistryError, f"has a schema with more than {_MAX_REFERENCES} references")
            subject = reference.subject
            if not subject.startswith(":."):
                subject = schema.context + subject
            referenced = self._referenced(subject, reference.version)
            self._resolve(referenced, found, (*above, reference.name))
            found[reference.name] = referenced

    def _referenced(self, subject: str, version: int) -> Schema:
        key = subject, version
        return self._kept(self._by_version, key, lambda: self._version(subject, f"{version}?deleted=true")).schema

    def _schema(self, path: str, schema_id: int | None = None, context: str = "") -> Schema:
        document = self._get(path, dict)
        try:
            return schema_of(document, schema_id, context)
        except ValueError as error:
            raise self._error(SchemaRegistryError, f"answers {path} with no schema: {error}") from None

    def _version(self, subject: str, version: str) -> Version:
        """version: with a query where there is one."""
        document = self._get(f"/subjects/{_quoted(subject)}/versions/{version}", dict)
        number = document.get("version")
        try:
            schema = schema_of(document, context=context_of(subject))
        except ValueError as error:
            message = f"answers version {version} of subject {subject} with no schema: {error}"
            raise self._error(SchemaRegistryError, message) from None
        if not isinstance(number, int):
            raise self._error(SchemaRegistryError, f"answers version {version} of subject {subject} without a number")
        return Version(subject, number, schema)

    def _of_own_id(self, own: ApicurioId) -> Schema:
        """A client of the same servers, below another path."""
        bases = [base_of(url) for url in self._config.urls]
        if None in bases:
            message = f"cannot be asked for the {own.kind} id {own.number} of Apicurio: its URL is not {_APICURIO}"
            raise self._error(SchemaRegistryError, message)
        with SchemaRegistry(replace(self._config, urls=tuple(map(str, bases)))) as beside:
            return by_own_id(own, lambda path: beside._answered("GET", path))

    def _get(self, path: str, kind: type[Any]) -> Any:
        document = self._ask("GET", path)
        if not isinstance(document, kind):
            raise self._error(SchemaRegistryError, f"answers {path} with no JSON {kind.__name__}")
        return document

    def _ask(self, method: str, path: str, body: str | None = None) -> Any:
        return self._answered(method, path, body)[0]

    def _answered(self, method: str, path: str, body: str | None = None) -> tuple[Any, bytes]:
        """Try one URL after the other, and all of them again after a pause, until one responds: with this document,
        and with these bytes."""
        config = self._config
        deadline = Deadline.after(config.default_api_timeout_ms / 1000)
        policy = RetryPolicy(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        backoff = policy.start(deadline)
        tries = 0
        answered: SchemaRegistryError | None = None
        while True:
            try:
                return self._ask_one(method, path, body, deadline)
            except SchemaRegistryError as error:
                if not error.retriable:
                    raise
                tries += 1
                answered = error if error.status is not None else answered
                if tries % len(self._connections) == 0:
                    # At the deadline, raise the last error that a registry returned rather than a timeout.
                    backoff.pause(answered if answered is not None and deadline.passed else error)

    def _ask_one(self, method: str, path: str, body: str | None, deadline: Deadline) -> tuple[Any, bytes]:
        taken = self._token(deadline)
        headers = self._headers(taken)
        with self._lock:
            connection = self._connections[self._next]
            place = connection.server.place
            try:
                answer = connection.exchange(method, path, headers, deadline, body)
            except HttpFailure as failure:
                self._next = (self._next + 1) % len(self._connections)
                kind = RegistryUnavailable if failure.retriable else RegistryRejected
                raise _failure(kind, place, f"does not answer: {failure}") from None
            if answer.passing:
                self._next = (self._next + 1) % len(self._connections)
        return self._judged(answer, place, path, taken), answer.body

    def _judged(self, answer: HttpAnswer, place: str, path: str, taken: LoginToken | None) -> Any:
        document = _json(answer.body)
        if answer.status == 200:
            if document is None:
                raise _failure(SchemaRegistryError, place, f"answers {path} with no JSON", status=200)
            return document
        code = document.get("error_code") if isinstance(document, dict) else None
        text = document.get("message") if isinstance(document, dict) else None
        words = f"answers {path} with status {answer.status}" + (f", error code {code}" if code else "")
        words += f": {str(text)[:500]}" if text else ""
        facts: dict[str, Any] = {"status": answer.status, "error_code": code}
        if answer.status in (401, 403):
            if self._config.oauth is not None and taken is not None:
                forget(self._config.oauth, taken.token.value)
            # A token that was kept may have been revoked meanwhile: the next request has a new one.
            facts["retriable"] = answer.status == 401 and taken is not None and taken.kept
            raise _failure(RegistryRejected, place, f"{words}; {RegistryRejected.to_check}", **facts)
        if answer.status == 404 and code not in _NOT_FOUND:
            told = f"{words}; this URL is not that of a registry's API: {_APICURIO}"
            raise _failure(SchemaRegistryError, place, told, **facts)
        if answer.status == 404:
            raise _failure(SchemaNotFound, place, words, **facts)
        if answer.passing:
            raise _failure(RegistryUnavailable, place, words, **facts)
        raise _failure(SchemaRegistryError, place, words, **facts)

    def _token(self, deadline: Deadline) -> LoginToken | None:
        if self._config.oauth is None:
            return None
        try:
            return token_of(self._config.oauth, deadline)
        except AuthenticationFailed as error:
            kind = RegistryUnavailable if error.retriable else RegistryRejected
            raise self._error(kind, f"cannot be asked: {error.message}") from None

    def _headers(self, taken: LoginToken | None) -> Mapping[str, str]:
        config = self._config
        headers = {"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA, **dict(config.headers)}
        if config.basic is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(config.basic.reveal().encode()).decode()}"
        elif config.token is not None:
            headers["Authorization"] = f"Bearer {config.token.reveal()}"
        elif taken is not None:
            headers["Authorization"] = f"Bearer {taken.token.value.reveal()}"
        return headers

    def _error(self, kind: type[SchemaRegistryError], message: str) -> SchemaRegistryError:
        return _failure(kind, self.url, message)


def _failure(kind: type[E], place: str, words: str, **facts: Any) -> E:
    return kind(f"the schema registry {place} {words}", url=place, **facts)


def _request(schema: Schema) -> str:
    document: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type}
    if schema.references:
        document["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    return json.dumps(document)


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None

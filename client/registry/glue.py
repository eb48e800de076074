"""A client of AWS Glue Schema Registry: schema versions by their UUID and by schema name (the extra `glue`).

    GetSchemaVersion     a version by its UUID, or by schema name and number
    ListSchemaVersions   the versions of a schema

A schema of Glue is what other registries call a subject; its versions have no references. Credentials are found as AWS'
own tools find them: environment variables, the profile (AWS_PROFILE), the role of the pod, container or instance.
https://docs.aws.amazon.com/glue/latest/dg/aws-glue-api-schema-registry-api.html
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from kseg.client.errors import ConfigError, ConfigFault
from kseg.client.protocol.suggestion import did_you_mean
from kseg.client.registry.config import TIMES, milliseconds
from kseg.client.registry.errors import (
    AwsRejected,
    RegistryUnavailable,
    SchemaNotFound,
    SchemaRegistryError,
    VersionPending,
)
from kseg.client.registry.schemas import SCHEMA_TYPES, Resolved, Schema, SchemaId, Version, is_guid
from kseg.client.retry import Deadline, RetryPolicy

GLUE: Final = "glue"
NAMES: Final = frozenset({"type", "region", "endpoint", "registry.name", *TIMES})
_DEFAULT_REGISTRY: Final = "default-registry"
"""The registry in which AWS' serializers register schemas, unless another one is set."""
_EXTRA: Final = "pip install 'kafka-segment-etl[glue]'"
_THROTTLED: Final = frozenset(
    {"ThrottlingException", "Throttling", "ThrottledException", "RequestLimitExceeded", "TooManyRequestsException"}
    | {"RequestThrottled", "RequestThrottledException", "SlowDown"}
)
_REJECTED: Final = frozenset(
    {"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "InvalidClientTokenId"}
    | {"InvalidSignatureException", "SignatureDoesNotMatch", "MissingAuthenticationToken"}
    | {"MissingAuthenticationTokenException", "ExpiredTokenException", "ExpiredToken", "OptInRequired"}
    | {"IncompleteSignatureException", "NotAuthorized"}
)
_PASSING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class GlueConfig:
    """The region and the registry's name. Times in milliseconds. region, endpoint: None are AWS' defaults.

        type            glue
        region          the registry's region; else that of AWS_REGION, AWS_DEFAULT_REGION or the profile
        endpoint        another URL than the region's: of a VPC endpoint
        registry.name   the registry; default-registry if it is left out
        http.connect.timeout.ms, http.read.timeout.ms, retries.wait.ms, retries.max.wait.ms, default.api.timeout.ms

    The first three have the names of AWS' serializers.
    """

    region: str | None = None
    endpoint: str | None = None
    registry: str = _DEFAULT_REGISTRY
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 5_000
    default_api_timeout_ms: int = 60_000

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> GlueConfig:
        """Raises ConfigError with everything that is wrong at once."""
        faults = [
            ConfigFault(name, "unknown property of AWS Glue's registry", did_you_mean(name, NAMES) or "see the guide")
            for name in properties
            if name not in NAMES
        ]
        known = {name: str(value).strip() for name, value in properties.items()}
        if (endpoint := known.get("endpoint")) and not endpoint.startswith(("https://", "http://")):
            faults.append(
                ConfigFault("endpoint", "is no http or https URL", "leave it out, or give the endpoint's URL")
            )
        times = {field: milliseconds(name, known, default, faults) for name, (field, default) in TIMES.items()}
        if faults:
            raise ConfigError(faults)
        name = known.get("registry.name") or _DEFAULT_REGISTRY
        return cls(known.get("region") or None, endpoint or None, name, **times)


class GlueRegistry:
    """See `kseg.client.registry.opening.Registry`. Thread-safe. `subject` is the name of a schema in Glue."""

    key = "registry.name"

    def __init__(self, config: GlueConfig) -> None:
        """No request is sent. Raises ConfigError: the extra is not installed, or there is no region."""
        self._config = config
        self._client = _client(config)
        self._lock = threading.Lock()
        self._by_guid: dict[str, _Found] = {}
        self._by_number: dict[tuple[str, int], _Found] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    @property
    def url(self) -> str:
        """The endpoint and the registry's name, for messages and the ledger."""
        return f"{str(self._client.meta.endpoint_url).rstrip('/')}/{self._config.registry}"

    def schema(self, key: SchemaId, subject: str = "") -> Schema:
        """The schema version of a UUID. subject: has no effect. Raises SchemaNotFound; ValueError: no UUID."""
        return self._by_uuid(key).schema

    def named(self, key: SchemaId, subject: str = "") -> list[tuple[str, int]]:
        """Name and number of a version; none if it is of another registry. subject: no effect. Raises as `schema`."""
        found = self._by_uuid(key)
        return [(found.name, found.number)] if found.registry == self._config.registry else []

    def versions(self, subject: str) -> list[int]:
        """The available versions of a schema, ascending. Raises SchemaNotFound where there is no such schema."""
        numbers: list[int] = []
        more: dict[str, Any] = {}
        while True:
            answer = self._ask("list_schema_versions", f"schema {subject}", SchemaId=self._id(subject), **more)
            listed = answer.get("Schemas") or []
            numbers += [int(one["VersionNumber"]) for one in listed if one.get("Status") == "AVAILABLE"]
            if not answer.get("NextToken"):
                return sorted(numbers)
            more = {"NextToken": answer["NextToken"]}

    def latest(self, subject: str) -> Version:
        """The newest available version, requested each time. Raises SchemaNotFound."""
        numbers = self.versions(subject)
        if not numbers:
            raise self._error(SchemaNotFound, f"has no available version of schema {subject}")
        return self.version(subject, numbers[-1])

    def version(self, subject: str, version: int) -> Version:
        """Raises SchemaNotFound where schema or version do not exist."""
        with self._lock:
            found = self._by_number.get((subject, version))
        if found is None:
            given = {"SchemaId": self._id(subject), "SchemaVersionNumber": {"VersionNumber": version}}
            found = self._version(f"version {version} of schema {subject}", given)
            with self._lock:
                self._by_number[subject, version] = found
        return Version(subject, version, found.schema)

    def resolve(self, schema: Schema) -> Resolved:
        """The schema by itself."""
        return Resolved(schema)

    # Inside

    def _id(self, subject: str) -> dict[str, str]:
        return {"SchemaName": subject, "RegistryName": self._config.registry}

    def _by_uuid(self, key: SchemaId) -> _Found:
        if not isinstance(key, str) or not is_guid(key):
            raise ValueError(f"{key!r} is no UUID of a schema version")
        uuid = key.lower()
        with self._lock:
            found = self._by_guid.get(uuid)
        if found is None:
            found = self._version(f"schema version {uuid}", {"SchemaVersionId": uuid})
            with self._lock:
                self._by_guid[uuid] = found
        return found

    def _version(self, what: str, given: Mapping[str, Any]) -> _Found:
        """Raises VersionPending at the deadline, SchemaNotFound for one that is not available."""
        document = self._ask("get_schema_version", what, **given)
        text, form, uuid = (document.get(name) for name in ("SchemaDefinition", "DataFormat", "SchemaVersionId"))
        if not isinstance(text, str) or form not in SCHEMA_TYPES or not isinstance(uuid, str):
            raise self._error(SchemaRegistryError, f"answers with no schema of a known type for {what}")
        # arn:aws:glue:REGION:ACCOUNT:schema/REGISTRY/NAME
        registry, _, name = str(document.get("SchemaArn", "")).partition(":schema/")[2].partition("/")
        return _Found(Schema(text, form, guid=uuid.lower()), registry, name, int(document.get("VersionNumber") or 0))

    def _ask(self, operation: str, what: str, **given: Any) -> dict[str, Any]:
        """Try again after a pause until the deadline."""
        config = self._config
        policy = RetryPolicy(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        backoff = policy.start(Deadline.after(config.default_api_timeout_ms / 1000))
        while True:
            try:
                return self._ask_one(operation, what, given)
            except SchemaRegistryError as error:
                if not error.retriable:
                    raise
                backoff.pause(error)

    def _ask_one(self, operation: str, what: str, given: Mapping[str, Any]) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**given)
        except ClientError as error:
            raise self._answered(error.response, what) from None
        except BotoCoreError as error:
            raise self._unanswered(error, what) from None
        if operation == "get_schema_version" and (status := answer.get("Status")) != "AVAILABLE":
            raise self._not_available(str(status), what)
        return answer

    def _not_available(self, status: str, what: str) -> SchemaRegistryError:
        if status == "PENDING":
            words = "is PENDING: Glue has not decided yet whether it is compatible; its status must become AVAILABLE"
            return self._error(VersionPending, f"has {what}, which {words}")
        return self._error(SchemaNotFound, f"has {what} with the status {status}, not AVAILABLE")

    def _answered(self, response: Mapping[str, Any], what: str) -> SchemaRegistryError:
        """The error that Glue's error response means. https://docs.aws.amazon.com/glue/latest/webapi/CommonErrors.html"""
        code = str(response.get("Error", {}).get("Code", ""))
        text = str(response.get("Error", {}).get("Message", ""))[:500]
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        words = f"answers {code or f'status {status}'} to a question for {what}" + (f": {text}" if text else "")
        if code == "EntityNotFoundException":
            return self._error(SchemaNotFound, words, status=status)
        if code in _THROTTLED or status in _PASSING or (isinstance(status, int) and status >= 500):
            return self._error(RegistryUnavailable, words, status=status)
        if code in _REJECTED or status in (401, 403):
            return self._error(AwsRejected, f"{words}; {AwsRejected.to_check}", status=status)
        return self._error(SchemaRegistryError, words, status=status)

    def _unanswered(self, error: Exception, what: str) -> SchemaRegistryError:
        """The error of botocore where Glue gave no answer. Its text may have the output of a process that gives
        credentials: of such errors the message has the class alone."""
        from botocore.exceptions import ConnectionError as NoConnection
        from botocore.exceptions import HTTPClientError, MetadataRetrievalError, SSLError

        kind = type(error).__name__
        if isinstance(error, SSLError):
            return self._error(AwsRejected, f"cannot be asked for {what}: no TLS connection ({kind})")
        if isinstance(error, NoConnection | HTTPClientError):
            return self._error(RegistryUnavailable, f"does not answer ({kind}) when asked for {what}")
        if isinstance(error, MetadataRetrievalError):
            return self._error(RegistryUnavailable, "cannot be asked: the credentials of the role cannot be had yet")
        return self._error(AwsRejected, f"cannot be asked for {what} ({kind}); {AwsRejected.to_check}")

    def _error(self, kind: type[SchemaRegistryError], words: str, *, status: int | None = None) -> SchemaRegistryError:
        return kind(f"AWS Glue's schema registry {self.url} {words}", url=self.url, status=status)


@dataclass(frozen=True, slots=True)
class _Found:
    """A schema version, and where it is: the names of registry and schema, and its number."""

    schema: Schema
    registry: str
    name: str
    number: int


def _client(config: GlueConfig) -> Any:
    """botocore's client, without retries of its own."""
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise ConfigError([ConfigFault("type", "glue needs the optional extra `glue`", _EXTRA)]) from None
    problem = ""
    try:
        session = Session()
        region = config.region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
        if not region:
            raise ConfigError([ConfigFault("region", "is missing, and no AWS region is set", "give it, or AWS_REGION")])
        limits = Config(
            connect_timeout=config.connect_timeout_ms / 1000,
            read_timeout=config.read_timeout_ms / 1000,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        return session.create_client("glue", region_name=region, endpoint_url=config.endpoint, config=limits)
    except (BotoCoreError, ValueError) as error:
        problem = type(error).__name__
    why = f"cannot be used with AWS' configuration here ({problem})"
    raise ConfigError([ConfigFault("type", why, "aws sts get-caller-identity shows why")])

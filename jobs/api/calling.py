"""One request by name and JSON, and what its broker, or each broker, answers.

The version is the highest that both sides speak and that can carry what was given: a request that names topics has
others to choose from than one with topic ids, and a field that a version lacks leads to an older one. A version that
the user names is sent as it is, if the broker of this connection offers it; none is sent that was not negotiated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import KafkaError, UnsupportedVersion
from kseg.client.protocol.api import Api
from kseg.client.protocol.codec import encode
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.errors import EncodeError, UnsupportedFieldError, UnsupportedVersionError
from kseg.client.protocol.fields import ZERO_UUID
from kseg.client.protocol.json_form import from_json, json_path, to_json
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.schema import Request
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection
from kseg.client.wire.trace import error_codes
from kseg.etl.errors import ConfigurationError, ExitCode
from kseg.jobs.api import bad_argument, destination
from kseg.jobs.api.destination import Destination

_ACKS: Final = (-1, 0, 1)
#: What APIs were called in older guides.
_OLD_NAMES: Final = {
    "electpreferredleaders": "ElectLeaders",
    "groupcoordinator": "FindCoordinator",
    "consumermetadata": "FindCoordinator",
    "offsets": "ListOffsets",
}
_READERS: Final = ("Fetch", "ListOffsets", "OffsetForLeaderEpoch")


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a request to one broker: the response (None: the API has none), or the error instead of one."""

    broker: str
    version: int | None
    answer: dict[str, Any] | None
    #: Every error code in the answer other than 0, with its JSON path.
    codes: tuple[tuple[str, int], ...] = ()
    error: KafkaError | None = None
    #: Whether the request was sent to all brokers, of which this is one.
    of_all: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """DONE without an error, RETRIABLE if all errors are retriable, else FAILED."""
        if self.error is not None:
            return ExitCode.RETRIABLE if self.error.retriable else ExitCode.FAILED
        if not self.codes:
            return ExitCode.DONE
        return ExitCode.RETRIABLE if all(ErrorCode.of(code).retriable for _, code in self.codes) else ExitCode.FAILED


def find_api(name: str) -> Api[Any]:
    """The API of this name, in any case, or of this key. Raises ConfigurationError."""
    wanted = _OLD_NAMES.get(name.casefold(), name).casefold()
    for api in API_BY_NAME.values():
        if wanted in (api.name.casefold(), str(api.key)):
            return api
    import difflib

    near = difflib.get_close_matches(name.casefold(), {n.casefold(): n for n in API_BY_NAME}, n=1)
    meant = next((n for n in API_BY_NAME if near and n.casefold() == near[0]), None)
    remedy = f"did you mean {meant}?" if meant else "kseg api list names them"
    raise bad_argument("NAME", f"there is no API {name!r}", remedy)


def call(
    cluster: Cluster,
    api: Api[Any],
    document: Any,
    *,
    version: int | None = None,
    to: Destination | None = None,
    names: bool = True,
) -> list[CallResult]:
    """Send the request once to each broker that it belongs to (one, unless it is for all).

    Finding the brokers is tried again by the client's policy, the request itself is not: it may change something.
    Raises ConfigurationError for a document that is no request, KafkaError where a single broker fails.
    """
    if api.scope != "client":
        raise bad_argument(
            "NAME", f"{api.name} is spoken among brokers and controllers only", "kseg api encode and decode know it"
        )
    targets = [to] if to is not None else destination.by_default(api.name, _any_version(api, document))
    if targets == [Destination("all")]:
        return _call_all(cluster, api, document, version, names)

    def attempt(deadline: Deadline) -> BrokerConnection:
        connections = [destination.connect(cluster, target, deadline) for target in targets]
        if len({id(connection) for connection in connections}) > 1:
            led = ", ".join(f"{target} at {c.label}" for target, c in zip(targets, connections, strict=True))
            raise bad_argument("--json", f"names what belongs to several brokers: {led}", "ask each on its own")
        return connections[0]

    first = targets[0]
    key = (first.kind, first.name) if first.kind in ("group", "transaction") else None
    connection = cluster.retry(attempt, coordinator=key)
    return [_ask(cluster, connection, api, document, version, names)]


def _call_all(cluster: Cluster, api: Api[Any], document: Any, version: int | None, names: bool) -> list[CallResult]:
    outcomes = []
    for broker in destination.brokers(cluster):
        label = str(broker.endpoint)
        try:
            connection = cluster.connection(broker, _deadline(cluster))
            outcomes.append(replace(_ask(cluster, connection, api, document, version, names), of_all=True))
        except KafkaError as error:
            outcomes.append(CallResult(label, None, None, error=error, of_all=True))
    return outcomes


def _ask(
    cluster: Cluster, connection: BrokerConnection, api: Api[Any], document: Any, version: int | None, names: bool
) -> CallResult:
    chosen, request = choose(connection, api, document, version)
    deadline = _deadline(cluster)
    if not request.is_answered:
        connection.send(request, chosen, deadline=deadline)
        return CallResult(connection.label, chosen, None)
    response = connection.call(request, chosen, deadline=deadline)
    # A broker that lacks the version asked for answers ApiVersions in version 0, whose fields are in every later one.
    codes = tuple((json_path(path), code) for path, code in error_codes(response))
    return CallResult(connection.label, chosen, to_json(response, chosen, names=names), codes)


def choose(connection: BrokerConnection, api: Api[Any], document: Any, version: int | None) -> tuple[int, Request[Any]]:
    """The version to send, and the request in it. Raises UnsupportedVersion, ConfigurationError."""
    theirs = connection.versions.ranges.get(api.key)
    if version is not None:
        if theirs is None or not theirs[0] <= version <= theirs[1] or not api.versions.has(version):
            offers = "does not offer this API" if theirs is None else f"offers versions {theirs[0]} to {theirs[1]}"
            ours = f"this client supports {api.versions.lowest} to {api.versions.highest}"
            raise UnsupportedVersion(f"{api.name} v{version}: the broker {offers}, {ours}", broker=connection.label)
        return version, read(api, document, version)
    highest = connection.version_of(
        api.request,
        topic_ids_known=_names_topics_by_id(document),
        transactional=isinstance(document, dict) and document.get("transactionalId") is not None,
    )
    assert theirs is not None
    lowest = max(theirs[0], api.versions.lowest)
    refused: UnsupportedFieldError | None = None
    for candidate in range(highest, lowest - 1, -1):
        try:
            return candidate, _read(api, document, candidate)
        except UnsupportedFieldError as fault:
            refused = refused or fault
        except EncodeError as fault:
            raise _bad_json(fault) from None
    assert refused is not None
    raise _bad_json(refused, f"no version from {lowest} to {highest} can carry the request; ") from None


def read(api: Api[Any], document: Any, version: int) -> Request[Any]:
    """The request in one version. Raises ConfigurationError."""
    try:
        return _read(api, document, version)
    except EncodeError as fault:
        raise _bad_json(fault) from None
    except UnsupportedVersionError as fault:
        raise bad_argument("--version", str(fault)) from fault


def _read(api: Api[Any], document: Any, version: int) -> Request[Any]:
    request: Request[Any] = from_json(api.request, _with_our_defaults(api, document), version)
    _check(api, request, version)
    _check_topics(request, request, version, "")
    encode(request, version)  # errors that only the codec finds, such as a string that is too long
    return request


def _check(api: Api[Any], request: Any, version: int) -> None:
    if api.name == "Produce" and request.acks not in _ACKS:
        raise EncodeError("is none of -1, 0 and 1", field="acks", message=api.request.__name__, version=version)
    if api.name in _READERS:
        replicas = {"replica_id": request.replica_id}
        if hasattr(request, "replica_state"):
            replicas["replica_state.replica_id"] = request.replica_state.replica_id
        for field, replica in replicas.items():
            if replica >= 0:
                reason = f"{replica} would be taken for a broker's own replica; a client is -1 (-2: read everything)"
                raise EncodeError(reason, field=field, message=api.request.__name__, version=version)


def _check_topics(request: Request[Any], value: Any, version: int, path: str) -> None:
    """A topic's name and its id are ignorable, so a version without the one given would ask for no topic."""
    fields = {field.name: field for field in value.FIELDS}
    name = next((fields[name] for name in ("topic", "name") if name in fields), None)
    if name is not None and "topic_id" in fields:
        by_name, by_id = getattr(value, name.name), value.topic_id != ZERO_UUID
        for field, given, other in ((name, by_name, by_id), (fields["topic_id"], by_id, by_name)):
            if given and not other and not field.versions.has(version):
                kind = "by id" if field is name else "by name"
                raise UnsupportedFieldError(
                    f"v{version} names topics only {kind}",
                    field=f"{path}{field.name}",
                    message=type(request).__name__,
                    version=version,
                )
    for field in fields.values():
        if field.kind == "array" and isinstance(field.of, type):
            for index, item in enumerate(getattr(value, field.name) or []):
                _check_topics(request, item, version, f"{path}{field.name}[{index}].")


def _with_our_defaults(api: Api[Any], document: Any) -> Any:
    """A client is replica -1; the definition of ListOffsets has 0, which is a broker."""
    if api.name == "ListOffsets" and isinstance(document, dict):
        return {"replicaId": -1} | document
    return document


def _any_version(api: Api[Any], document: Any) -> Request[Any]:
    """The request in the newest version that can carry it, to find its destination before there is a connection."""
    refused: UnsupportedFieldError | None = None
    for candidate in range(api.versions.highest, api.versions.lowest - 1, -1):
        try:
            return _read(api, document, candidate)
        except UnsupportedFieldError as fault:
            refused = refused or fault
        except EncodeError as fault:
            raise _bad_json(fault) from None
    assert refused is not None
    raise _bad_json(refused)


def _bad_json(fault: EncodeError, before: str = "") -> ConfigurationError:
    path = json_path(fault.field)
    where = f"{fault.message} v{fault.version}" + (f" {path}" if path else "")
    return ConfigurationError(f"{before}{where}: {fault.reason}", field=path or None)


def _names_topics_by_id(value: Any) -> bool:
    """Whether the request names its topics by id. (A field that is called topicId has nothing else.)"""
    if isinstance(value, dict):
        own = value.get("topicId")
        return (isinstance(own, str) and own.strip("A") != "") or any(map(_names_topics_by_id, value.values()))
    return isinstance(value, list) and any(map(_names_topics_by_id, value))


def _deadline(cluster: Cluster) -> Deadline:
    return Deadline.after(cluster.config.default_api_timeout_ms / 1000)


def document_of(outcomes: list[CallResult]) -> dict[str, Any]:
    """The document that `kseg api call` prints: the one broker's answer, or all brokers with theirs."""
    if len(outcomes) == 1 and not outcomes[0].of_all:
        answer = outcomes[0].answer
        return {"written": True} if answer is None else answer
    return {"brokers": [_row(outcome) for outcome in outcomes]}


def _row(outcome: CallResult) -> dict[str, Any]:
    if outcome.error is None:
        return {"broker": outcome.broker, "version": outcome.version, "answer": outcome.answer}
    error = outcome.error
    described = {"kind": type(error).__name__, "message": error.message, "retriable": error.retriable}
    return {"broker": outcome.broker, "error": described}

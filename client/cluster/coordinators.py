"""FindCoordinator (10): which broker coordinates a group, or the transactions of a transactional id.

v1  the key's type, groups or transactions; v4  several keys at once
"""

from __future__ import annotations

from typing import Any, Final, Literal

from kseg.client.cluster.metadata import Broker
from kseg.client.errors import ProtocolFault, UnsupportedVersion, error_from_code
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest
from kseg.client.retry import Deadline
from kseg.client.wire.broker import BrokerConnection

CoordinatorKey = tuple[Literal["group", "transaction"], str]

_KEY_TYPES: Final = {"group": 0, "transaction": 1}
_FIRST_WITH_KEY_TYPE: Final = 1
_FIRST_WITH_KEYS: Final = 4


def find_coordinator(connection: BrokerConnection, key: CoordinatorKey, deadline: Deadline) -> Broker:
    """Ask any broker, once. Raises the error of the response's code, naming the group or transactional id."""
    kind, name = key
    version = connection.version_of(FindCoordinatorRequest)
    request = FindCoordinatorRequest()
    if version >= _FIRST_WITH_KEY_TYPE:
        request.key_type = _KEY_TYPES[kind]
    elif kind != "group":  # the broker would search a group of that name
        raise UnsupportedVersion(
            "the broker is too old for transactions (before 0.11)",
            broker=connection.label,
            transactional_id=name,
        )
    if version >= _FIRST_WITH_KEYS:
        request.coordinator_keys = [name]
    else:
        request.key = name
    response = connection.call(request, version, deadline=deadline)
    found: Any = response
    if version >= _FIRST_WITH_KEYS:
        found = next((entry for entry in response.coordinators if entry.key == name), None)
        if found is None:
            raise ProtocolFault("FindCoordinator response lacks the requested key", broker=connection.label)
    address = {"group": name} if kind == "group" else {"transactional_id": name}
    if found.error_code:
        raise error_from_code(found.error_code, "FindCoordinator", detail=found.error_message, **address)
    return Broker(found.node_id, found.host, found.port)

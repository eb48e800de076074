"""The names of numbers in messages, as Java's clients have them, for people who read or write JSON.

`names_of` finds the table of a field. Most fields are known by their name alone, whatever the message; a few names mean
different things in different messages (`resource_type` is one thing to ACLs and another to configurations).

The tables are those of Kafka 4.3.1's public enums; a test asks the Java client for them and compares. A number without
a name stays a number, both ways.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Final

from kseg.client.protocol import enums
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.schema import Field

NOT_REQUESTED: Final = "NOT_REQUESTED"


@dataclass(frozen=True, slots=True)
class Names:
    """A number for each name. Reading ignores upper and lower case."""

    what: str
    names: Mapping[int, str]

    def show(self, value: int) -> Any:
        return self.names.get(value, value)

    def read(self, given: Any) -> int:
        """The number of a name. Raises ValueError."""
        if isinstance(given, str):
            for number, name in self.names.items():
                if name.casefold() == given.casefold():
                    return number
        known = ", ".join(self.names.values()) if len(self.names) <= 20 else "its names are those of the Java client"
        raise ValueError(f"{given!r} is no {self.what}: {known}")


@dataclass(frozen=True, slots=True)
class Bits:
    """A 32-bit field of flags: bit n is set for the member with number n. Shown as a list of names."""

    what: str
    names: Mapping[int, str]

    def show(self, value: int) -> Any:
        if value == enums.NOT_ASKED:
            return NOT_REQUESTED
        return [self.names.get(bit, f"BIT_{bit}") for bit in range(32) if value & (1 << bit)]

    def read(self, given: Any) -> int:
        """The number for a list of names, or for NOT_REQUESTED. Raises ValueError."""
        if given == NOT_REQUESTED:
            return enums.NOT_ASKED
        if not isinstance(given, list):
            raise ValueError(f"{given!r} is neither a list of names nor {NOT_REQUESTED}")
        value = 0
        for name in given:
            value |= 1 << self._bit(name)
        return value - (1 << 32) if value >= 1 << 31 else value

    def _bit(self, name: Any) -> int:
        other = re.fullmatch(r"BIT_(\d|[12]\d|3[01])", str(name))
        return int(other[1]) if other else Names(self.what, self.names).read(name)


Naming = Names | Bits


def _of(enum: type[IntEnum], what: str) -> Names:
    return Names(what, {member.value: member.name for member in enum})


def _table(text: str, start: int = 0) -> dict[int, str]:
    return dict(enumerate(text.split(), start))


ACL_RESOURCES = _of(enums.ResourceType, "resource type of ACLs")
ACL_OPERATIONS = _of(enums.AclOperation, "operation")
AUTHORIZED_OPERATIONS = Bits("operation", ACL_OPERATIONS.names)
ACL_PERMISSIONS = _of(enums.PermissionType, "permission type")
ACL_PATTERNS = _of(enums.PatternType, "pattern type")
CONFIG_RESOURCES = _of(enums.ConfigResourceType, "resource type of configurations")
CONFIG_TYPES = _of(enums.ConfigType, "config type")
UPGRADES = _of(enums.UpgradeType, "upgrade type")
CONFIG_SOURCES = Names(
    "config source",
    _table(
        "UNKNOWN DYNAMIC_TOPIC_CONFIG DYNAMIC_BROKER_CONFIG DYNAMIC_DEFAULT_BROKER_CONFIG STATIC_BROKER_CONFIG "
        "DEFAULT_CONFIG DYNAMIC_BROKER_LOGGER_CONFIG DYNAMIC_CLIENT_METRICS_CONFIG DYNAMIC_GROUP_CONFIG"
    ),
)
CONFIG_OPERATIONS = Names("config operation", _table("SET DELETE APPEND SUBTRACT"))
ISOLATION_LEVELS = Names("isolation level", _table("READ_UNCOMMITTED READ_COMMITTED"))
COORDINATORS = Names("key type", _table("GROUP TRANSACTION SHARE"))
ELECTIONS = Names("election type", _table("PREFERRED UNCLEAN"))
SCRAM_MECHANISMS = Names("SCRAM mechanism", {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"})
# Java has no public enums for these: the names are ours, from the words of the definitions.
QUOTA_MATCHES = Names("match type", _table("EXACT DEFAULT ANY"))
ENDPOINTS = Names("endpoint type", {1: "BROKERS", 2: "CONTROLLERS"})
MEMBERS = Names("member type", {-1: "UNKNOWN", 0: "CLASSIC", 1: "CONSUMER"})
ACKNOWLEDGEMENTS = Names("acknowledge type", _table("GAP ACCEPT RELEASE REJECT RENEW"))
ACQUIRE_MODES = Names("acquire mode", _table("BATCH_OPTIMIZED RECORD_LIMIT"))
DELIVERY_STATES = Names("delivery state", {0: "AVAILABLE", 2: "ACKNOWLEDGED", 4: "ARCHIVED"})
RECOVERY_STATES = Names("leader recovery state", _table("RECOVERED RECOVERING"))
TIMESTAMPS = Names(
    "place in a log",
    {
        -1: "LATEST",
        -2: "EARLIEST",
        -3: "MAX_TIMESTAMP",
        -4: "EARLIEST_LOCAL",
        -5: "LATEST_TIERED",
        -6: "EARLIEST_PENDING_UPLOAD",
    },
)
ERRORS = Names("error code", {int(code): code.name for code in ErrorCode})

_EVERYWHERE: Final[Mapping[str, Naming]] = {
    "authorized_operations": AUTHORIZED_OPERATIONS,
    "cluster_authorized_operations": AUTHORIZED_OPERATIONS,
    "topic_authorized_operations": AUTHORIZED_OPERATIONS,
    "resource_type_filter": ACL_RESOURCES,
    "resource_pattern_type": ACL_PATTERNS,
    "pattern_type": ACL_PATTERNS,
    "pattern_type_filter": ACL_PATTERNS,
    "permission_type": ACL_PERMISSIONS,
    "operation": ACL_OPERATIONS,
    "config_source": CONFIG_SOURCES,
    "config_type": CONFIG_TYPES,
    "config_operation": CONFIG_OPERATIONS,
    "isolation_level": ISOLATION_LEVELS,
    "key_type": COORDINATORS,
    "election_type": ELECTIONS,
    "mechanism": SCRAM_MECHANISMS,
    "upgrade_type": UPGRADES,
    "match_type": QUOTA_MATCHES,
    "endpoint_type": ENDPOINTS,
    "member_type": MEMBERS,
    "acknowledge_types": ACKNOWLEDGEMENTS,
    "share_acquire_mode": ACQUIRE_MODES,
    "delivery_state": DELIVERY_STATES,
    "leader_recovery_state": RECOVERY_STATES,
}

_ACL_MESSAGES: Final = ("DescribeAcls", "CreateAcls", "DeleteAcls", "AccessControlEntry")


@cache
def names_of(message: str, field: Field) -> Naming | None:
    """The table for a field of the message with this class name (its nested structs included); None: plain numbers."""
    kind = field.of if field.kind == "array" else field.kind
    if kind not in ("int8", "int16", "int32", "int64"):
        return None
    if field.name.endswith("error_code") and kind == "int16":
        return ERRORS
    if field.name in ("resource_type", "resource_types"):
        return ACL_RESOURCES if message.startswith(_ACL_MESSAGES) else CONFIG_RESOURCES
    if message == "DescribeConfigsResponse" and field.name == "source":
        return CONFIG_SOURCES
    if message == "ListOffsetsRequest" and field.name == "timestamp":
        return TIMESTAMPS
    if (message, field.name) in (("ApiVersionsResponse", "api_key"), ("RequestHeader", "request_api_key")):
        return _apis()
    if field.name in ("compression_type", "accepted_compression_types"):
        return compressions()
    return _EVERYWHERE.get(field.name)


@cache
def _apis() -> Names:
    from kseg.client.protocol.registry import API_BY_KEY  # imports all messages, which these tables do not need

    return Names("API", {key: api.name for key, api in API_BY_KEY.items()})


@cache
def compressions() -> Names:
    from kseg.segment_reader.codecs.registry import CODECS  # it loads the codecs' libraries

    return Names("compression type", {codec.number: codec.name.upper() for codec in CODECS})

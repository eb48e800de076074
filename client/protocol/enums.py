"""Numbers of the protocol with names: ACLs, configuration, quotas, SCRAM, and the bit field of operations.

Names and numbers are those of Java's `org.apache.kafka.common.acl`, `…common.resource` and `ConfigResource.Type`, which
write them to the wire (KIP-140, KIP-290, KIP-339, KIP-430, KIP-554, KIP-714). A number that is newer than this table
is `UNKNOWN` (0), as in Java.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self


class WireEnum(IntEnum):
    """An int8 on the wire. `of` never fails: what a newer broker adds is UNKNOWN."""

    @classmethod
    def of(cls, code: int) -> Self:
        """The member of this number, or the one of 0."""
        found = cls._value2member_map_.get(code, cls._value2member_map_[0])
        assert isinstance(found, cls)
        return found


class AclOperation(WireEnum):
    """An operation of a principal on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(WireEnum):
    """The type of resource that an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(WireEnum):
    """The way in which an ACL's resource name is matched. ANY and MATCH are only for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(WireEnum):
    """The effect of an ACL. DENY takes precedence over ALLOW."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ConfigResourceType(WireEnum):
    """The type of resource that a configuration belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigType(WireEnum):
    """The type of a configuration's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ScramMechanism(WireEnum):
    """A user's SCRAM credential."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class UpgradeType(WireEnum):
    """The way in which a feature's level may change: only up; down if no metadata is lost; down in any case."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


#: `config_source` of a configuration's value, by number (KIP-226, KIP-714, KIP-848).
CONFIG_SOURCES: Final = {
    1: "topic",
    2: "broker-dynamic",
    3: "cluster-dynamic",
    4: "broker-static",
    5: "default",
    6: "broker-logger-dynamic",
    7: "client-metrics",
    8: "group",
}

#: The value of a bit field of authorized operations that was not requested.
NOT_ASKED: Final = -(2**31)


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations of a bit field (bit n is the operation with number n); None if they were not requested.

    Bits of operations that are newer than this table are UNKNOWN.
    """
    if bits == NOT_ASKED:
        return None
    return frozenset(AclOperation.of(number) for number in range(32) if bits >> number & 1)

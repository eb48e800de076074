"""Names and numbers are Java's; what a newer broker adds is no error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kseg.client.protocol.enums import (
    NOT_ASKED,
    AclOperation,
    ConfigResourceType,
    ConfigType,
    PatternType,
    PermissionType,
    ResourceType,
    ScramMechanism,
    UpgradeType,
    authorized_operations,
)


def test_every_name_and_number_is_javas(java: Callable[..., list[str]]):
    told = {tuple(line.split()) for line in java("EnumFacts.java")}
    ours = {
        (kind.__name__, member.name, str(member.value))
        for kind in (
            AclOperation,
            PermissionType,
            ResourceType,
            PatternType,
            ConfigResourceType,
            ConfigType,
            ScramMechanism,
            UpgradeType,
        )
        for member in kind
    }
    assert ours == told


@pytest.mark.rule(46)
@pytest.mark.parametrize(
    ("bits", "operations"),
    [
        (NOT_ASKED, None),
        (0, set()),
        (1 << 3 | 1 << 8, {AclOperation.READ, AclOperation.DESCRIBE}),
        (1 << 30, {AclOperation.UNKNOWN}),
    ],
    ids=["not-asked", "none", "two", "newer"],
)
def test_a_bit_field_names_its_operations(bits: int, operations: set[AclOperation] | None):
    assert authorized_operations(bits) == operations


def test_a_newer_number_is_unknown():
    assert ResourceType.of(99) is ResourceType.UNKNOWN
    assert AclOperation.of(3) is AclOperation.READ

"""Versions of the rules of decoding."""

from __future__ import annotations

import pytest

from kseg.etl.decoding.rules import FIRST, NEWEST, PROPERTY, rules_of


def test_a_version_stands_for_its_capabilities() -> None:
    assert rules_of(1) == FIRST
    assert not any((FIRST.nulls_fields, FIRST.limits_nulled, FIRST.connect_logical_types, FIRST.marks_unavailable))
    assert rules_of(NEWEST.version) == NEWEST
    assert all((NEWEST.nulls_fields, NEWEST.limits_nulled, NEWEST.connect_logical_types, NEWEST.marks_unavailable))


@pytest.mark.parametrize("version", [0, NEWEST.version + 1])
def test_a_version_that_this_release_does_not_have_is_an_error(version: int) -> None:
    with pytest.raises(ValueError, match=f"decoding rules {version} are unknown"):
        rules_of(version)


def test_tables_of_the_first_version_name_none() -> None:
    assert FIRST.properties == {}
    assert NEWEST.properties == {PROPERTY: str(NEWEST.version)}

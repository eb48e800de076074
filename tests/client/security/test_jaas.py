"""Java's JAAS text for one login module."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.security.jaas import parse_jaas


def test_a_login_module_is_its_class_and_its_options():
    module = parse_jaas(
        "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
        "  username=\"alice\" password='a b' // a remark\n  tokenauth=true;"
    )
    assert module.name == "ScramLoginModule"
    assert module.options == {"username": "alice", "password": "a b", "tokenauth": "true"}


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])))
def test_any_value_survives_its_quotes(value: str):
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'PlainLoginModule required password="{quoted}";').options == {"password": value}


def test_escapes_are_javas():
    assert parse_jaas(r'M required a="x\ty\101\"\\\q";').options == {"a": 'x\tyA"\\q'}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ('"hunter2" required;', "does not begin"),
        ("Module;", "control flag"),
        ("Module required password=hunter2", "semicolon"),
        ('Module required password="hunter2;', "quote that is not closed"),
        ("Module required password hunter2;", "not name=value"),
        ("Module required password=;", "not name=value"),
        ("Module required a=hunter2 a=hunter2;", "twice"),
        ("Module required a=hunter2; Other required b=hunter2;", "one login module"),
    ],
)
def test_what_cannot_be_read_is_told_without_its_values(text: str, told: str):
    with pytest.raises(ValueError, match=told) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)


@given(st.text())
def test_any_text_parses_or_is_refused(text: str):
    with contextlib.suppress(ValueError):
        assert parse_jaas(text).name


def test_the_values_are_not_shown():
    assert "hunter2" not in repr(parse_jaas("PlainLoginModule required password=hunter2;"))

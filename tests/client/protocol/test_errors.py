"""Errors keep their address through pickling."""

from __future__ import annotations

import pickle

import pytest

from kseg.client.protocol.errors import (
    DecodeError,
    EncodeError,
    ProtocolError,
    UnsupportedFieldError,
    UnsupportedVersionError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ProtocolError("odd"), "odd"),
        (DecodeError("cut short", 12, message="FetchResponse", version=4), "FetchResponse v4: cut short (at byte 12)"),
        (DecodeError("cut short", 0), "cut short (at byte 0)"),
        (EncodeError("too long", field="topics[0].name", message="M", version=1), "M v1 topics[0].name: too long"),
        (UnsupportedFieldError("no place", field="f", message="M", version=1), "M v1 f: no place"),
        (UnsupportedVersionError("not offered", message="Fetch", ours=(4, 18)), "Fetch: not offered"),
    ],
)
def test_an_error_says_where_and_survives_pickling(error: ProtocolError, text: str) -> None:
    assert str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == text
    assert vars(again) == vars(error)
    assert not again.retriable

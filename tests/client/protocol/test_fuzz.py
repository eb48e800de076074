"""Any bytes either are a message or raise `DecodeError`; what was read can be written and read again."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kseg.client.protocol.api import decode_response
from kseg.client.protocol.codec import decode, encode
from kseg.client.protocol.errors import DecodeError, UnsupportedVersionError
from kseg.client.protocol.registry import API_BY_KEY, decode_request
from kseg.client.protocol.schema import Message

SLICES = st.binary(max_size=6) | st.sampled_from([b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x01"])
MUTATIONS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), SLICES), min_size=1, max_size=3)

AnyMessage = Callable[[random.Random, type[Message], int], Any]
AnyPair = st.SearchStrategy[tuple[Message, int]]


def mutate(data: bytes, mutations: list[tuple[float, int, bytes]]) -> bytes:
    """Replace, for each mutation, some bytes at a relative position by others."""
    for where, removed, inserted in mutations:
        start = round(where * len(data))
        data = data[:start] + inserted + data[start + removed :]
    return data


def check(message_class: type[Message], version: int, data: bytes) -> None:
    fault = None
    try:
        message = decode(message_class, version, data)
    except DecodeError as caught:
        fault = caught
    if fault is None:
        assert decode(message_class, version, encode(message, version)) == message
    else:
        assert 0 <= fault.position <= len(data)
        assert fault.message == message_class.__name__


def test_damaged_messages_of_every_class_and_version(
    pairs: list[tuple[type[Message], int]], any_message: AnyMessage, scale: Callable[[int, int], int]
) -> None:
    rng = random.Random(20261121)
    slices = [b"", b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x01"]
    for cls, version in pairs * scale(2, 40):
        data = encode(any_message(rng, cls, version), version)
        for _ in range(3):
            mutations = [
                (rng.random(), rng.randint(0, 4), rng.choice([*slices, rng.randbytes(rng.randint(1, 6))]))
                for _ in range(rng.randint(1, 3))
            ]
            check(cls, version, mutate(data, mutations))


def test_damaged_messages(any_pair: AnyPair, scale: Callable[[int, int], int]) -> None:
    """The same with shrinking: a failure shows the smallest message and damage."""

    @settings(max_examples=scale(100, 5000), suppress_health_check=list(HealthCheck))
    @given(any_pair, MUTATIONS)
    def damage(pair: tuple[Message, int], mutations: list[tuple[float, int, bytes]]) -> None:
        message, version = pair
        check(type(message), version, mutate(encode(message, version), mutations))

    damage()


def test_every_cut(
    pairs: list[tuple[type[Message], int]], any_message: AnyMessage, scale: Callable[[int, int], int]
) -> None:
    """Fed byte by byte: no beginning of a message is an accident waiting."""
    rng = random.Random(20261121)
    for cls, version in pairs * scale(1, 20):
        data = encode(any_message(rng, cls, version), version)
        for end in range(min(len(data), 300)):
            check(cls, version, data[:end])


@given(st.sampled_from(sorted(API_BY_KEY)), st.integers(0, 20), st.binary(max_size=300))
@example(18, 3, b"\0\0\0\0\0")
@example(18, 3, b"\0\0\0\0\0\x23")
def test_noise_as_a_response(key: int, version: int, data: bytes) -> None:
    with suppress(DecodeError, UnsupportedVersionError):
        decode_response(API_BY_KEY[key], version, data)


@given(st.sampled_from(sorted(API_BY_KEY)), st.integers(0, 20), st.binary(max_size=300))
def test_noise_as_a_request(key: int, version: int, data: bytes) -> None:
    for frame in (data, key.to_bytes(2, "big") + version.to_bytes(2, "big") + data):
        with suppress(DecodeError, UnsupportedVersionError):
            decode_request(frame)

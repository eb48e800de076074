"""What the protocol's tests share: messages of every kind and version, and what the Java client says about them."""

from __future__ import annotations

import json
import random
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st

from client.protocol.api import API_BY_KEY
from client.protocol.embedded.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from client.protocol.fields import ZERO_UUID, Field
from client.protocol.messages import RequestHeader, ResponseHeader
from client.protocol.schema import Message, Struct
from jobs.broker import jars
from jobs.broker.errors import JarsUnavailable, JavaMissing
from jobs.broker.java import find_java

HERE = Path(__file__).parent
RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}

MESSAGES: list[type[Message]] = [
    RequestHeader,
    ResponseHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
for _api in API_BY_KEY.values():
    MESSAGES += [_api.request, _api.response]
PAIRS = [(cls, version) for cls in MESSAGES for version in range(cls.VERSIONS.lowest, cls.VERSIONS.highest + 1)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`message_class` is every message class, `message_class` with `version` every pair."""
    if {"message_class", "version"} <= set(metafunc.fixturenames):
        metafunc.parametrize(("message_class", "version"), PAIRS, ids=lambda value: getattr(value, "__name__", value))
    elif "message_class" in metafunc.fixturenames:
        metafunc.parametrize("message_class", MESSAGES, ids=lambda value: value.__name__)


@pytest.fixture(scope="session")
def pairs() -> list[tuple[type[Message], int]]:
    """Every message class with every one of its versions."""
    return PAIRS


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with Kafka's jars; skips where they are not in the cache and cannot be fetched."""
    try:
        return jars.ensure(jars.KAFKA)
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"the kafka-clients jar, which holds the definitions, is out of reach: {fault}")


@pytest.fixture(scope="session")
def definitions(kafka_jars: Path) -> dict[str, dict[str, Any]]:
    """Kafka's own definitions by message name, out of the kafka-clients jar."""
    (path,) = kafka_jars.glob("kafka-clients-*.jar")
    with zipfile.ZipFile(path) as jar:
        names = [name for name in jar.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        texts = [jar.read(name).decode() for name in names]
    parsed = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return {definition["name"]: definition for definition in parsed}


@pytest.fixture(scope="session")
def java(kafka_jars: Path) -> Callable[[str, str], list[str]]:
    """`java("Program.java", stdin)` runs a program of this folder with Kafka's jars; returns the lines it prints."""

    def run(program: str, stdin: str = "") -> list[str]:
        command = [find_java().command, "-Xmx512m", "-cp", f"{kafka_jars}/*", str(HERE / program)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def in_version(struct: type[Struct], version: int) -> Iterator[Field]:
    return (field for field in struct.FIELDS if field.versions.has(version))


def message_strategy(struct: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances with any values that this version can carry, and defaults in the fields that it lacks."""
    fields = {field.name: field_strategy(field, version) for field in in_version(struct, version)}
    return st.builds(struct, **fields)


def field_strategy(field: Field, version: int) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if field.kind == "array":
        values = st.lists(value_strategy(field.of, field.of, version), max_size=4)
    else:
        values = value_strategy(field.kind, field.of, version)
    return st.none() | values if field.nullable.has(version) else values


def value_strategy(kind: Any, of: Any, version: int) -> st.SearchStrategy[Any]:
    if isinstance(of, type):
        return message_strategy(of, version)
    if kind in RANGES:
        return st.integers(*RANGES[kind])
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.uuids() | st.just(ZERO_UUID),
        "string": st.text(max_size=200),
        "bytes": st.binary(max_size=200),
        "records": st.binary(max_size=200),
    }
    return simple[kind]


@pytest.fixture(scope="session")
def messages_of() -> Callable[[type[Message], int], st.SearchStrategy[Any]]:
    """A strategy for all messages of a class in a version."""
    return message_strategy


def random_message(rng: random.Random, struct: type[Struct], version: int) -> Any:
    """A message with edges and anything between in its fields; nothing where the version has no place."""
    return struct(**{field.name: random_field(rng, field, version) for field in in_version(struct, version)})


def random_field(rng: random.Random, field: Field, version: int) -> Any:
    if field.nullable.has(version) and rng.random() < 0.25:
        return None
    if rng.random() < 0.15:
        return field.fresh_default() if field.default is not None or field.nullable.has(version) else b""
    if field.kind == "array":
        sizes = [0, 1, 3] if isinstance(field.of, type) else [0, 1, 3, 126, 127, 128]
        return [random_value(rng, field.of, field.of, version) for _ in range(rng.choice(sizes))]
    return random_value(rng, field.kind, field.of, version)


def random_value(rng: random.Random, kind: Any, of: Any, version: int) -> Any:
    if isinstance(of, type):
        return random_message(rng, of, version)
    if kind in RANGES:
        lowest, highest = RANGES[kind]
        return rng.choice([lowest, highest, 0, 1, rng.randint(lowest, highest), max(lowest, -1)])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.uniform(-1e300, 1e300)
    if kind == "uuid":
        return UUID(int=rng.getrandbits(128))
    size = rng.choice([0, 1, 5, 126, 127, 128, 300, 16382, 16383, 16384] if rng.random() < 0.1 else [0, 1, 5, 20])
    if kind == "string":
        return "".join(rng.choice('aZ 0ä€\U0001f9ea\x00"\\') for _ in range(size))
    return rng.randbytes(size)


@pytest.fixture(scope="session")
def any_message() -> Callable[[random.Random, type[Message], int], Any]:
    """`any_message(rng, class, version)`: one message, reproducible by the generator's seed."""
    return random_message

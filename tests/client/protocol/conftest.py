"""What the protocol's tests share: messages of every kind and version, and what the Java clients say about them."""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st

from java_programs import SHORT_LIVED, java_with_kafka
from kseg.client.protocol import embedded, messages
from kseg.client.protocol.fields import ZERO_UUID
from kseg.client.protocol.schema import NEVER, Field, Message, Struct, Versions
from kseg.jobs.broker import jars
from kseg.jobs.broker.errors import JarsUnavailable, JavaMissing
from kseg.jobs.broker.java import find_java

HERE = Path(__file__).parent
RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


def messages_in(package: ModuleType) -> Iterator[type[Message]]:
    """Every message class that a module of the package defines."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(found.name)).values():
            if getattr(value, "__module__", None) == found.name and hasattr(value, "VERSIONS"):
                yield value


MESSAGES: list[type[Message]] = [*messages_in(messages), *messages_in(embedded)]
PAIRS = [(cls, version) for cls in MESSAGES for version in range(cls.VERSIONS.lowest, cls.VERSIONS.highest + 1)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`message_class` is every message class."""
    if "message_class" in metafunc.fixturenames:
        metafunc.parametrize("message_class", MESSAGES, ids=lambda value: value.__name__)


@pytest.fixture(scope="session")
def pairs() -> list[tuple[type[Message], int]]:
    """Every message class with every one of its versions."""
    return PAIRS


def ensured(name: str) -> Path:
    """The folder of a jar set; skips where it is not in the cache and cannot be fetched."""
    try:
        return jars.ensure(name)
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"{name}, which holds the definitions, is out of reach: {fault}")


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with Kafka's jars, of the release whose protocol we speak."""
    return ensured(jars.KAFKA)


@pytest.fixture(scope="session")
def old_jars() -> Path:
    """The folder with the jars of the last release that has the versions which Kafka 4 dropped."""
    return ensured(jars.OLD_KAFKA)


class Definitions:
    """Kafka's own definitions out of its jars: those of the newest release, and of an old one what that has dropped."""

    def __init__(self, newest: Path, old: Path) -> None:
        self._classes: dict[str, str] = {}
        self.old = self._read(old)
        self.newest = self._read(newest)

    def _read(self, folder: Path) -> dict[str, dict[str, Any]]:
        found = {}
        for path in sorted(folder.glob("kafka-*.jar")):
            with zipfile.ZipFile(path) as jar:
                for name in jar.namelist():
                    if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                        text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
                        definition = json.loads(text)
                        found[definition["name"]] = definition
                    elif generated := re.fullmatch(r"(org/apache/kafka/[\w/]+/(\w+))JsonConverter\.class", name):
                        java_class = generated[1].replace("/", ".")
                        self._classes |= {generated[2]: java_class, generated[2].removesuffix("Data"): java_class}
        return found

    def java_class(self, name: str) -> str:
        """The class that Kafka generates for a message."""
        return self._classes[name]

    @staticmethod
    def stable(source: dict[str, dict[str, Any]], name: str) -> Versions:
        """The versions that a release speaks. Which of them are unstable the request alone tells, for both sides."""
        if name not in source:
            return NEVER
        request = source.get(name.replace("Response", "Request"), source[name])
        lowest, highest = Versions.parse(source[name]["validVersions"])
        if not highest < lowest and str(request.get("latestVersionUnstable")).lower() == "true":
            highest = min(highest, Versions.parse(request["validVersions"]).highest - 1)
        return Versions(lowest, highest)

    def versions(self, name: str) -> Versions:
        """All stable versions, today's and those that were dropped."""
        ranges = [self.stable(source, name) for source in (self.newest, self.old)]
        there = [one for one in ranges if one.lowest <= one.highest]
        return Versions(min(one.lowest for one in there), there[0].highest)

    def of(self, name: str, version: int) -> dict[str, Any]:
        """The newest definition of this message that has this version."""
        return next(source for source in (self.newest, self.old) if self.stable(source, name).has(version))[name]


@pytest.fixture(scope="session")
def definitions(kafka_jars: Path, old_jars: Path) -> Definitions:
    """Kafka's own definitions by message name and version."""
    return Definitions(kafka_jars, old_jars)


def run_java(command: list[str], program: str, stdin: str) -> list[str]:
    command = [*command, str(HERE / program)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="session")
def java(kafka_jars: Path) -> Callable[..., list[str]]:
    """`java("Program.java", stdin)` runs a program of this folder with Kafka's jars; returns the lines it prints."""
    return lambda program, stdin="": run_java(java_with_kafka("-Xmx512m"), program, stdin)


@pytest.fixture(scope="session")
def old_java(old_jars: Path) -> Callable[..., list[str]]:
    """Like `java`, with the jars of the old release."""
    command = [find_java().command, *SHORT_LIVED, "-Xmx512m", "-cp", f"{old_jars}/*"]
    return lambda program, stdin="": run_java(command, program, stdin)


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
def any_pair() -> st.SearchStrategy[tuple[Message, int]]:
    """A strategy for any message of any class, with a version that carries it."""
    return st.sampled_from(PAIRS).flatmap(lambda pair: st.tuples(message_strategy(*pair), st.just(pair[1])))


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


def emptied(struct: type[Struct], version: int) -> Any:
    """A message with null wherever the version has it, and defaults in all other fields."""
    there = [field for field in in_version(struct, version) if field.kind != "records" or field.nullable.has(version)]
    lacking = {field.name: b"" for field in in_version(struct, version) if field not in there}
    return struct(**lacking, **{field.name: None for field in there if field.nullable.has(version)})


@pytest.fixture(scope="session")
def empty_message() -> Callable[[type[Message], int], Any]:
    """`empty_message(class, version)`: null wherever the version has it, defaults elsewhere."""
    return emptied


@pytest.fixture(scope="session")
def any_message() -> Callable[[random.Random, type[Message], int], Any]:
    """`any_message(rng, class, version)`: one message, reproducible by the generator's seed."""
    return random_message

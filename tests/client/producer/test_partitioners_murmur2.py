"""murmur2 and the choice of a partition, as Java makes them: its own classes are asked."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from java_programs import java_with_kafka
from kseg.client.producer.partitioners import murmur2, partition_of_key

COUNTS = (1, 2, 3, 7, 12, 100, 2**31 - 1)


@pytest.fixture(scope="module")
def keys() -> list[bytes]:
    chance = random.Random(7)
    return [b""] + [chance.randbytes(chance.randrange(40)) for _ in range(3000)]


@pytest.fixture(scope="module")
def java(keys: list[bytes]) -> list[list[int]]:
    """For each key: Java's hash, then the partition among each of COUNTS."""
    program = Path(__file__).parent / "Partitions.java"
    told = subprocess.run(
        [*java_with_kafka(), str(program), *map(str, COUNTS)],
        input="".join(key.hex() + "\n" for key in keys),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [[int(word) for word in line.split()] for line in told.stdout.splitlines()]


@pytest.mark.rule(48, 51)
def test_the_hash_and_the_partition_are_javas(keys: list[bytes], java: list[list[int]]):
    assert len(java) == len(keys)
    for key, (theirs, *partitions) in zip(keys, java, strict=True):
        assert murmur2(key) == theirs & 0xFFFFFFFF
        assert [partition_of_key(key, count) for count in COUNTS] == partitions

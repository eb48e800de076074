"""Which partition a coordinator's key is in, against Java."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from java_programs import java_with_kafka
from kseg.client.protocol.java_hash import coordinator_partition, string_hash

#: Its hash code is the one integer whose absolute value is not an integer.
LEAST = "polygenelubricants"


@pytest.mark.rule(182)
def test_keys_of_all_kinds_are_where_java_puts_them() -> None:
    rng = random.Random(182)
    pools = ["abc-_.0", "äöüß€", "\U0001f9ea\U0001f600a", "".join(map(chr, range(0x20, 0x3000))), "\ud83e\uddeaz"]
    keys = ["", LEAST, "kseg-orders", "gruppe-ä-\U0001f9ea", "\ud800"]
    keys += ["".join(rng.choice(pool) for _ in range(rng.randrange(1, 40))) for pool in pools for _ in range(100)]
    asked = [(key, rng.choice([1, 2, 3, 7, 50, 1000])) for key in keys]
    lines = [f"{key.encode('utf-16-be', 'surrogatepass').hex()}\t{count}" for key, count in asked]
    command = [*java_with_kafka("-Xmx128m"), str(Path(__file__).with_name("JavaHash.java"))]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300, check=True
    )
    assert [coordinator_partition(key, count) for key, count in asked] == [int(line) for line in done.stdout.split()]


def test_the_least_integer_has_partition_0() -> None:
    assert string_hash(LEAST) == 1 << 31
    assert coordinator_partition(LEAST, 50) == 0


def test_no_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="not a count of partitions"):
        coordinator_partition("g", 0)

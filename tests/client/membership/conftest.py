"""What the membership tests share: Kafka's jars, and Java programs that run with them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.broker import jars
from jobs.broker.errors import JarsUnavailable, JavaMissing
from jobs.broker.java import find_java

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with Kafka's jars; skips where they are not in the cache and cannot be fetched."""
    try:
        return jars.ensure(jars.KAFKA)
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"Kafka's jars are out of reach: {fault}")


@pytest.fixture(scope="session")
def java_command(kafka_jars: Path) -> list[str]:
    """How to start a Java program with Kafka's jars; the program and its arguments come after it."""
    return [find_java().command, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{kafka_jars}/*"]


@pytest.fixture(scope="session")
def java(java_command: list[str]) -> Callable[[str, str], list[str]]:
    """`java("Program.java", stdin)` runs a program of this folder; returns the lines it prints."""

    def run(program: str, stdin: str = "") -> list[str]:
        command = [*java_command, str(HERE / program)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run

"""Java programs that tests run with Kafka's jars: its own tools, and sources of a file that ask its classes."""

from __future__ import annotations

from kseg.jobs.broker import jars
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.shared_classes import archive_options

#: A JVM that lives for a second: compiled lightly, and collected by the simplest collector.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java_with_kafka(*options: str) -> list[str]:
    """How to start Java with Kafka's jars; a class, or the file of a source, and its arguments come after it. Classes
    come from the archive that brokers start from, where there is one.

    Raises JavaMissing, JarsUnavailable.
    """
    jars.ensure(jars.KAFKA)
    java = find_java()
    return [java.command, *SHORT_LIVED, *archive_options(java), *options, "-cp", jars.class_path(jars.KAFKA)]

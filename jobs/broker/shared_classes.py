"""The file in which a broker's JVM finds Kafka's classes ready: an archive of the JVM's own kind (class data sharing).

`kseg.jobs.broker.class_archive` makes it, once for a machine; without one a start only takes longer. The JVM checks
that it fits: another Java or a changed jar, and it is passed over in silence.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from kseg.etl.spark.cache import cache_root
from kseg.etl.spark.jvm import QUIET
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import Java


def archive_path(java: Java) -> Path:
    """The archive of this Java's classes of this Kafka, whether or not it exists yet."""
    place = f"{os.path.realpath(java.command)} {jars.directory(jars.KAFKA)}"
    return cache_root() / "jvm" / f"{jars.KAFKA}-{zlib.crc32(place.encode()):08x}.jsa"


def archive_options(java: Java) -> list[str]:
    """Options for a JVM whose class path is Kafka's: its classes come from the archive, where there is one."""
    archive = archive_path(java)
    return [f"-XX:SharedArchiveFile={archive}", *QUIET] if archive.exists() else []

"""Makes the archive of Kafka's classes from which a broker starts fast: once for a machine, by `make setup`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from kseg.etl.spark.jvm import QUIET
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.broker.shared_classes import archive_path

_TIMEOUT = 60.0


def make_archive() -> Path:
    """Start a broker and stop it, and keep the classes that it loaded: 40 MB, once.

    Raises LocalServerError, subprocess.SubprocessError or OSError where that fails; brokers then start without it.
    """
    java = find_java()
    path = archive_path(java)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch, path.name)
        with EmbeddedKafka(Path(scratch, "broker"), light=True, jvm=[f"-XX:ArchiveClassesAtExit={made}", *QUIET]):
            pass
        # Java believes an archive whose head is in order: one that a full disk has cut off would end every start.
        command = [java.command, f"-XX:SharedArchiveFile={made}", "-version"]
        subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)
        made.replace(path)  # whole or not at all
    return path

"""Look at this machine: what kseg needs, what is there, what is missing and what to do about it."""

from __future__ import annotations

import pkgutil
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Literal

import psutil

from kseg.etl.spark.cache import cache_root
from kseg.jobs.broker import jars
from kseg.jobs.broker.errors import LocalServerError
from kseg.jobs.broker.java import REMEDY, find_java
from kseg.jobs.broker.ports import free_ports

Level = Literal["ok", "note", "missing"]
"""``note``: works, or is needed for a part only. ``missing``: a job cannot run."""

DISTRIBUTION = "kafka-segment-etl"
SPARK_MODULE = "pyspark_kseg"

_GIB = 1 << 30
_MEMORY_WANTED = 4 * _GIB
_DISK_WANTED = 1 * _GIB


@dataclass(frozen=True)
class DoctorFinding:
    """One thing that was examined. ``remedy`` is empty where nothing is to be done."""

    subject: str
    level: Level
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def examine() -> list[DoctorFinding]:
    """Everything, in the order in which it should be fixed."""
    return [_python(), _java(), *_packages(), _data_source(), _decoders(), *_jars(), _ports(), _memory(), _disk()]


def healthy(findings: list[DoctorFinding]) -> bool:
    """Whether nothing that is needed is missing."""
    return all(finding.level != "missing" for finding in findings)


def _python() -> DoctorFinding:
    return DoctorFinding("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _java() -> DoctorFinding:
    try:
        java = find_java()
    except LocalServerError as error:
        return DoctorFinding("Java", "missing", error.message, error.remedy or REMEDY)
    return DoctorFinding("Java", "ok", f"{java.version} ({java.home}, by {java.origin})")


def _packages() -> Iterator[DoctorFinding]:
    """The distribution's requirements against what is installed; the right ones share one line."""
    from packaging.requirements import Requirement

    try:
        required = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or []]
    except metadata.PackageNotFoundError:
        yield DoctorFinding(
            "packages", "missing", f"{DISTRIBUTION} is not installed", "Run `make setup`, or pip install it."
        )
        return
    shown = []
    for requirement in required:
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield DoctorFinding(requirement.name, "missing", "not installed", f"pip install '{requirement}'")
            continue
        if requirement.specifier.contains(version, prereleases=True):
            shown.append(f"{requirement.name} {version}")
        else:
            yield DoctorFinding(
                requirement.name,
                "missing",
                f"{version}, needed {requirement.specifier}",
                f"pip install '{requirement}'",
            )
    main = [text for text in shown if re.match(r"pyspark|deltalake|pyarrow|numba ", text)]
    yield DoctorFinding("packages", "ok", f"{len(shown)} as required, among them {', '.join(main)}")


def _data_source() -> DoctorFinding:
    if any(module.name == SPARK_MODULE for module in pkgutil.iter_modules()):
        return DoctorFinding(
            "Spark source", "ok", f"{SPARK_MODULE}: spark.read.format('kseg') works without registering"
        )
    remedy = f"Only spark.read.format('kseg') needs it; install {DISTRIBUTION} again with pip."
    return DoctorFinding("Spark source", "note", f"Spark will not find {SPARK_MODULE}", remedy)


def _decoders() -> DoctorFinding:
    try:
        from kseg.segment_reader.payload.cached import decoders_are_compiled

        compiled = decoders_are_compiled()
    except ImportError as error:  # its package is missing, and a finding of its own
        return DoctorFinding(
            "decoders", "missing", f"cannot be imported: {error}", "Install the packages that are missing."
        )
    if compiled:
        return DoctorFinding("decoders", "ok", "compiled for this processor")
    return DoctorFinding(
        "decoders", "note", "not compiled yet", "`kseg setup` compiles them; else the first run does, once."
    )


def _jars() -> Iterator[DoctorFinding]:
    uses = {jars.DELTA: "tables that need Spark's writer", jars.KAFKA: "kseg broker, the demo and the tests"}
    for name, use in uses.items():
        if jars.present(name):
            yield DoctorFinding(f"jars {name}", "ok", str(jars.directory(name)))
        else:
            remedy = f"Only {use} need them; `kseg setup` fetches them, or their first use."
            yield DoctorFinding(f"jars {name}", "note", f"not in {jars.directory(name)}", remedy)


def _ports() -> DoctorFinding:
    try:
        port = free_ports(1)[0]
    except LocalServerError as error:
        return DoctorFinding("ports", "note", error.message, "Only kseg broker, the demo and the tests need some.")
    return DoctorFinding("ports", "ok", f"loopback can be listened on (127.0.0.1:{port})")


def _memory() -> DoctorFinding:
    memory = psutil.virtual_memory()
    found = f"{memory.available / _GIB:.1f} GiB free of {memory.total / _GIB:.1f}, {psutil.cpu_count()} cores"
    if memory.available < _MEMORY_WANTED:
        return DoctorFinding("memory", "note", found, "Spark and a broker together want about 4 GiB; close something.")
    return DoctorFinding("memory", "ok", found)


def _disk() -> DoctorFinding:
    folder = cache_root()
    while not folder.exists():
        folder = folder.parent
    free = psutil.disk_usage(str(folder)).free
    found = f"{free / _GIB:.1f} GiB free for the cache ({cache_root()})"
    if free < _DISK_WANTED:
        return DoctorFinding("disk", "note", found, "Set KSEG_CACHE to a folder with more free space.")
    return DoctorFinding("disk", "ok", found)

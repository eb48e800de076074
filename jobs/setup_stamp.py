"""Whether ``make setup`` has anything left to do: a stamp of what its second half (`jobs/setup.py`) made from what.

    <environment>/.prepared.json    {"inputs": "<sha256>", "outputs": ["<path>", …]}

inputs   the sources of compiled functions, the list of jars, the versions of what compiles and runs them, the processor
         (numba compiles for one), Java's path, and the environment variables that move caches
outputs  jars, archives of classes, compiled functions: all have to be there

Contents are compared; of a module with compiled functions its time as well, because numba compares that and would
compile again. Without a stamp, `jobs/setup.py` finds out by loading everything and decoding something of each kind: a
second of a processor or two at each `make`. This module imports the standard library alone:
``python -m kseg.jobs.setup_stamp`` takes a tenth of that, and ends with 0 if
there is nothing to do, else with 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

STAMP = Path(sys.prefix, ".prepared.json")

_KSEG = Path(__file__).resolve().parents[1]
_SOURCES = ("segment_reader/**/*.py", "jobs/setup*.py", "jobs/broker/*.lock", "etl/spark/class_archive.py")
_COMPILED = b"decode.jit import"  # in modules with compiled functions
_PACKAGES = ("llvmlite", "numba", "numpy", "pyarrow", "pyspark")
_VARIABLES = ("JAVA_HOME", "KSEG_CACHE", "NUMBA_CPU_FEATURES", "NUMBA_CPU_NAME", "XDG_CACHE_HOME")


def is_current(stamp: Path = STAMP, root: Path = _KSEG) -> bool:
    """Whether everything that the stamp tells of is there, and was made from what is there now."""
    try:
        found = json.loads(stamp.read_text())
        return bool(found["inputs"] == inputs(root)) and all(Path(path).exists() for path in found["outputs"])
    except (OSError, ValueError, KeyError, TypeError):  # no stamp, or not a whole one
        return False


def write(made_from: str, outputs: Iterable[Path], stamp: Path = STAMP) -> None:
    """Note what was made. `made_from`: `inputs()` from before that, as a setup itself sets JAVA_HOME.

    Nothing is noted where something of it is not there (an archive that could not be made is tried again), and where
    compiled functions are kept in NUMBA_CACHE_DIR, whose files are not known here.
    """
    paths = [path.absolute() for path in outputs]
    stamp.unlink(missing_ok=True)
    if "NUMBA_CACHE_DIR" not in os.environ and all(path.exists() for path in paths):
        stamp.write_text(json.dumps({"inputs": made_from, "outputs": [str(path) for path in paths]}))


def inputs(root: Path = _KSEG) -> str:
    """A hash of everything that a setup depends on."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(root.glob(pattern)):
            source = path.read_bytes()
            time = path.stat().st_mtime_ns if _COMPILED in source else 0
            digest.update(f"\n{path} {time}\n".encode() + source)
    digest.update("\n".join(_machine()).encode())
    return digest.hexdigest()


def _machine() -> Iterator[str]:
    yield sys.version
    yield os.path.realpath(shutil.which("java") or "")
    for package in _PACKAGES:
        yield f"{package} {metadata.version(package)}"
    for variable in _VARIABLES:
        yield f"{variable}={os.environ.get(variable)}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux, where environments do not move between machines
        return
    yield from sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})


if __name__ == "__main__":
    sys.exit(0 if is_current() else 1)

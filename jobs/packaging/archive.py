"""An environment for executors as one archive, for ``--archives``: a virtual environment, packed by venv-pack.

    bin/python                    a link to the Python that made it (or the one below `python_prefix`)
    lib/python3.X/site-packages   our packages, with their compiled code, and what they need in a task

It is copied from what is installed here, file by file by each package's RECORD, so that executors run the very
versions that the driver has, and no network is asked. pyspark stays out: every Spark brings its own to its Python
workers. So does what the driver alone needs (delta-rs, the command line), unless it is to run in the cluster as well.

Source: https://jcristharif.com/venv-pack/,
https://spark.apache.org/docs/latest/api/python/user_guide/python_packaging.html
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from kseg.etl.errors import ConfigurationError, KsegError
from kseg.jobs.packaging.wheel import DISTRIBUTION, NotInstalled, wheel_bytes

_SPARKS_OWN = frozenset({"pyspark", "py4j", "delta-spark", "importlib-metadata", "zipp", "pip", "setuptools"})
_DRIVERS = frozenset({"click", "deltalake", "arro3-core", "pandas", "psutil", "pydantic", "rich", "deprecated"})
_TAKEN_EXTRAS = ("gssapi", "msk", "isal", "fsspec", "tiered")
# Tests, headers and sources of compiled modules, which no task reads: a fifth of it all.
_LEFT_OUT = re.compile(r"(^|/)(tests?|include|__pycache__)/|\.(pyx|pxd|pxi|h|hpp|c|cc|cpp|a)$|^\.\./")
_KEPT = re.compile(r"^numpy/|^numba/")  # both import parts of their own tests' folders


class PackingFailed(KsegError):
    """The archive could not be made, or does not work where it was made."""


def build(target: Path, *, driver: bool = False, more: Sequence[str] = (), python_prefix: str | None = None) -> None:
    """Write the archive (``.tar.gz``).

    driver: with what the driver needs, for ``--deploy-mode cluster``.
    more: further distributions that are installed here, each with what it requires itself.
    python_prefix: where Python is installed on the workers, if not where it is here (``/usr`` for
    ``/usr/bin/python3``).

    Raises:
        NotInstalled, ConfigurationError: something to pack is not installed.
        PackingFailed: our code cannot be imported from what was packed.
    """
    try:
        import venv_pack
    except ImportError as error:
        remedy = "pip install 'kafka-segment-etl[package]'"
        raise NotInstalled("venv-pack, which makes the archive, is not installed.", remedy=remedy) from error

    with tempfile.TemporaryDirectory(prefix="kseg-env-") as scratch:
        folder = Path(scratch) / "environment"
        venv.create(folder, symlinks=True)
        site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        for name in distributions(driver=driver, more=more):
            _copy(metadata.distribution(name), site)
        zipfile.ZipFile(io.BytesIO(wheel_bytes())).extractall(site)
        _copy_compiled(site)
        _try_out(folder)
        target.unlink(missing_ok=True)
        venv_pack.pack(
            prefix=str(folder), output=str(target), format="tar.gz", compress_level=1, python_prefix=python_prefix
        )


def distributions(*, driver: bool, more: Sequence[str]) -> list[str]:
    """The packages in the archive beside our own. Raises NotInstalled, ConfigurationError."""
    left = _SPARKS_OWN if driver else _SPARKS_OWN | _DRIVERS
    found: set[str] = set()
    waiting = [name for name in _requirements(DISTRIBUTION, _TAKEN_EXTRAS) if name not in left]
    for name in more:
        if _installed(name) is None:
            remedy = f"pip install {name}, or leave it out"
            raise ConfigurationError.of("--with", f"{name} is not installed here", remedy)
        waiting.append(_normal(name))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [other for other in _requirements(name) if other not in left]
    return sorted(found)


def _requirements(name: str, extras: Sequence[str] = ()) -> Iterator[str]:
    """The installed distributions that one requires."""
    from packaging.requirements import Requirement

    distribution = _installed(name)
    if distribution is None:
        raise NotInstalled(f"{name} is not installed.", remedy="Run `make setup`, or install its wheel.")
    for text in distribution.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if _installed(requirement.name) is not None:
            yield _normal(requirement.name)


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy(distribution: metadata.Distribution, site: Path) -> None:
    for file in distribution.files or []:
        name = file.as_posix()
        if _LEFT_OUT.search(name) and not (_KEPT.match(name) and "/tests/" in name and name.endswith(".py")):
            continue
        source, target = Path(str(file.locate())), site / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(source, target)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copy2(source, target)


def _copy_compiled(site: Path) -> None:
    """Adds the machine code of this machine: taken where sources and processor are the same, else compiled again."""
    from kseg.segment_reader.decode.jit import cache_entries

    spec = find_spec("kseg.segment_reader")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    for path in cache_entries():
        target = site / "kseg" / "segment_reader" / path.relative_to(folder)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())


def _try_out(folder: Path) -> None:
    """Run the decoder in the environment, with pyspark as an executor has it; compiles what was not compiled yet."""
    pyspark = find_spec("pyspark")
    zips = Path(pyspark.origin).parent / "python" / "lib" if pyspark and pyspark.origin else Path()
    path = os.pathsep.join(str(found) for found in sorted(zips.glob("*.zip")))
    completed = subprocess.run(
        [str(folder / "bin" / "python"), "-c", "from kseg.etl.spark.worker_daemon import preload; preload()"],
        env={"PATH": os.defpath, "PYTHONPATH": path, "NUMBA_CACHE_DIR": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode != 0:
        reason = (completed.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise PackingFailed(
            f"The environment cannot run the decoder: {reason}",
            remedy="Add what is missing with --with DISTRIBUTION, or report it to us.",
        )

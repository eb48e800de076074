"""Our own packages as a wheel, made from whatever is installed: a checkout or site-packages, without a network.

A wheel is a zip file with the packages at its top and a ``.dist-info`` folder beside them, so Python imports from it as
from any zip file: the same bytes, named ``.zip``, are what ``--py-files`` takes (Spark puts no other suffix onto its
workers' path).

Source: https://packaging.python.org/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from kseg.etl.errors import KsegError
from kseg.etl.transform.python_archive import zipped

DISTRIBUTION = "kafka-segment-etl"
PACKAGE = "kseg"
PARTS = ("client", "etl", "jobs", "segment_reader")
"""The packages below it; in a checkout each is a folder of its own."""

SPARK_MODULE = "pyspark_kseg"
"""The top-level module by which Spark finds the data source; in a checkout it lies in a folder of `etl`."""

_MAPPED = (PACKAGE, SPARK_MODULE)  # folders of a checkout that are installed elsewhere

_DATA = (".py", ".typed", ".java", ".json", ".lock", ".properties", ".sql", ".yaml")
_TEMPLATES = "templates"  # a folder of data, which is no package
_DIST_INFO = ("METADATA", "entry_points.txt", "licenses/LICENSE")
_WHEEL = "Wheel-Version: 1.0\nGenerator: kseg package\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class NotInstalled(KsegError):
    """There is nothing to pack: the distribution or one of its packages is not installed."""


def wheel_name() -> str:
    """The wheel's file name. Raises NotInstalled."""
    return f"{_stem()}-py3-none-any.whl"


def zip_name() -> str:
    """The same for ``--py-files``. Raises NotInstalled."""
    return f"{_stem()}.zip"


def wheel_bytes() -> bytes:
    """The wheel. Raises NotInstalled."""
    files = dict(package_files())
    files |= {f"{_stem()}.dist-info/{name}": data for name, data in _dist_info().items()}
    record = f"{_stem()}.dist-info/RECORD"
    files[record] = "".join([*(_record(name, files[name]) for name in sorted(files)), f"{record},,\n"]).encode()
    return zipped(files)


def package_files() -> Iterator[tuple[str, bytes]]:
    """Path in the wheel and content of every file of our packages, the same that pip builds. Raises NotInstalled."""
    for path in sorted(_folder(PACKAGE).iterdir()):
        if path.suffix in _DATA:
            yield f"{PACKAGE}/{path.name}", path.read_bytes()
    for part in PARTS:
        yield from _files(_folder(f"{PACKAGE}.{part}"), f"{PACKAGE}/{part}")
    own = importlib.util.find_spec(SPARK_MODULE)
    folder = (
        Path(own.origin).parent if own and own.origin else _folder(f"{PACKAGE}.etl") / "spark_format" / SPARK_MODULE
    )
    yield from _files(folder, SPARK_MODULE)


def _files(folder: Path, package: str) -> Iterator[tuple[str, bytes]]:
    if not (folder / "__init__.py").is_file() or (folder.name in _MAPPED and "/" in package):
        return
    for path in sorted(folder.iterdir()):
        if path.name == _TEMPLATES:
            yield from ((f"{package}/{path.name}/{file.name}", file.read_bytes()) for file in sorted(path.iterdir()))
        elif path.is_dir():
            yield from _files(path, f"{package}/{path.name}")
        elif path.suffix in _DATA:
            yield f"{package}/{path.name}", path.read_bytes()


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NotInstalled(f"package {package} is not installed.", remedy="Run `make setup`.")
    folder = Path(spec.origin).parent
    if not folder.is_dir():
        raise NotInstalled(f"{package} is imported from an archive ({spec.origin}).", remedy="Install kseg with pip.")
    return folder


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise NotInstalled(
            f"{DISTRIBUTION} is not installed.", remedy="Run `make setup`, or install its wheel."
        ) from error


def _stem() -> str:
    return f"{DISTRIBUTION.replace('-', '_')}-{_distribution().version}"


def _dist_info() -> dict[str, bytes]:
    texts = {name: _distribution().read_text(name) for name in _DIST_INFO}
    # In a checkout that was built from, the source's own metadata are found first, under their other name.
    texts["METADATA"] = texts["METADATA"] or _distribution().read_text("PKG-INFO")
    found = {name: text.encode() for name, text in texts.items() if text is not None}
    return found | {"WHEEL": _WHEEL.encode(), "top_level.txt": "\n".join([PACKAGE, SPARK_MODULE, ""]).encode()}


def _record(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"

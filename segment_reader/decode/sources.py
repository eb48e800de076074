"""Sources of compiled functions: a hash of them, and files with them where the package lies in a zip file.

numba keeps compiled code under the path of the function's source. A zip file (Spark's ``--py-files``) has another path
in every Spark application, so each would compile again (16 s of a processor) and leave its files behind. So the source
of a compiled function is written to a folder named by its content, and the function's code names that file: all
applications of a user on a host share the code that one of them has compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

PACKAGE = __name__.rpartition(".decode.")[0]

# At the beginning of a line: an import inside of a function is no part of compiled code.
_IMPORT = re.compile(
    rb"^(?:from|import) (%s[\w.]*)(?: import (\([^)]*\)|[^\n]*))?" % PACKAGE.replace(".", r"\.").encode(), re.MULTILINE
)


@cache
def fingerprint(module: str) -> str:
    """A hash of the module's source and of the modules of this package that it imports, directly or not."""
    digest = hashlib.sha256()
    for name in sorted(closure(module)):
        digest.update(_source(name) or b"")
    return digest.hexdigest()[:12]


def closure(module: str) -> frozenset[str]:
    """The module and the modules of this package that it imports, directly or not. Nothing is imported for this."""
    found: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in found and _source(name) is not None:
            found.add(name)
            pending += _imported(name)
    return frozenset(found)


@cache
def source_file(module: str) -> Path | None:
    """A file with the module's source, outside of the zip file; None where nothing can be written."""
    source = _source(module)
    name = f"{module.removeprefix(PACKAGE + '.')}.py"
    folder = None if source is None else write_source(f"segment_reader-{fingerprint(module)}", name, source)
    return None if folder is None else folder / name


def write_source(folder: str, name: str, source: bytes) -> Path | None:
    """The folder with this file, written where it is missing; None where nothing can be written."""
    for root in _cache_folders():
        path = root / folder
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / name).exists():
                _write(path / name, source)
        except OSError:
            continue
        return path
    return None


def _imported(module: str) -> Iterator[str]:
    for found in _IMPORT.finditer(_source(module) or b""):
        imported = found[1].decode()
        if _source(imported) is not None:
            yield imported
        else:  # a package: names of its modules follow
            yield from (f"{imported}.{name}" for name in re.findall(r"\w+", (found[2] or b"").decode()))


@cache
def _source(module: str) -> bytes | None:
    """None: there is no such module (a package counts as none)."""
    *folders, name = module.removeprefix(PACKAGE).strip(".").split(".")
    try:
        return _root().joinpath(*folders, f"{name}.py").read_bytes()
    except OSError:
        return None


@cache
def _root() -> Traversable:
    return resources.files(PACKAGE)


def _cache_folders() -> Iterator[Path]:
    """Never a folder that several users share: the files in it are executed."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given)
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kseg" / "compiled"
    yield Path.cwd() / ".kseg-compiled"  # an executor's own folder, removed with its application


def _write(path: Path, data: bytes) -> None:
    """Atomically: other workers read it at the same time."""
    handle, scratch = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    Path(scratch).replace(path)

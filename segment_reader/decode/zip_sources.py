"""Sources of compiled functions as files, where the package itself lies in a zip file (Spark's ``--py-files``).

numba keeps compiled code under the path of the function's source. A zip file has another path in every Spark
application, so each would compile anew (16 s of a processor) and leave its files behind. So the few sources that are
compiled are laid into a folder named by their content, and compiled functions say that they come from there: all
applications of a user on a host share what one of them has compiled.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path


def lay_out(name: str, sources: Mapping[str, bytes]) -> Path | None:
    """The folder with these files (by name), made where it is missing; None where nothing can be written."""
    for root in _roots():
        folder = root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file, data in sources.items():
                if not (folder / file).exists():
                    _write(folder / file, data)
        except OSError:
            continue
        return folder
    return None


def comes_from(function: Callable[..., object], folder: Path) -> None:
    """Let a function's code name the file of its module in `folder` as its source."""
    file = folder / f"{function.__module__.partition('.segment_reader.')[2]}.py"
    function.__code__ = function.__code__.replace(co_filename=str(file))


def _roots() -> Iterator[Path]:
    """Never a folder that several users share: what lies there is run."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given)
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kseg" / "compiled"
    yield Path.cwd() / ".kseg-compiled"  # an executor's own folder, gone with its application


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: other workers look for it at the same time."""
    handle, scratch = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    Path(scratch).replace(path)

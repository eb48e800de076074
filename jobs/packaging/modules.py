"""A job's own Python modules: those that its file names as `module:function` and that no installed package brings.

Arrow and Python steps of the transform, a token callback, a layout of one's own. Spark's executors need them as much as
we do. A module that lies below `site-packages` is somebody's package: it belongs into the executors' environment.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kseg.etl.errors import ConfigurationError
from kseg.jobs.packaging.wheel import PACKAGE, SPARK_MODULE, zipped

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_]\w*")
_CALLBACK = "sasl.oauthbearer.token.callback"


def modules_of(job: Job) -> list[str]:
    """The top-level names of the modules that the job names, ours left out."""
    named = [step.arrow for step in job.arrow_steps]
    named += [python for step in job.frame_steps if (python := getattr(step, "python", None))]
    named.append((job.kafka or {}).get(_CALLBACK, ""))
    named.append(job.source.segments.layout if job.source.segments else "")
    tops = {match[1].partition(".")[0] for text in named if (match := _REFERENCE.fullmatch(text))}
    return sorted(tops - {PACKAGE, SPARK_MODULE})


def modules_zip(names: Iterable[str], folders: Iterable[Path] = ()) -> bytes | None:
    """A zip file of these modules, for ``--py-files``; None where each comes from an installed package.

    folders: where to look besides Python's own path.

    Raises:
        ConfigurationError: a module is not found.
    """
    files: dict[str, bytes] = {}
    for name in names:
        files |= dict(_files(name, [str(folder) for folder in folders]))
    return zipped(files) if files else None


def _files(name: str, folders: list[str]) -> Iterator[tuple[str, bytes]]:
    origin = _origin(name, folders)
    if origin is None or "site-packages" in origin.parts or "dist-packages" in origin.parts:
        return
    if origin.name != "__init__.py":
        yield origin.name, origin.read_bytes()
        return
    for path in sorted(origin.parent.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(origin.parent.parent)), path.read_bytes()


def _origin(name: str, folders: list[str]) -> Path | None:
    """The module's file; None for one of the standard library's."""
    if name in sys.stdlib_module_names:
        return None
    kept = list(sys.path)
    sys.path[:0] = folders
    try:
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(name)
    finally:
        sys.path[:] = kept
    if spec is None or spec.origin is None:
        raise ConfigurationError.of(
            "transform", f"there is no module {name}", "put it beside the job file, or onto PYTHONPATH"
        )
    return Path(spec.origin)

"""Where things that can be fetched or made again are kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """``$KSEG_CACHE``, else ``$XDG_CACHE_HOME/kseg``, else ``~/.cache/kseg``; not created here."""
    if environ.get("KSEG_CACHE"):
        return Path(environ["KSEG_CACHE"]).expanduser()
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]).expanduser() / "kseg"
    return Path.home() / ".cache" / "kseg"


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a whole file or nothing: readers in other processes never see half of it."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

"""Atomic writes of files that other processes may read at the same time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace a file atomically, and create its folder: readers see the old or the new content. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """As `replace_file`, unless the file has this text already."""
    data = text.encode("utf-8")
    if not path.exists() or path.read_bytes() != data:
        replace_file(path, data, mode=mode)

"""Files that other processes read while we write them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a whole file or nothing, its folder too: readers see it before or after, never half. Raises OSError."""
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
    """The same, where it does not hold this text already."""
    data = text.encode("utf-8")
    if not path.exists() or path.read_bytes() != data:
        replace_file(path, data, mode=mode)

"""Atomic writes of files that other processes may read at the same time."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kseg.etl.errors import ConfigurationError

_OF_ANOTHER_PLACE: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}
)


@contextmanager
def writing_to(option: str) -> Iterator[None]:
    """Around what writes to the place that an option names.

    Raises:
        ConfigurationError: nothing can be written there, as far as another place would help. Other OSErrors pass.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_ANOTHER_PLACE:
            raise
        message = f"cannot write {error.filename}: {error.strerror}"
        raise ConfigurationError.of(option, message, "choose a folder that you may write to") from None


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
    """Calls `replace_file`, unless the file has this text already."""
    data = text.encode("utf-8")
    if not path.exists() or path.read_bytes() != data:
        replace_file(path, data, mode=mode)

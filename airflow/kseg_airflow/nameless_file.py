"""A file without a name, for what a process is handed that must not stay on a disk: it ends with its last reader.

Nobody has to delete it, so it is gone also when the process that made it and the one that reads it are killed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def nameless_file(text: str) -> Iterator[int]:
    """The descriptor of a file with this text, open as long as the context; a child gets it by `pass_fds`."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kseg")
    else:  # macOS
        descriptor, name = tempfile.mkstemp(prefix="kseg-")
        os.unlink(name)  # noqa: PTH108
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode("utf-8"))
        os.lseek(descriptor, 0, os.SEEK_SET)  # where /dev/fd shares the position
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    """By which a child that was handed the descriptor opens the file."""
    return f"/dev/fd/{descriptor}"

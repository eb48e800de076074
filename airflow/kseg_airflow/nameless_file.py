"""An anonymous file, for passing secrets to a child process: it has no name, and exists only while it is open.

So nobody has to delete it, even if the processes that write and read it are killed.
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
    """The path by which a child process that inherited the descriptor opens the file."""
    return f"/dev/fd/{descriptor}"

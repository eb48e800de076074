"""The home folder, also of a user without one: a container's arbitrary uid has neither $HOME nor an entry in passwd."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path


def home_folder() -> Path:
    """The user's home, else ``kseg-<uid>`` among the temporary files. Raises OSError: that cannot be created either."""
    try:
        return Path.home()
    except RuntimeError:
        return _temporary_home(os.getuid(), tempfile.gettempdir())


def expand_home(path: str) -> Path:
    """A path whose leading ``~`` stands for `home_folder`. Raises RuntimeError: it has an unknown user's ``~name``."""
    first, _, rest = path.partition("/")
    return home_folder() / rest if first == "~" else Path(path).expanduser()


@cache
def _temporary_home(uid: int, folder: str) -> Path:
    """Created for this user alone: jars are kept there. A process gets its own, where another user was first."""
    path = Path(folder) / f"kseg-{uid}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return path
    return Path(tempfile.mkdtemp(prefix=f"kseg-{uid}-", dir=folder))

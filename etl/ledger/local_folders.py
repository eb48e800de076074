"""Local places of ledgers and tables: can there be a folder, and may this process write to it?

delta-rs answers neither in words that help: of a file it says that the path does not exist, and that it may not write
is seen at the first commit, when the run has read its records.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.ledger.object_store import is_local, local_path

MAY_WRITE: Final = "let the account that runs the job have a folder that it may read, list, write and delete in"


def nearest_existing(path: Path) -> Path:
    """An absolute path, or the nearest of the folders above it that exists and can be seen."""
    return next(one for one in (path, *path.parents) if _is_seen(one))


def _is_seen(path: Path) -> bool:
    try:
        path.stat()
    except OSError:  # also where a folder above it may not be searched
        return False
    return True


def refuse_file(place: str, *, setting: str, **address: str) -> None:
    """Refuse a local place that is a file, or is below one.

    place: an absolute path, or a URL. setting: the key of the job file that names it ("sink").

    Raises:
        ConfigurationError
    """
    if not is_local(place):
        return
    path = Path(local_path(place))
    there = nearest_existing(path)
    if not there.is_dir():
        message = f"{path} is a file, not a folder" if there == path else f"{path} is below {there}, which is a file"
        raise ConfigurationError([Diagnostic(setting, message, "give the path of a folder")], **address)


def refuse_unwritable(place: str, *, setting: str, **address: str) -> None:
    """Refuse the local place of a Delta table in which this process may not write data files or commits. Nothing is
    written. place, setting: as of `refuse_file`.

    Raises:
        ConfigurationError
    """
    refuse_file(place, setting=setting, **address)
    if not is_local(place):
        return
    path = Path(local_path(place))
    for folder in (path, path / "_delta_log"):
        there = nearest_existing(folder)
        if not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            message = f"cannot write below {path}: this account may not write to {there}"
            raise ConfigurationError([Diagnostic(setting, message, MAY_WRITE)], **address)

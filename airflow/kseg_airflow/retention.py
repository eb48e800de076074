"""Old run folders are removed, so that logs and reports do not fill a disk.

A task that starts a driver searches them, once a day for each run_dir. A folder goes when nothing in it was written
for the retention's time and its last driver has ended: seen to be gone, its result taken, or stopped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kseg_airflow.compat import conf
from kseg_airflow.drivers.handles import handle_of
from kseg_airflow.run_folder import SECRETS, RunFolder

DEFAULT_DAYS: Final = 30.0

log = logging.getLogger(__name__)

_DAY: Final = 86_400.0
_MARK: Final = ".tidied"


def retention_days() -> float:
    """KSEG_RUN_RETENTION_DAYS, or `[kseg] run_retention_days`, or 30; 0 keeps all. Raises ValueError."""
    given = os.environ.get("KSEG_RUN_RETENTION_DAYS") or conf.get("kseg", "run_retention_days", fallback="")
    days = float(given or DEFAULT_DAYS)
    if not days >= 0:  # also for "nan"
        raise ValueError(f"run_retention_days={given}: a number of days, or 0")
    return days


def tidy(run_dir: str, days: float, warn: Callable[[str], None] = log.warning) -> list[str]:
    """Remove what is older than so many days; returns the folders that are gone, and none if this was done today.

    Secrets that a driver has left which was killed with all of its processes are removed at any age.

    warn: is given what cannot be removed, or whose driver cannot be asked for (its connection was deleted).
    """
    root = Path(run_dir).expanduser().absolute()
    now = time.time()
    if not _is_due(root / _MARK, now):
        return []
    gone = []
    for record in root.glob("*/*/*/record.json"):
        folder = RunFolder(record.parent)
        try:
            if days and folder.remove_if(lambda found: now - found.last_used() > days * _DAY and _has_ended(found)):
                gone.append(str(folder.path))
                for parent in (folder.path.parent, folder.path.parent.parent):
                    with contextlib.suppress(OSError):  # not empty
                        parent.rmdir()
            elif any(folder.path.glob(f"try-*/{SECRETS}")) and _has_ended(folder):
                folder.remove_secrets()
        except Exception as error:  # another task's: whatever it is, this one has a driver to wait for
            warn(f"{folder.path} cannot be tidied: {type(error).__name__}: {error}")
    return gone


def _is_due(mark: Path, now: float) -> bool:
    """Whether the last removal is a day ago. The first caller does the next one."""
    with contextlib.suppress(FileNotFoundError):
        if now - mark.stat().st_mtime < _DAY:
            return False
    mark.touch()
    return True


def _has_ended(folder: RunFolder) -> bool:
    record = folder.record()
    if record is None:
        return False
    if record.taken or record.stopped:
        return True
    try:
        return handle_of(record.handle).poll() is not None
    except OSError:  # the status cannot be read at the moment
        return False

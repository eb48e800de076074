"""Names of data files, which say whose they are: clean-up deletes what attempts of a run have left, nothing else.

part-00000-5f3a1c9e2b-17-9a3e11d0-4-12-0f…e1-v17.parquet     number, run, task, attempt, random part, app version
part-00000-5f3a1c9e2b-17-9a3e11d0-4-12-0f…e1.parquet         the same, as releases up to 0.1 wrote it
part-00000-2d7c….parquet                                     of a compaction, or of another writer: nobody's
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FILE_NAME = re.compile(
    r"part-\d{5}-(?P<run>.+)-(?P<task>\d+)-(?P<attempt>\d+)-[0-9a-f]{32}(-v(?P<version>\d+))?\.parquet"
)


class FileOwner(NamedTuple):
    """The owner of a data file: a run, and the app version of the plan that it was written for.

    A backfill that is abandoned and repeated has the same run id as before, and the next app version: a process that
    still abandons the first plan must not delete the files of the second. app_version: None where the name has none;
    releases up to 0.1 wrote such files.
    """

    run_id: str
    app_version: int | None


def file_name(owner: FileOwner, number: int, task: int, attempt: int) -> str:
    """A name that no other attempt can have and that identifies the owner of the file.

    The version comes last, where earlier releases read no run's name: they leave such files alone.

    Raises:
        ValueError: the run id has characters that a file name should not have.
    """
    if not _RUN_ID.fullmatch(owner.run_id):
        raise ValueError(f"not a run id: {owner.run_id!r}")
    version = "" if owner.app_version is None else f"-v{owner.app_version}"
    return f"part-{number:05d}-{owner.run_id}-{task}-{attempt}-{uuid.uuid4().hex}{version}.parquet"


def owner_of_file(name: str) -> FileOwner | None:
    """The owner of a file, whichever release wrote it; None for files that no run's task has written."""
    match = _FILE_NAME.fullmatch(name.rpartition("/")[2])
    if match is None:
        return None
    return FileOwner(match["run"], None if match["version"] is None else int(match["version"]))

"""Files that attempts of a run wrote and no commit took up: of failed tasks, of attempts that lost.

Call this only when a commit with the run's app transaction is durable in the table (or the run's removal is). Before
that no file of the run is anybody's to delete: a suspended attempt may wake up and commit its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow.fs as pafs

from kseg.etl.tables.delta.log import commits_back, read_commit
from kseg.etl.tables.delta.table import TableAccess
from kseg.etl.tables.parquet.task_output import run_of_file


@dataclass(frozen=True, slots=True)
class Swept:
    """Files deleted, and their bytes."""

    files: int = 0
    bytes: int = 0


def sweep(target: TableAccess, run_id: str, versions: Collection[int] | None = None) -> Swept:
    """Delete the run's files below the table's folder that no commit refers to.

    versions: every version in which a commit of this run stands (its landing, its removal); None: the log is searched.
    Their files and those of the newest snapshot stay, also those that were compacted away since: older versions can
    still be read. Where a commit cannot be read any more, or none is found, nothing is deleted: VACUUM finds such files
    in its time.

    Raises:
        RetriableFailure: the table cannot be read.
        OSError: its folder cannot be listed. Files that cannot be deleted are passed over.
    """
    table = target.load()
    if table is None:
        return Swept()
    store = target.location.open()
    if versions is None:
        commits = [commit for commit in commits_back(store, table.version()) if commit.run == run_id]
    else:
        read = [read_commit(store, version) for version in versions]
        commits = [commit for commit in read if commit is not None and commit.run == run_id]
    if not commits or (versions is not None and len(commits) < len(versions)):
        return Swept()
    referenced = {file.path for commit in commits for file in commit.added} | target.paths(table)
    files = size = 0
    for info in data_files(store.fs, store.root):
        path = info.path[len(store.root) :].lstrip("/")
        if run_of_file(path) != run_id or path in referenced:
            continue
        with contextlib.suppress(OSError):
            store.fs.delete_file(info.path)
            files += 1
            size += info.size or 0
    return Swept(files, size)


def data_files(fs: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    """All files below a folder, without those that Delta keeps for itself (`_delta_log`, `_change_data` …)."""
    found: list[pafs.FileInfo] = []
    for info in fs.get_file_info(pafs.FileSelector(folder)):
        if info.type == pafs.FileType.Directory:
            # A partition folder may begin with an underscore, but then it has an equals sign.
            if not info.base_name.startswith(("_", ".")) or "=" in info.base_name:
                found += data_files(fs, info.path)
        elif info.type == pafs.FileType.File:
            found.append(info)
    return found

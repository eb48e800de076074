"""Files that attempts of a run wrote and no commit took up: of failed tasks, of attempts that lost.

Call this only when a commit with the run's app transaction is durable in the table (or the run's removal is). Before
that no file of the run may be deleted: a suspended attempt may wake up and commit its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from urllib.parse import unquote

import pyarrow.fs as pafs
from deltalake import DeltaTable

from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.tables.delta.log import commits_back, read_commit
from kseg.etl.tables.file_names import FileOwner, owner_of_file
from kseg.etl.tables.parquet.storage import Opened
from kseg.etl.tables.values import FileCount


def clean_up(
    table: DeltaTable | None,
    log: DeltaLog,
    store: Opened,
    owner: FileOwner,
    versions: Collection[int] | None = None,
    *,
    after: int = -1,
    unversioned: bool = False,
) -> FileCount:
    """Delete the owner's files below the table's folder that no commit refers to. Files of other plans of the run stay.

    table: the newest snapshot; None: there is no table. versions: every version that holds a commit of this run (its
    landing, its removal); None: the log is searched. after: the version before the run's first commit, where that is
    known; the log is searched no further back. unversioned: as of `TableAccess.clean_up`.

    The files of these versions and those of the newest snapshot stay, also those that were compacted away since: older
    versions can still be read. Where a commit cannot be read any more, or none is found, nothing is deleted: VACUUM
    deletes such files later.

    Raises:
        RetriableFailure, ConfigurationError: the table's folder cannot be listed. Files that cannot be deleted are
            skipped.
    """
    if table is None:
        return FileCount()
    if versions is None:
        commits = [commit for commit in commits_back(log, table.version(), after + 1) if commit.run == owner.run_id]
    else:
        read = [read_commit(log, version) for version in versions]
        commits = [commit for commit in read if commit is not None and commit.run == owner.run_id]
    if not commits or (versions is not None and len(commits) < len(versions)):
        return FileCount()
    owners = {owner, FileOwner(owner.run_id, None)} if unversioned else {owner}
    referenced = {file.path for commit in commits for file in commit.added} | snapshot_paths(table)
    files = size = 0
    with store.asked("cannot list the table's files"):
        infos = data_files(store.fs, store.root)
    for info in infos:
        path = info.path[len(store.root) :].lstrip("/")
        if owner_of_file(path) not in owners or path in referenced:
            continue
        with contextlib.suppress(OSError):
            store.fs.delete_file(info.path)
            files += 1
            size += info.size or 0
    return FileCount(files, size)


def snapshot_paths(table: DeltaTable) -> set[str]:
    """The snapshot's data files: paths relative to the table (absolute ones of shallow clones), decoded."""
    return {unquote(path) for path in table.get_add_actions().column("path").to_pylist()}


def data_files(fs: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    """All files below a table's folder, without those that Delta keeps for itself (`_delta_log`, `_change_data` …), and
    those of another table that lies inside it."""
    return _below(fs, fs.get_file_info(pafs.FileSelector(folder)), [])


def tables_inside(fs: pafs.FileSystem, folder: str) -> list[str]:
    """The folders below a table's folder that have a Delta log of their own, without those inside of these."""
    tables: list[str] = []
    _below(fs, fs.get_file_info(pafs.FileSelector(folder)), tables)
    return sorted(tables)


def _below(fs: pafs.FileSystem, infos: Iterable[pafs.FileInfo], tables: list[str]) -> list[pafs.FileInfo]:
    """Data files. tables: other tables' folders are added to it."""
    found: list[pafs.FileInfo] = []
    for info in infos:
        if info.type == pafs.FileType.Directory:
            # A partition folder may begin with an underscore, but then it has an equals sign.
            if not info.base_name.startswith(("_", ".")) or "=" in info.base_name:
                inside = fs.get_file_info(pafs.FileSelector(info.path))
                if any(one.base_name == "_delta_log" for one in inside):
                    tables.append(info.path)
                else:
                    found += _below(fs, inside, tables)
        elif info.type == pafs.FileType.File:
            found.append(info)
    return found

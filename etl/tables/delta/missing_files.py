"""Data files that a log names and that are not there: a table with such a file cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs as pafs
from deltalake import DeltaTable

from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.tables.delta.cleanup import data_files, snapshot_paths
from kseg.etl.tables.delta.log import read_commit
from kseg.etl.tables.parquet.storage import Opened

FEW = 2048
"""Up to so many files are asked for one by one (a HEAD each); more are looked up in a listing of the table's folder,
which has the files of all its history and takes a request for each partition."""

AT_ONCE = 16


def missing_of_snapshot(table: DeltaTable, store: Opened) -> tuple[str, ...]:
    """Files of a snapshot that are not there: paths relative to the table.

    Raises:
        OSError: the store cannot be read.
    """
    return _missing(store, snapshot_paths(table))


def missing_of_commit(
    newest: Callable[[], DeltaTable | None], log: DeltaLog, store: Opened, version: int
) -> tuple[str, ...]:
    """Files that a commit added, that the newest snapshot still has, and that are not there. None where its entry is
    gone.

    newest: gives that snapshot, None where there is no table. It is asked for only where a file is not there.

    Raises:
        OSError: the store cannot be read.
    """
    commit = read_commit(log, version)
    gone = () if commit is None else _missing(store, {file.path for file in commit.added})
    if not gone:
        return ()
    # A later OPTIMIZE and VACUUM, or a user's DELETE, may have removed it rightly.
    table = newest()
    named = set() if table is None else snapshot_paths(table)
    return tuple(path for path in gone if path in named)


def _missing(store: Opened, paths: Collection[str]) -> tuple[str, ...]:
    # Shallow clones name the files of another table, by absolute paths.
    inside = sorted(path for path in paths if "://" not in path and not path.startswith("/"))
    if len(inside) > FEW:
        there = {info.path[len(store.root) :].lstrip("/") for info in data_files(store.fs, store.root)}
    else:
        there = set(_found(store, inside))
    return tuple(path for path in inside if path not in there)


def _found(store: Opened, paths: list[str]) -> Iterable[str]:
    def is_file(path: str) -> bool:
        (info,) = store.fs.get_file_info([store.path(path)])
        return bool(info.type == pafs.FileType.File)

    if len(paths) < 2:
        return [path for path in paths if is_file(path)]
    with ThreadPoolExecutor(min(AT_ONCE, len(paths)), thread_name_prefix="kseg-files") as pool:
        return [path for path, there in zip(paths, pool.map(is_file, paths), strict=True) if there]

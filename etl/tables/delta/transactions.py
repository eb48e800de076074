"""App transactions of a Delta table, of all apps at once: delta-rs answers for one app id that is known beforehand.

    _delta_log/00000000000000000120.checkpoint.parquet      all of them up to version 120, in the column `txn`
    _delta_log/00000000000000000121.json …                  those that came later, in the commits' `txn` actions

(Delta protocol, "Checkpoints" and "Transaction Identifiers".) Of a checkpoint in parts every part is read; a checkpoint
with sidecars has its transactions in the file that the log names. The last transaction of an app counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow.fs as pafs

from kseg.etl.errors import RetriableFailure
from kseg.etl.tables.delta.log import read_commit
from kseg.etl.tables.parquet.storage import Opened

MOST_COMMITS: Final = 20
"""Commits that are read one by one; a checkpoint and the commits after it are fewer requests than more of them."""

READING: Final = "cannot read a checkpoint of the table's log"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)")


def transactions_of(store: Opened, app: str, newest: int, after: int | None = None) -> dict[str, int]:
    """The last version of this app and of each app below it (`app/…`), by app id.

    newest: version of the snapshot. after: only of commits after this version, unless the log does not reach back to it
    or there are many; None: of all commits.

    Raises:
        RetriableFailure: log entries were removed while they were read.
        RetriableFailure, ConfigurationError: the store cannot be read.
    """
    found: dict[str, int] = {}
    if after is not None and newest - after <= MOST_COMMITS and _add_commits(found, store, newest, after):
        return _of(found, app)
    found.clear()
    checkpoint, files = newest_checkpoint(store, newest)
    if not _add_commits(found, store, newest, checkpoint):
        raise RetriableFailure("entries of the table's log were removed while it was read", table=store.uri)
    for path in files:
        for app_id, version in _in_checkpoint(store, path, app):
            found.setdefault(app_id, version)
    return _of(found, app)


def _add_commits(found: dict[str, int], store: Opened, newest: int, after: int) -> bool:
    """Add those of the commits after a version, newest first; False where one of the commits is gone."""
    for version in range(newest, after, -1):
        commit = read_commit(store, version)
        if commit is None:
            return False
        for app_id, app_version in commit.transactions.items():
            found.setdefault(app_id, app_version)
    return True


def _of(found: dict[str, int], app: str) -> dict[str, int]:
    return {app_id: version for app_id, version in found.items() if _belongs(app_id, app)}


def _belongs(app_id: str, app: str) -> bool:
    return app_id == app or app_id.startswith(f"{app}/")


def newest_checkpoint(store: Opened, newest: int) -> tuple[int, list[str]]:
    """Version and files of the newest complete checkpoint up to a version; -1 where there is none."""
    with store.asked("cannot list the table's log"):
        listed = store.fs.get_file_info(pafs.FileSelector(store.path("_delta_log")))
    parts: dict[tuple[int, int], list[str]] = {}
    for info in listed:
        match = _CHECKPOINT.fullmatch(info.base_name)
        if match is not None and int(match[1]) <= newest:
            parts.setdefault((int(match[1]), int(match[3] or 0)), []).append(info.path)
    complete = {key: paths for key, paths in parts.items() if key[1] in (0, len(paths))}
    if not complete:
        return -1, []
    key = max(complete)
    # Without parts, several files are equal checkpoints of one version.
    return key[0], complete[key] if key[1] else complete[key][:1]


def _in_checkpoint(store: Opened, path: str, app: str) -> Iterator[tuple[str, int]]:
    try:
        if path.endswith(".json"):
            with store.asked(READING), store.fs.open_input_stream(path) as stream:
                actions: list[dict[str, Any]] = [json.loads(line) for line in bytes(stream.read()).splitlines() if line]
            for action in actions:
                if (body := action.get("txn")) is not None:
                    yield body["appId"], int(body["version"])
            return
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        with store.asked(READING), store.fs.open_input_file(path) as source:
            parquet = pq.ParquetFile(source)
            if "txn" not in parquet.schema_arrow.names:
                return
            for group in range(parquet.num_row_groups):
                column = parquet.read_row_group(group, ["txn.appId", "txn.version"], use_threads=False)["txn"]
                flat = column.combine_chunks()
                ids, versions = pc.struct_field(flat, "appId"), pc.struct_field(flat, "version")
                mine = pc.fill_null(pc.starts_with(ids, app), False)
                yield from zip(ids.filter(mine).to_pylist(), versions.filter(mine).to_pylist(), strict=True)
    except FileNotFoundError as error:
        raise RetriableFailure("a checkpoint was removed while it was read", table=store.uri) from error

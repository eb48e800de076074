"""Files of a Delta log that are gone though cleaning the log leaves them: an entry behind the newest checkpoint, or
the checkpoint that holds the outcome of entries that were cleaned away.

delta-rs (1.6) says of either only that it cannot read the table. So its words are the occasion to look, and what is
missing is found in the log's folder.

    00000000000000000004.json                                       an entry
    00000000000000000004.checkpoint.parquet                         a checkpoint
    00000000000000000004.checkpoint.0000000001.0000000002.parquet   one of two parts of a checkpoint
    00000000000000000004.checkpoint.UUID.json (or .parquet)         a V2 checkpoint

(Delta protocol, "Checkpoints".)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kseg.etl.errors import KsegError, RetriableFailure
from kseg.etl.ledger.store_errors import store_words
from kseg.etl.tables.delta.log import entry_path
from kseg.etl.tables.errors import checkpoint_missing, log_damaged

if TYPE_CHECKING:
    from kseg.etl.tables.parquet.storage import Opened, TableLocation

# An entry is missing between two; the one of the version that is committed upon; the one next to a checkpoint.
_LACKS_ENTRY = re.compile(
    r"Expected contiguous commit files|Invalid table version: \d+|Gap between checkpoint version \d+ and next commit"
)
_LACKS_CHECKPOINT = re.compile(
    r"No table metadata or protocol found in delta log|Had a _last_checkpoint hint but didn't find any checkpoints"
)
_ENTRY = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet|\.parquet|\.[0-9A-Fa-f-]{36}\.(json|parquet))"
)
_HINT = "_delta_log/_last_checkpoint"


def lost_file(location: TableLocation, doing: str, error: Exception) -> KsegError | None:
    """The error for delta-rs' own one, where that is of a file that the log lacks; None for any other.

    doing: what failed, as a message begins ("cannot read the table").

    Returns:
        Refused: the file is gone. RetriableFailure: it is there, since delta-rs listed a local folder while others
        committed, which is no moment's picture; or the store cannot be read now. ConfigurationError: it wants other
        settings.
    """
    text = store_words(error)
    lacks_checkpoint = _LACKS_CHECKPOINT.search(text) is not None
    if not lacks_checkpoint and not _LACKS_ENTRY.search(text):
        return None
    table = str(location)
    try:
        store = location.open()
        if not lacks_checkpoint:
            missing = missing_entry(store)
            if missing is not None:
                return log_damaged(table, entry_path(missing))
        else:
            names = _names(store)
            oldest = min(_entries(names), default=None)
            if oldest is None or newest_checkpoint(names) >= 0:
                return None
            if oldest > 0:
                return checkpoint_missing(table, entry_path(oldest))
            return checkpoint_missing(table, None, hint=_HINT) if _is_there(store, _HINT) else None
    except KsegError as failed:
        return failed
    return RetriableFailure(f"{doing}: {text}", table=table)


def missing_entry(store: Opened) -> int | None:
    """The first version since the newest checkpoint that has no entry, or the newest version; None: all have one.

    Raises:
        RetriableFailure, ConfigurationError: the store cannot be read.
    """
    names = _names(store)
    entries, checkpoint = _entries(names), newest_checkpoint(names)
    newest = max(entries, default=-1)
    if newest < checkpoint:
        candidates: Iterable[int] = (checkpoint,)
    else:
        candidates = (version for version in range(checkpoint + 1, newest) if version not in entries)
    # Asked for by its name: a list made while others commit may lack what was there before it and after it.
    return next((version for version in candidates if not _is_there(store, entry_path(version))), None)


def newest_checkpoint(names: Iterable[str]) -> int:
    """The version of the newest checkpoint that is whole, by the names in the log's folder; -1: there is none."""
    found = [match for name in names if (match := _CHECKPOINT.fullmatch(name)) is not None]
    whole = [int(match["version"]) for match in found if match["part"] is None]
    parts: dict[tuple[int, int], set[int]] = defaultdict(set)
    for match in found:
        if match["part"] is not None:
            parts[int(match["version"]), int(match["parts"])].add(int(match["part"]))
    whole += [version for (version, of), numbers in parts.items() if len(numbers) == of]
    return max(whole, default=-1)


def _entries(names: Iterable[str]) -> set[int]:
    return {int(name[:20]) for name in names if _ENTRY.fullmatch(name)}


def _names(store: Opened) -> list[str]:
    import pyarrow.fs as pafs

    folder = pafs.FileSelector(store.path("_delta_log"), allow_not_found=True)
    with store.asked("cannot list the table's log"):
        return [info.base_name for info in store.fs.get_file_info(folder)]


def _is_there(store: Opened, path: str) -> bool:
    import pyarrow.fs as pafs

    with store.asked("cannot read the table's log"):
        (info,) = store.fs.get_file_info([store.path(path)])
    return bool(info.type != pafs.FileType.NotFound)

"""Which files of a log make up a version: a checkpoint, and what was committed after it.

    00000000000000000042.checkpoint.parquet                                    classic
    00000000000000000042.checkpoint.0000000001.0000000002.parquet              one of two parts; all or none count
    00000000000000000042.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json  V2 (or .parquet)
    00000000000000000043.json                                                  a commit
    00000000000000000043.00000000000000000050.compacted.json                   the commits 43 to 50 in one file
    _last_checkpoint                                                           a hint where to begin listing

(Delta protocol, "Delta Log Entries", "Checkpoints", "Log Compaction Files", "Last Checkpoint File".) The hint is
nothing else: where it cannot be read, or leads nowhere, the log is listed from its beginning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kseg.etl.delta_log.errors import DamagedLog
from kseg.etl.delta_log.folder import LogFile

HINT: Final = "_last_checkpoint"
_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(
    r"(?P<version>\d{20})\.(?:(?P<commit>json)|(?P<until>\d{20})\.compacted\.json|checkpoint(?:"
    rf"(?P<classic>\.parquet)|\.(?P<part>\d{{10}})\.(?P<parts>\d{{10}})\.parquet|\.{_UUID}\.(?:json|parquet)))"
)


def entry_name(version: int) -> str:
    """The name of a version's commit."""
    return f"{version:020d}.json"


def hinted(content: bytes) -> int | None:
    """The version that `_last_checkpoint` names; None where it is torn or no JSON."""
    try:
        version = json.loads(content)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, int) and 0 <= version < 2**63 else None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint. files: one, or all parts in order."""

    version: int
    files: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class Commits:
    """A file with the actions of the versions first … last: a commit (first == last), or a log compaction file."""

    first: int
    last: int
    file: LogFile


@dataclass(frozen=True, slots=True)
class LogSegment:
    """What makes up a version. commits: contiguous, the oldest first, from the version after the checkpoint on."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[Commits, ...]


def segment(
    files: Iterable[LogFile], *, table: str, until: int | None = None, without: Collection[Checkpoint] = ()
) -> LogSegment | None:
    """The newest version that a listing has; None where it has none.

    until: the version wanted, or the newest before it; None, too, where only later versions have all that they are made
    of, as in a log that was cleaned. without: checkpoints that cannot be read.

    Raises:
        DamagedLog: a commit is missing between two others, or what the first commit depends on is.
    """
    found = _Found(files, until)
    checkpoint = max((one for one in found.checkpoints if one not in without), key=_version, default=None)
    base = -1 if checkpoint is None else checkpoint.version
    version = max(base, *found.entries, -1)
    if version < 0:
        return None
    missing = next((number for number in range(base + 1, version + 1) if number not in found.entries), None)
    if missing is None:
        return LogSegment(version, checkpoint, tuple(found.chain(base + 1, version)))
    if found.is_cleaned:
        return None
    if checkpoint is None and missing == 0:
        oldest = entry_name(min(found.entries))
        raise DamagedLog(f"the log begins with {oldest}, and no checkpoint before it is complete", table=table)
    message = "a commit is missing between others of the table's log"
    raise DamagedLog(message, table=table, version=missing, file=entry_name(missing))


def newest_checkpoint(files: Iterable[LogFile]) -> int | None:
    """The version of the newest complete checkpoint of a listing."""
    return max(map(_version, _Found(files, None).checkpoints), default=None)


def _version(checkpoint: Checkpoint) -> int:
    return checkpoint.version


class _Found:
    """The files of a listing by what they are. is_cleaned: whether there is a checkpoint behind the version wanted, so
    that what is older may have been deleted."""

    def __init__(self, files: Iterable[LogFile], until: int | None) -> None:
        self.entries: dict[int, LogFile] = {}
        self.compacted: dict[int, list[Commits]] = {}
        parts: dict[tuple[int, int], dict[int, LogFile]] = {}
        classic: list[Checkpoint] = []
        others: list[Checkpoint] = []
        newest = math.inf if until is None else until
        for file in files:
            match = _NAME.fullmatch(file.name)
            if match is None:
                continue
            version = int(match["version"])
            if match["commit"]:
                if version <= newest:
                    self.entries[version] = file
            elif match["until"]:
                if (last := int(match["until"])) <= newest:
                    self.compacted.setdefault(version, []).append(Commits(version, last, file))
            elif match["part"]:
                parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
            else:
                (classic if match["classic"] else others).append(Checkpoint(version, (file,)))
        in_parts = (checkpoint for key, of in parts.items() for checkpoint in _whole(*key, of))
        # All checkpoints of a version are equal: `max` takes the first, so one file rather than parts.
        every = [*classic, *others, *in_parts]
        self.checkpoints = [one for one in every if one.version <= newest]
        self.is_cleaned = len(every) > len(self.checkpoints)

    def chain(self, first: int, last: int) -> Iterable[Commits]:
        """Files that together have each version of [first, last] once, the fewest that can be had from the left.

        All commits are there: a log compaction file spares requests, and replaces no commit.
        """
        version = first
        while version <= last:
            single = Commits(version, version, self.entries[version])
            whole = (one for one in self.compacted.get(version, ()) if version < one.last <= last)
            longest = max(whole, key=lambda one: one.last, default=single)
            yield longest
            version = longest.last + 1


def _whole(version: int, number: int, parts: Mapping[int, LogFile]) -> Iterable[Checkpoint]:
    if number and set(parts) == set(range(1, number + 1)):
        yield Checkpoint(version, tuple(parts[part] for part in range(1, number + 1)))

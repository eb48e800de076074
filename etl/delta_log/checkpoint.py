"""Checkpoints: classic, in parts, and V2 with or without sidecars, read column by column.

    protocol | metaData | txn | add | remove | domainMetadata | checkpointMetadata | sidecar        a struct each

(Delta protocol, "Checkpoints" and "Checkpoint Schema".) A row has one action, so all columns but one are null. What is
not a file (protocol, metadata, transactions, domains) is read without the columns of files, and row groups whose
statistics say that a column is null throughout are passed over. A missing column counts as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kseg.etl.delta_log.actions import (
    Action,
    AddFile,
    AppTransaction,
    CheckpointMetadata,
    DomainMetadata,
    FileAction,
    MalformedAction,
    Sidecar,
    TableMetadata,
    TableProtocol,
    checked,
)
from kseg.etl.delta_log.batches import ActionBatch, ArrowBatch, FileBatch
from kseg.etl.delta_log.entries import parse
from kseg.etl.delta_log.errors import DamagedLog, LogChanged
from kseg.etl.delta_log.folder import LogFile, LogFolder
from kseg.etl.delta_log.listing import Checkpoint, newest_checkpoint
from kseg.etl.delta_log.pieces import Pieces
from kseg.etl.errors import KsegError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

A = TypeVar("A", bound=Action)

# A field that each action of the kind has: null means that the row is another kind's.
_OTHERS: Final[Mapping[type[Action], str]] = {
    TableProtocol: "minReaderVersion",
    TableMetadata: "id",
    AppTransaction: "appId",
    DomainMetadata: "domain",
    CheckpointMetadata: "version",
    Sidecar: "path",
}
_KEYS: Final[Mapping[type[Action], str]] = {**_OTHERS, AddFile: "path"}

_OF_FILES: Final = frozenset({"path", "size", "stats", "deletionVector"})
"""Fields of a file that are read; minimal and maximal values and partition values may be most of a checkpoint."""

_ROWS_PARSED: Final = "add.stats_parsed.numRecords"
_BATCH_ROWS: Final = 10_000


@dataclass(frozen=True)
class CheckpointReader:
    """Reads one checkpoint; what is read once stays.

    Every method may raise LogChanged (a file was deleted, and there is a newer checkpoint), DamagedLog (a file is
    missing, or is not what the protocol says), and what `LogFolder` raises.
    """

    folder: LogFolder
    checkpoint: Checkpoint
    #: Footers of its files, and small ones whole: they are read for what is no file, and again for the files.
    _opened: dict[str, Pieces] = field(default_factory=dict, compare=False, repr=False)
    _parsed: dict[str, tuple[Action, ...]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def others(self) -> tuple[Action, ...]:
        """Everything but files: protocol, metadata, transactions, domains.

        Raises:
            DamagedLog: there is not exactly one protocol and one metadata, or not the version that its name has.
        """
        found = tuple(action for file in self.checkpoint.files for action in self._others_in(file))
        for kind in (TableProtocol, TableMetadata):
            if (number := sum(isinstance(action, kind) for action in found)) != 1:
                raise self._damaged(self.checkpoint.files[0], f"{number} actions {kind.KIND} in place of one")
        for action in found:
            if isinstance(action, CheckpointMetadata) and action.version != self.checkpoint.version:
                raise self._damaged(self.checkpoint.files[0], f"it is of version {action.version}")
        return found

    def files(self) -> Iterator[FileBatch]:
        """The files in batches."""
        sidecars = [action for action in self.others if isinstance(action, Sidecar)]
        # A V2 checkpoint has its files in sidecars, in itself, or some in both.
        for file in (*self.checkpoint.files, *(LogFile(one.file, one.size_in_bytes) for one in sidecars)):
            if file.name.endswith(".json"):
                yield ActionBatch([action for action in self._json(file) if isinstance(action, AddFile)])
            else:
                yield from self._in_parquet(file)

    def _others_in(self, file: LogFile) -> Iterator[Action]:
        if file.name.endswith(".json"):
            yield from (action for action in self._json(file) if not isinstance(action, FileAction))
            return
        with self._reading(file):
            parquet, pieces = self._open(file)
            for kind, rows in _rows_of(parquet, pieces, tuple(_OTHERS)):
                for row in rows.to_pylist():
                    yield self._action(kind, row, file)

    def _in_parquet(self, file: LogFile) -> Iterator[FileBatch]:
        def action(row: dict[str, Any]) -> AddFile:
            return self._action(AddFile, row, file)

        with self._reading(file):
            parquet, pieces = self._open(file)
            rows_of = _rows_of(parquet, pieces, (AddFile,))
        while True:
            with self._reading(file):
                found = next(rows_of, None)
            if found is None:
                return
            yield ArrowBatch(found[1], action, partial(self._reading, file))

    def _json(self, file: LogFile) -> tuple[Action, ...]:
        if (found := self._parsed.get(file.name)) is None:
            try:
                content = self.folder.read(file.name)
            except FileNotFoundError as error:
                raise self._missing(file) from error
            found = parse(content, table=self.folder.table, version=self.checkpoint.version, file=file.name)
            self._parsed[file.name] = found
        return found

    def _action(self, kind: type[A], row: dict[str, Any], file: LogFile) -> A:
        try:
            return checked(kind.of(_as_json(row)))
        except MalformedAction as error:
            raise self._damaged(file, str(error)) from error

    def _open(self, file: LogFile) -> tuple[pq.ParquetFile, Pieces]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pieces = self._opened.get(file.name)
        if pieces is None:
            pieces = Pieces(file.size, lambda first, length: self.folder.read(file.name, first, length))
            if file in self.checkpoint.files:
                self._opened[file.name] = pieces
        pieces.seek(0)
        return pq.ParquetFile(pa.PythonFile(pieces, mode="r")), pieces

    @contextmanager
    def _reading(self, file: LogFile) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except FileNotFoundError as error:
            raise self._missing(file) from error
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise self._damaged(file, str(error).partition("\n")[0]) from error

    def _missing(self, file: LogFile) -> KsegError:
        """The error for a file that is missing: a log is cleaned of a checkpoint only behind a newer checkpoint."""
        newest = newest_checkpoint(self.folder.list_from(self.checkpoint.version))
        if newest is not None and newest > self.checkpoint.version:
            return LogChanged("a checkpoint was deleted while it was read", table=self.folder.table)
        return self._damaged(file, "the file is missing")

    def _damaged(self, file: LogFile, message: str) -> DamagedLog:
        return DamagedLog(
            f"a checkpoint of the table's log cannot be read: {message}",
            table=self.folder.table,
            version=self.checkpoint.version,
            file=file.name,
        )


def _rows_of(
    parquet: pq.ParquetFile, pieces: Pieces, kinds: Sequence[type[Action]]
) -> Iterator[tuple[type[Action], pa.StructArray]]:
    """The actions of these kinds, at most `_BATCH_ROWS` at once, without nulls."""
    import pyarrow.compute as pc

    metadata = parquet.metadata
    for group in range(metadata.num_row_groups):
        chunks = {
            (chunk := metadata.row_group(group).column(n)).path_in_schema: chunk for n in range(metadata.num_columns)
        }
        wanted = {kind: names for kind in kinds if (names := _leaves(kind, chunks))}
        leaves = [name for names in wanted.values() for name in names]
        if not leaves:
            continue
        pieces.fetch(_range(chunks[name]) for name in leaves)
        # In batches: a row group may have the statistics of a million files.
        for rows in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=leaves, use_threads=False):
            for kind in wanted:
                column = rows.column(kind.KIND)
                key = pc.struct_field(column, _KEYS[kind])
                if len(found := column.filter(key.is_valid())):
                    yield kind, found
        pieces.drop()


def _leaves(kind: type[Action], chunks: dict[str, Any]) -> list[str]:
    """The columns of a row group to read for a kind; empty where it has no action of the kind."""
    key = chunks.get(f"{kind.KIND}.{_KEYS[kind]}")
    if key is None or _is_all_null(key):
        return []
    found = [name for name in chunks if name.partition(".")[0] == kind.KIND]
    if kind is AddFile:
        return [name for name in found if name.split(".")[1] in _OF_FILES or name == _ROWS_PARSED]
    return found


def _is_all_null(chunk: Any) -> bool:
    statistics = chunk.statistics if chunk.is_stats_set else None
    return statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values


def _range(chunk: Any) -> tuple[int, int]:
    first = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < first:
        first = chunk.dictionary_page_offset
    return first, first + chunk.total_compressed_size


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a checkpoint's row that are used, as the same action has them in JSON."""
    found = dict(row)
    vector = found.get("deletionVector")
    if isinstance(vector, dict) and not any(vector.values()):  # some writers have a struct of nulls in place of a null
        del found["deletionVector"]
    rows = (found.get("stats_parsed") or {}).get("numRecords")
    if rows is not None and found.get("stats") is None:
        found["stats"] = f'{{"numRecords":{rows}}}'
    return found

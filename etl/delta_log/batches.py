"""File actions many at a time: as they are in a Parquet checkpoint (Arrow), or as actions of JSON files.

A table may have a million files. As Python objects they take a kilobyte each, and half a minute; so what only counts
files, bytes and rows does not make them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.delta_log.actions import AddFile, rows_in

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[str, str | None]
"""Of a logical file: its path and the unique id of its deletion vector."""

_ROWS: Final = r'^\{"numRecords":(?P<rows>\d{1,18})[,}]'
"""How statistics begin with most writers; others are parsed."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of logical files. size: bytes. stored_rows: rows in the data files; None: a file's statistics lack it.
    deleted_rows: those of them that deletion vectors hide."""

    files: int = 0
    size: int = 0
    stored_rows: int | None = 0
    deleted_rows: int = 0

    @property
    def rows(self) -> int | None:
        """Rows that a reader sees."""
        return None if self.stored_rows is None else self.stored_rows - self.deleted_rows

    def __add__(self, other: Totals) -> Totals:
        unknown = self.stored_rows is None or other.stored_rows is None
        return Totals(
            self.files + other.files,
            self.size + other.size,
            None if unknown else (self.stored_rows or 0) + (other.stored_rows or 0),
            self.deleted_rows + other.deleted_rows,
        )


class FileBatch(ABC):
    """Some files."""

    @abstractmethod
    def __iter__(self) -> Iterator[AddFile]: ...

    @abstractmethod
    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        """Those whose keys are not among these. paths: of the keys."""

    @abstractmethod
    def totals(self) -> Totals: ...


@dataclass(frozen=True, slots=True)
class ActionBatch(FileBatch):
    """File actions of a JSON file."""

    actions: Sequence[AddFile]

    def __iter__(self) -> Iterator[AddFile]:
        return iter(self.actions)

    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        return ActionBatch([action for action in self.actions if action.key not in keys])

    def totals(self) -> Totals:
        rows = [action.stored_rows for action in self.actions]
        return Totals(
            len(rows),
            sum(action.size for action in self.actions),
            None if None in rows else sum(filter(None, rows)),
            sum(action.deleted_rows for action in self.actions),
        )


@dataclass(frozen=True, slots=True)
class ArrowBatch(FileBatch):
    """Rows of a checkpoint's column. rows: an array of structs without nulls. action: makes one of a row's values."""

    rows: pa.StructArray
    action: Callable[[dict[str, Any]], AddFile]

    def __iter__(self) -> Iterator[AddFile]:
        return map(self.action, self.rows.to_pylist())

    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        path = self._field("path")
        candidates = pc.is_in(path, pa.array(list(paths), path.type)) if paths else None
        if candidates is None or not candidates.true_count:
            return self
        gone = [self.action(self.rows[n].as_py()).key in keys for n in pc.indices_nonzero(candidates).to_pylist()]
        return ArrowBatch(
            self.rows.filter(pc.replace_with_mask(_all_true(len(self.rows)), candidates, pc.invert(gone))), self.action
        )

    def totals(self) -> Totals:
        import pyarrow.compute as pc

        size, vector = self._field("size"), self._field("deletionVector")
        hidden = 0 if vector is None else pc.sum(pc.struct_field(vector, "cardinality")).as_py() or 0
        return Totals(len(self.rows), 0 if size is None else pc.sum(size).as_py() or 0, self._stored_rows(), hidden)

    def _stored_rows(self) -> int | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        stats, parsed = self._field("stats"), self._field("stats_parsed")
        rows = pa.nulls(len(self.rows), pa.int64())
        if stats is not None:
            found = pc.extract_regex(stats, _ROWS)
            rows = pc.struct_field(found, "rows").cast(pa.int64())
        if parsed is not None:
            rows = pc.coalesce(rows, pc.struct_field(parsed, "numRecords").cast(pa.int64()))
        if stats is not None and rows.null_count:
            rest = [rows_in(text) for text in stats.filter(rows.is_null()).to_pylist()]
            rows = pc.replace_with_mask(rows, rows.is_null(), pa.array(rest, pa.int64()))
        return None if rows.null_count else pc.sum(rows).as_py() or 0

    def _field(self, name: str) -> Any:
        """A field's values; None where the checkpoint does not have it. Nulls where the whole row is null."""
        import pyarrow.compute as pc

        return pc.struct_field(self.rows, name) if self.rows.type.get_field_index(name) >= 0 else None


def _all_true(length: int) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(True), length)

"""File actions many at a time: as they are in a Parquet checkpoint (Arrow), or as actions of JSON files.

A table may have a million files. As Python objects they take a kilobyte each, and half a minute; so what only counts
rows does not make them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.delta_log.actions import AddFile, rows_in

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[str, str | None]
"""A logical file: its path and the unique id of its deletion vector."""

_ROWS: Final = r'^\{"numRecords":(?P<rows>\d{1,18})[,}]'
"""How statistics begin with most writers; others are parsed."""


class FileBatch(ABC):
    """Some files."""

    @abstractmethod
    def __iter__(self) -> Iterator[AddFile]: ...

    @abstractmethod
    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        """Those whose keys are not among these. paths: of the keys."""

    @abstractmethod
    def rows(self) -> int | None:
        """Rows that a reader sees, which deletion vectors do not hide; None: a file's statistics lack them."""


@dataclass(frozen=True, slots=True)
class ActionBatch(FileBatch):
    """File actions of a JSON file."""

    actions: Sequence[AddFile]

    def __iter__(self) -> Iterator[AddFile]:
        return iter(self.actions)

    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        return ActionBatch([action for action in self.actions if action.key not in keys])

    def rows(self) -> int | None:
        rows = [action.rows for action in self.actions]
        return None if None in rows else sum(filter(None, rows))


@dataclass(frozen=True, slots=True)
class ArrowBatch(FileBatch):
    """Rows of a checkpoint's column. rows: an array of structs without nulls. action: makes one of a row's values.

    reading: within it what Arrow raises becomes an error of the checkpoint. Arrow looks at values (types, UTF-8) only
    when they are used.
    """

    structs: pa.StructArray
    action: Callable[[dict[str, Any]], AddFile]
    reading: Callable[[], AbstractContextManager[None]]

    def __iter__(self) -> Iterator[AddFile]:
        with self.reading():
            rows = self.structs.to_pylist()
        return map(self.action, rows)

    def without(self, keys: Collection[Key], paths: Collection[str]) -> FileBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        with self.reading():
            path = self._field("path")
            candidates = pc.is_in(path, pa.array(list(paths), path.type)) if paths else None
            if candidates is None or not candidates.true_count:
                return self
            rows = self.structs.filter(candidates).to_pylist()
        kept = [self.action(row).key not in keys for row in rows]
        with self.reading():
            everything = pa.repeat(pa.scalar(True), len(self.structs))
            rest = self.structs.filter(pc.replace_with_mask(everything, candidates, pa.array(kept)))
        return ArrowBatch(rest, self.action, self.reading)

    def rows(self) -> int | None:
        import pyarrow.compute as pc

        with self.reading():
            stored, vector = self._stored_rows(), self._field("deletionVector")
            hidden = 0 if vector is None else _sum(pc.struct_field(vector, "cardinality"))
            return None if stored is None else stored - hidden

    def _stored_rows(self) -> int | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        stats, parsed = self._field("stats"), self._field("stats_parsed")
        rows = pa.nulls(len(self.structs), pa.int64())
        if stats is not None:
            found = pc.extract_regex(stats, _ROWS)
            rows = pc.struct_field(found, "rows").cast(pa.int64())
        if parsed is not None:
            rows = pc.coalesce(rows, pc.struct_field(parsed, "numRecords").cast(pa.int64()))
        if stats is not None and rows.null_count:
            rest = [rows_in(text) for text in stats.filter(rows.is_null()).to_pylist()]
            rows = pc.replace_with_mask(rows, rows.is_null(), pa.array(rest, pa.int64()))
        return None if rows.null_count else _sum(rows)

    def _field(self, name: str) -> Any:
        """A field's values; None where the checkpoint does not have it. Nulls where the whole row is null."""
        import pyarrow.compute as pc

        return pc.struct_field(self.structs, name) if self.structs.type.get_field_index(name) >= 0 else None


def _sum(numbers: Any) -> int:
    """The sum of 64-bit integers, without overflow; nulls count as 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return int(pc.sum(numbers.cast(pa.int64()).cast(pa.decimal128(38))).as_py() or 0)

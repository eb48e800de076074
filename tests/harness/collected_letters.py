"""Dead letters that a task would write, kept in memory instead."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kseg.etl.decoding.bad_records import DEAD_LETTERS


class CollectedLetters:
    """A writer of dead letters that asks for reasons. rows: what it was given, by column."""

    wants_reasons = True

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, letters: pa.RecordBatch) -> None:
        assert letters.schema == DEAD_LETTERS
        self.rows += letters.to_pylist()

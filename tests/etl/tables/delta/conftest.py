"""Tables of small files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of six files of one row; the values of `x` are 0 to 5."""
    path = str(tmp_path / "table")
    for n in range(6):
        write_deltalake(path, pa.table({"x": [n]}), mode="append")
    return path

from __future__ import annotations

import json
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from kseg.etl.tables.delta.paths import can_name


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("p=a/part-0.parquet", True),
        ("p=a%20b/p~!$&'()+,:;=@_.-.parquet", True),
        ("p=%C3%A9/part-0.parquet", True),
        ("p=%c3%a9/part-0.parquet", False),
        ("p=é/part-0.parquet", False),
        ("p=a b/part-0.parquet", False),
        ("p=a%2Fb/part-0.parquet", False),
    ],
)
def test_paths_that_delta_rs_encodes_as_they_are(tmp_path, path, named):
    """By what it writes itself."""
    assert can_name(path) is named
    table = str(tmp_path / "t")
    DeltaTable.create(table, Schema.from_arrow(pa.schema({"x": pa.int64()})))
    add = AddAction(unquote(path), 1, {}, 0, True, "{}")
    DeltaTable(table).create_write_transaction([add], "append", DeltaTable(table).schema())
    text = (tmp_path / "t/_delta_log/00000000000000000001.json").read_text()
    (written,) = (action["add"]["path"] for line in text.splitlines() if "add" in (action := json.loads(line)))
    assert (written == path) is named

"""A new catalog is a module and an entry of the registry: nothing else has to know it.

Processes of their own use it (`tests/harness/extended_package.py`). No broker: records are in log files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from extended_package import extended, kseg
from kseg.segment_reader.encode.batches import Record, encode_batch

MODULE = '''
"""Tables of the catalog `lake`, whose locations are in a file."""

import json
from functools import cache
from pathlib import Path

from kseg.etl.catalogs.port import Catalog, Resolved


class Lake(Catalog):
    def holds(self, table):
        return table.startswith("lake.")

    @cache
    def resolve(self, table):
        return Resolved(json.loads(Path("catalog.json").read_text())[table], {"region": "here"})
'''

REGISTRY = [
    ("import Catalog, Committer, Resolved\n", "from kseg.etl.catalogs import lake\n"),
    ("] = (\n    Paths(),\n", "    lake.Lake(),\n"),
]


def test_its_tables_land_without_spark_where_it_says(log_files: Any, tmp_path: Path) -> None:
    package = extended(tmp_path / "package", {"etl/catalogs/lake.py": MODULE, "etl/catalogs/registry.py": REGISTRY})
    records = [Record(None, b"%d" % n) for n in range(3)]
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch(records)]])
    (tmp_path / "catalog.json").write_text(json.dumps({"lake.orders": str(tmp_path / "far" / "t1")}))
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "sink": {"table": "lake.orders"},
        "ledger": "./ledger",
        "run": {"engine": "local"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    ran = kseg(package, tmp_path, "ingest", "job.yaml")
    assert ran["engine"]["name"] == "local"
    [table] = ran["tables"]
    assert (table["path"], table["rows"]) == ("lake.orders", 3)
    assert DeltaTable(tmp_path / "far" / "t1").to_pyarrow_table().num_rows == 3
    assert kseg(package, tmp_path, "verify", "job.yaml")["ok"]
    [line] = kseg(package, tmp_path, "status", "job.yaml")["tables"]
    assert line["version"] == line["ledger_version"]
    assert not [path for path in tmp_path.iterdir() if path.name == "lake.orders"], "a name is no folder"

"""Delta tables of small files by their paths: their compaction, and what is there before and after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.compaction import Compaction
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.table import DeltaAccess

DETAILS = {"job": "orders", "ledger": "l"}


def compact(path: str, **how: Any) -> int:
    return Compaction(DeltaAccess(path, **how), DETAILS).run()


def maintenance(path: str) -> DeltaMaintenance:
    return DeltaMaintenance(DeltaTarget(path), StoreChecks())


def values(path: str, column: str = "x") -> list[Any]:
    return sorted(pa.table(DeltaTable(path).scan([column]))[column].to_pylist())


def rows_of(path: str) -> list[dict[str, Any]]:
    table = DeltaTable(path)
    names = [field.name for field in table.schema().fields]
    return sorted(pa.table(table.scan(names)).to_pylist(), key=lambda row: row["x"])


def files(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet") if "_delta_log" not in p.parts}


def live(path: str) -> set[str]:
    return {uri.removeprefix("file://").removeprefix(f"{path}/") for uri in DeltaTable(path).file_uris()}


def log_of(path: str, version: int) -> list[dict[str, Any]]:
    text = (Path(path) / f"_delta_log/{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]

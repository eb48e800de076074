"""Random tables by delta-rs, read by ours: version, schema, files, rows, transactions, each older version."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from kseg.etl.delta_log.actions import AppTransaction
from kseg.etl.delta_log.replay import LogSnapshot
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.ledger.log_files import log_folder
from kseg.etl.tables.delta.log import commits_back

APPS = ("kseg/l/a", "kseg/l/b", "später/ü")


def step(path: Path, choice: random.Random, number: int) -> None:
    """One random commit, or a checkpoint."""
    table = DeltaTable(path) if number else None
    transactions = [Transaction(app, choice.randrange(9)) for app in APPS if choice.random() < 0.4]
    properties = CommitProperties(app_transactions=transactions or None, custom_metadata={"number": str(number)})
    kind = choice.choice(["append"] * 4 + ["delete", "column", "property", "overwrite", "optimize", "checkpoint"])
    rows = pa.table({"n": [number, choice.randrange(50)], "p": [choice.choice(["a b", "ü/%20", None]), "c"]})
    if table is None or kind == "append":
        write_deltalake(
            path, rows, mode="append", partition_by=["p"], schema_mode="merge", commit_properties=properties
        )
    elif kind == "delete":
        table.delete(f"n % 7 = {choice.randrange(7)}", commit_properties=properties)
    elif kind == "column":
        table.alter.add_columns([Field(f"c{number}", PrimitiveType("string"))], commit_properties=properties)
    elif kind == "property":
        table.alter.set_table_properties({"delta.logRetentionDuration": f"interval {number + 1} days"})
    elif kind == "overwrite":
        write_deltalake(
            path, rows, mode="overwrite", predicate="n < 1000", schema_mode="merge", commit_properties=properties
        )
    elif kind == "optimize":
        table.optimize.compact(commit_properties=properties)
    else:
        table.create_checkpoint()


def facts_of(table: DeltaTable) -> dict[str, Any]:
    """What delta-rs says of a version."""
    files = pa.table(table.get_add_actions()).to_pylist()
    return {
        "version": table.version(),
        "id": str(table.metadata().id),
        "schema": json.loads(table.schema().to_json()),
        "protocol": (table.protocol().min_reader_version, table.protocol().min_writer_version),
        "files": sorted((unquote(file["path"]), file["num_records"]) for file in files),
        "transactions": {app: table.transaction_version(app) for app in APPS},
    }


def facts(snapshot: LogSnapshot) -> dict[str, Any]:
    """The same by ours."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "version": snapshot.version,
        "id": metadata.id,
        "schema": metadata.schema,
        "protocol": (protocol.min_reader_version, protocol.min_writer_version),
        "files": sorted((unquote(file.path), file.rows) for batch in snapshot.files.batches() for file in batch),
        "transactions": {app: one.version if (one := snapshot.transactions.get(app)) else None for app in APPS},
    }


def opened(path: Path) -> DeltaLog:
    folder = log_folder(str(path))
    assert folder is not None
    return DeltaLog(folder)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_delta_rs_is_read_as_delta_rs_reads_it(
    seed: int, tmp_path: Path, scale: Callable[[int, int], int]
) -> None:
    choice = random.Random(f"delta-rs {seed}")
    path, steps = tmp_path / "t", scale(14, 120)
    log = opened(path)
    for number in range(steps):
        step(path, choice, number)
        if number % 3 == 0 or number == steps - 1:
            expected = facts_of(DeltaTable(path))
            found = log.newest()
            assert found is not None
            assert facts(found) == expected
            assert found.files.rows() == sum(rows for _, rows in expected["files"])
    newest = DeltaTable(path).version()
    for version in choice.sample(range(newest), 3):
        older = log.at(version)
        assert older is not None
        assert facts(older) == facts_of(DeltaTable(path, version=version))
    history = [(one["version"], one["operation"]) for one in DeltaTable(path).history()]
    assert [(commit.version, commit.info["operation"]) for commit in commits_back(log, newest)] == history
    commits = log.commits(0, newest) or []
    last = {one.app_id: one.version for commit in commits for one in commit.actions if isinstance(one, AppTransaction)}
    assert {app: last.get(app) for app in APPS} == facts_of(DeltaTable(path))["transactions"]

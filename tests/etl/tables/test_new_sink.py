"""A new sink is a module and an entry of the registry; it takes side tables as it takes those of rows.

A process of its own lands with it (`tests/harness/extended_package.py`). No broker: records are in log files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from extended_package import extended, kseg
from kseg.segment_reader.encode.batches import Record, encode_batch

MODULE = '''
"""Delta tables below a folder `noted`, whose commits are noted in a file."""

from pathlib import Path

from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.sink import DeltaFileSink


class Noted(DeltaTarget):
    def commit(self, files, run, **how):
        with Path("commits").open("a") as file:
            print(Path(self.name).name, sum(one.rows for one in files), file=file)
        return super().commit(files, run, **how)


class NotedSink(DeltaFileSink):
    def reasons_against(self, table, needs):
        return super().reasons_against(table, needs) if "/noted/" in table else ("it is elsewhere",)

    def target(self, table):
        return Noted(table, snapshots=self._snapshots, stores=self._stores)
'''

REGISTRY = [
    ("import DeltaFileSink\n", "from kseg.etl.tables.delta import noted\n"),
    ("self._sinks: tuple[Sink, ...] = (", "noted.NotedSink(job, self._stores, Snapshots()), "),
]


def test_it_commits_rows_and_dead_letters(log_files: Any, tmp_path: Path) -> None:
    package = extended(tmp_path / "package", {"etl/tables/delta/noted.py": MODULE, "etl/tables/targets.py": REGISTRY})
    records = [Record(None, value) for value in (b'{"n": 1}', b"oops", b'{"n": 2}')]
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch(records)]])
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "decode": {"value": {"format": "json", "schema": {"columns": {"n": "bigint"}}}, "on_error": "dead_letter"},
        "sink": {"path": "./noted/orders", "dead_letters": {"path": "./noted/letters", "max": "50%"}},
        "ledger": "./ledger",
        "run": {"engine": "local"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    kseg(package, tmp_path, "ingest", "job.yaml")
    assert (tmp_path / "commits").read_text().splitlines() == ["letters 1", "orders 2"]
    assert DeltaTable(tmp_path / "noted" / "orders").to_pyarrow_table().num_rows == 2

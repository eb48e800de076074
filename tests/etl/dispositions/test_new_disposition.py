"""A new disposition is a module and an entry of the modes: nothing else has to know it.

A process of its own lands with it (`tests/harness/extended_package.py`). No broker: records are in log files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from extended_package import environment, extended, kseg
from kseg.segment_reader.encode.batches import Record, encode_batch

ENTRY = """
    RunMode(
        "backfill-mirror",
        "mirror:Mirror",
        replaces=True,
        letters="replaced",
        by="mirror",
        words="replace, and remove the rows of records that the log has no longer",
        taken_up=True,
    ),
"""

MODES = {
    "etl/ledger/modes.py": [
        ("_ALL: Final = (", ENTRY),
        ("\nMode = Literal[", '"backfill-mirror", '),
        ("\nBackfillMode = Literal[", '"mirror", '),
    ]
}

MODULE = '''
"""Removes all rows of the job's source at the run's offsets: the table then has what the log has."""

from kseg.etl.dispositions.replace import Replace, Replacement


class Mirror(Replace):
    def decide(self, plan, unread, records):
        return Replacement(records, plan, {})
'''


def test_its_runs_land_and_are_verified(log_files: Any, tmp_path: Path) -> None:
    package = extended(tmp_path / "package", {"etl/dispositions/mirror.py": MODULE, **MODES})
    log, bounds = tmp_path / "log" / "orders-0", ("--from", "orders:0:1", "--to", "orders:0:4")

    def write(*offsets: int) -> None:
        log_files.write_partition(log, [[encode_batch([Record(None, b"%d" % n)], base_offset=n) for n in offsets]])

    def rows() -> dict[int, str]:
        found = DeltaTable(tmp_path / "lake" / "orders").to_pyarrow_table().to_pylist()
        assert len({row["offset"] for row in found}) == len(found)
        return {row["offset"]: row["_kseg_run"] for row in found}

    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log", "on_gap": "record"},
        "sink": {"path": "./lake/orders"},
        "ledger": "./ledger",
        "run": {"engine": "local"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    write(*range(5))
    kseg(package, tmp_path, "ingest", "job.yaml")
    first = rows()
    write(0, 1, 3, 4)
    mirrored = kseg(package, tmp_path, "backfill", "job.yaml", "--mode", "mirror", *bounds)
    of_run = mirrored["run"]
    assert mirrored["mode"] == "backfill-mirror"
    assert rows() == {0: first[0], 1: of_run, 3: of_run, 4: first[4]}
    assert kseg(package, tmp_path, "verify", "job.yaml")["ok"]


def test_the_command_offers_it(tmp_path: Path) -> None:
    package = extended(tmp_path / "package", MODES)
    done = subprocess.run(
        [sys.executable, "-m", "kseg.jobs.cli", "backfill", "--help"],
        env=environment(package),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "mirror: replace, and remove the rows" in " ".join(done.stdout.split())

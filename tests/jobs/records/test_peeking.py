"""Records of any time are shown, from files without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kseg.jobs.cli import cli
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.storage import LocalStorage

YEAR_10000 = 253402300800000


def test_a_record_after_the_year_9999_is_shown_in_its_place(tmp_path: Path, log_files: Any) -> None:
    """It ended the command with an OverflowError, and hid the records after it."""
    times = {0: [1767225600000, YEAR_10000, -1], 1: [YEAR_10000 - 1, YEAR_10000 + 1]}
    for partition, stamps in times.items():
        batch = encode_batch([Record(b"k", b"v", (), stamp) for stamp in stamps])
        log_files.write_partition(tmp_path / f"t-{partition}", [[batch]])
    arguments = ["peek", "t", "--log-dir", str(tmp_path), "--offset", "earliest"]
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    shown = [json.loads(line)["timestamp"] for line in result.stdout.splitlines()]
    assert shown == [
        "2026-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z",
        YEAR_10000,
        None,
        YEAR_10000 + 1,
    ]
    assert f"{YEAR_10000} ms" in CliRunner().invoke(cli, arguments).stdout


def test_folders_are_listed_once_for_all_partitions(tmp_path: Path, log_files: Any, monkeypatch: Any) -> None:
    """It listed all of them for each partition, and again for each look further back."""
    for partition in range(8):
        log_files.write_partition(tmp_path / f"t-{partition}", [[encode_batch([Record(b"k", b"v")] * 20)]])
    listed: list[str] = []
    original = LocalStorage.list
    monkeypatch.setattr(LocalStorage, "list", lambda self, folder: listed.append(folder) or original(self, folder))
    result = CliRunner().invoke(cli, ["peek", "t", "--log-dir", str(tmp_path), "--offset", "-5", "--count", "40"])
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 40)
    assert listed.count(str(tmp_path)) == 1

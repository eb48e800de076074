"""Records of any time are shown, from files without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kseg.etl.source.files.logs import FileLogs
from kseg.etl.source.origin import LogFiles
from kseg.jobs.cli import cli
from kseg.jobs.records.peeking import Wanted, peek
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.storage import LocalFile, LocalStorage

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


def test_many_partitions_are_not_all_open_at_the_same_time(tmp_path: Path, log_files: Any, monkeypatch: Any) -> None:
    """Each has connections, or files, of its own: a thousand partitions ended with "Too many open files"."""
    partitions, each = 100, 1001  # one row more than a batch of rows has
    for number in range(partitions):
        times = range(number, partitions * each, partitions)
        log_files.write_partition(
            tmp_path / f"t-{number}", [[encode_batch([Record(None, b"%d" % time, (), time) for time in times])]]
        )
    opened, most = 0, 0
    close, init = LocalFile.close, LocalFile.__init__

    def opening(file: LocalFile, path: str) -> None:
        nonlocal opened, most
        init(file, path)
        opened += 1
        most = max(most, opened)

    def closing(file: LocalFile) -> None:
        nonlocal opened
        opened -= file._descriptor >= 0
        close(file)

    monkeypatch.setattr(LocalFile, "__init__", opening)
    monkeypatch.setattr(LocalFile, "close", closing)
    logs = FileLogs(LogFiles((str(tmp_path),)))
    shown = [row["timestamp"] for row in peek(logs, ["t"], Wanted("earliest", 15_000))]
    assert shown == [*range(15_000)]
    assert most < 20

"""A whole log is told whole, and each kind of damage is told with its place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.segment_reader.log.damage.check import PartitionCheck, check_partition
from kseg.segment_reader.log.files.storage import LocalStorage


@pytest.fixture(scope="module")
def written(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A copy of a partition's folder, and how many records librdkafka wrote to it."""
    with HardTopic(kafka.bootstrap_servers, "hard-check", 1, scale=0.05) as hard:
        hard.create()
        hard.write_round()
        told = hard.write_round()
        copy = tmp_path_factory.mktemp("check") / "hard-check-0"
        shutil.copytree(kafka.log_dirs[0] / "hard-check-0", copy)
        yield copy, told.records


@pytest.fixture
def folder(written: tuple[Path, int], tmp_path: Path) -> Path:
    """A copy of one's own to damage."""
    shutil.copytree(written[0], tmp_path / "hard-check-0")
    return tmp_path / "hard-check-0"


def check(folder: Path, *, deep: bool = False) -> PartitionCheck:
    return check_partition(LocalStorage(), str(folder), "hard-check", 0, deep=deep)


@pytest.mark.parametrize("deep", [False, True])
def test_what_a_broker_wrote_is_whole(written: tuple[Path, int], deep: bool) -> None:
    told = check(written[0], deep=deep)
    assert (told.faults, told.notes) == ([], [])
    assert told.segments > 1
    assert told.log_start_offset == 0
    markers = told.log_end_offset - written[1]
    assert told.records == written[1] + markers
    assert markers > 10
    assert len(told.open_transactions) == 1


def first(folder: Path, pattern: str, least: int = 1) -> Path:
    return next(path for path in sorted(folder.glob(pattern)) if path.stat().st_size >= least)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut_first_segment(folder: Path) -> None:
    path = first(folder, "*.log")
    path.write_bytes(path.read_bytes()[:-10])


def drop_aborted_entry(folder: Path) -> None:
    path = first(folder, "*.txnindex")
    path.write_bytes(path.read_bytes()[34:])


def later_epoch(folder: Path) -> None:
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 500\n")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: flip(first(folder, "*.log"), 300), "checksum does not match"),
        (cut_first_segment, "the last batch is cut off"),
        (lambda folder: flip(first(folder, "*.index", 24), 8 * 2 + 7), "names no batch"),
        (lambda folder: flip(first(folder, "*.timeindex", 36), 12 + 7), "the largest timestamp up to offset"),
        (lambda folder: flip(first(folder, "*.txnindex"), 25), "it has no ABORT marker"),
        (drop_aborted_entry, "is not in its .txnindex"),
        (lambda folder: flip(sorted(folder.glob("*.snapshot"))[0], 12), "checksum does not match"),
        (later_epoch, "; epoch 1 begins at 500"),
    ],
)
def test_each_kind_of_damage_is_told(folder: Path, damage: Callable[[Path], None], reason: str) -> None:
    damage(folder)
    faults = check(folder).faults
    assert faults
    assert any(reason in str(fault) for fault in faults), [str(fault) for fault in faults]
    assert all(str(folder) in fault.file for fault in faults)


def test_records_that_cannot_be_read_are_found_by_a_deep_check(tmp_path: Path) -> None:
    from kseg.segment_reader.encode.batches import Record, encode_batch, seal

    batches = []
    for offset in (0, 2, 4):
        batch = bytearray(encode_batch([Record(value=b"one"), Record(value=b"two")], base_offset=offset))
        if offset == 2:
            batch[61] = 0x7E  # the first record's length
        batches.append(seal(batch))
    folder = tmp_path / "odd-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    assert check(folder).faults == []
    (fault,) = check(folder, deep=True).faults
    assert (fault.position, "record" in fault.reason) == (len(batches[0]), True)


def test_the_command_tells_whole_and_damaged_by_its_exit_code(folder: Path, tmp_path: Path) -> None:
    whole = CliRunner().invoke(cli, ["fsck", str(tmp_path), "--json"])
    assert whole.exit_code == 0
    assert json.loads(whole.stdout)["faults"] == []
    flip(first(folder, "*.log"), 300)
    damaged = CliRunner().invoke(cli, ["fsck", str(folder)])
    assert damaged.exit_code == 1
    assert "1 errors in 1 partitions" in damaged.stdout
    nothing = CliRunner().invoke(cli, ["fsck", str(tmp_path), "--topic", "other"])
    assert nothing.exit_code == 2

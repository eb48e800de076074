"""Names of files and folders in a log directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.log.files.names import PartitionFolder, SegmentFile, partition_folder, segment_file

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "snapshot"])
@pytest.mark.parametrize("condition", ["current", "deleted", "cleaned", "swap"])
@pytest.mark.parametrize("offset", [0, 170, (1 << 63) - 1])
def test_a_file_is_known_by_its_name(offset: int, kind: str, condition: str) -> None:
    name = f"{offset:020d}.{kind}" + ("" if condition == "current" else f".{condition}")
    file = SegmentFile(offset, kind, condition)  # type: ignore[arg-type]
    assert (segment_file(name), str(file)) == (file, name)


@pytest.mark.parametrize(
    "name",
    [
        "170.log",
        "00000000000000000170.logs",
        "00000000000000000170.log.old",
        "x00000000000000000170.log",
        "99999999999999999999.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "",
    ],
)
def test_other_files_belong_to_no_segment(name: str) -> None:
    assert segment_file(name) is None


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("orders-3", PartitionFolder("orders", 3)),
        ("eu.orders-v2-10", PartitionFolder("eu.orders-v2", 10)),
        ("__consumer_offsets-49", PartitionFolder("__consumer_offsets", 49)),
        (f"orders-3.{UNIQUE}-delete", PartitionFolder("orders", 3, "delete")),
        (f"orders-3.{UNIQUE}-future", PartitionFolder("orders", 3, "future")),
        (f"orders-3.{UNIQUE}-stray", PartitionFolder("orders", 3, "stray")),
        # A topic may be called like that: what follows the last dash is then its partition.
        (f"orders-3.{UNIQUE}-delete-0", PartitionFolder(f"orders-3.{UNIQUE}-delete", 0)),
    ],
)
def test_a_folder_is_known_by_its_name(name: str, folder: PartitionFolder) -> None:
    assert partition_folder(name) == folder


@pytest.mark.parametrize(
    "name", ["orders", "orders-", "-3", "or ders-3", "orders-99999999999", f"orders-3.{UNIQUE}-gone"]
)
def test_other_folders_hold_no_partition(name: str) -> None:
    assert partition_folder(name) is None


@given(st.from_regex(r"[A-Za-z0-9_]{1,30}([.-][A-Za-z0-9_]{1,30}){0,3}", fullmatch=True), st.integers(0, (1 << 31) - 1))
def test_every_topic_name_survives(topic: str, partition: int) -> None:
    assert partition_folder(f"{topic}-{partition}") == PartitionFolder(topic, partition)

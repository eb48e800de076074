"""What tiered storage wrote in a real broker: read with no broker, it has the rows that a consumer got."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.errors import CorruptIndex, LayoutError, SegmentGone
from kseg.segment_reader.log.files.locations import open_file, open_storage
from kseg.segment_reader.log.files.segments import PartitionLog, open_log, partition_folders
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset

STORES = ["aiven-plain", "aiven-compressed", "aiven-encrypted", "local-tiered-storage"]
ISOLATION = ["read_committed", "read_uncommitted"]
#: The first offset that was not uploaded, and the last stable offset below it.
REMOTE_END, REMOTE_STABLE = 911, 882


def opened(written: Path, store: str, *, local: Path | None = None, at: str | None = None) -> tuple[Storage, str]:
    options = {"layout.key.key1": str(written / "private.pem")} if store == "aiven-encrypted" else {}
    if local is not None:
        options["layout.local"] = str(local)
    if store == "local-tiered-storage":
        return open_storage(at or str(written / store / "remote"), "copies", options)
    return open_storage(at or str(written / store / "remote" / "tiered"), "aiven", options)


def log_of(place: tuple[Storage, str]) -> PartitionLog:
    storage, root = place
    (folder,) = partition_folders(storage, root)
    return open_log(storage, folder, "orders", 0)


def consumed(written: Path, store: str, isolation: str, end: int = 1 << 62) -> list[tuple[int, bytes, bytes]]:
    rows = json.loads((written / store / "rows.json").read_text())[isolation]
    return [(offset, key.encode(), value.encode()) for offset, key, value in rows if offset < end]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("isolation", ISOLATION)
def test_uploaded_segments_have_the_rows_that_a_consumer_got(
    written: Path, read: Callable[..., Any], store: str, isolation: str
) -> None:
    place = opened(written, store)
    log = log_of(place)
    assert (log_end_offset(place[0], log), last_stable_offset(place[0], log)) == (REMOTE_END, REMOTE_STABLE)
    end = REMOTE_STABLE if isolation == "read_committed" else REMOTE_END
    assert read(*place, isolation) == consumed(written, store, isolation, end)


@pytest.mark.parametrize("store", STORES)
def test_any_range_of_them_is_that_part(written: Path, read: Callable[..., Any], store: str) -> None:
    place = opened(written, store)
    rows = consumed(written, store, "read_committed")
    for start, end in ((0, 1), (25, 27), (100, 300), (441, 443), (700, 882)):
        expected = [row for row in rows if start <= row[0] < end]
        assert read(*place, "read_committed", start, end) == expected


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("isolation", ISOLATION)
def test_the_broker_s_own_segments_go_on_where_the_remote_ones_end(
    written: Path, read: Callable[..., Any], store: str, isolation: str
) -> None:
    place = opened(written, store, local=written / store / "local")
    log = log_of(place)
    assert log.segments[0].base_offset == 0
    assert log.segments[-1].base_offset == 911
    assert len({segment.base_offset for segment in log.segments}) == len(log.segments) == 10
    assert read(*place, isolation) == consumed(written, store, isolation)
    assert place[0].read_all(f"{place[1]}/meta.properties")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("tiers", [1, 2])
def test_nothing_is_wrong_with_them(written: Path, store: str, tiers: int) -> None:
    storage, root = opened(written, store, local=written / store / "local" if tiers == 2 else None)
    told = check_partition(storage, f"{root}/orders-0", "orders", 0, deep=True)
    assert (told.faults, told.notes) == ([], [])
    assert told.segments == 8 + tiers
    assert log_of((storage, root)).topic_id is not None
    assert [epoch.epoch for epoch in log_of((storage, root)).leader_epochs] == [0]


@pytest.mark.parametrize("store", STORES)
def test_each_file_is_byte_for_byte_the_broker_s(
    written: Path, store: str, contents: Callable[[Storage, str], bytes]
) -> None:
    storage, root = opened(written, store)
    compared = set()
    for file in (written / store / "local" / "orders-0").iterdir():
        there = {entry.name: entry.size for entry in storage.list(f"{root}/orders-0")}
        if file.name not in there or file.name == "partition.metadata":
            continue
        data = contents(storage, f"{root}/orders-0/{file.name}")
        assert (len(data), data) == (there[file.name], file.read_bytes())
        compared.add(file.suffix)
    whole = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ""}
    assert compared == (whole if store != "local-tiered-storage" else {".snapshot", ""})


def test_encrypted_ones_need_their_key_and_say_which(written: Path, tmp_path: Path, read: Callable[..., Any]) -> None:
    where = str(written / "aiven-encrypted" / "remote" / "tiered")
    with pytest.raises(LayoutError, match=r"encrypted under key 'key1'.*layout\.key\.key1"):
        read(*open_storage(where, "aiven"))
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = other.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with pytest.raises(LayoutError, match="encrypted with another key than 'key1'"):
        read(*open_storage(where, "aiven", {"layout.key.key1": pem}))
    right = (written / "private.pem").read_text()
    assert len(read(*open_storage(where, "aiven", {"layout.key.KEY1": right}), "read_uncommitted", 0, 26)) == 26
    with pytest.raises(ValueError, match="cannot read"):
        open_storage(where, "aiven", {"layout.key.key1": str(tmp_path / "nowhere.pem")})


def flipped(written: Path, folder: Path, ending: str) -> Path:
    """Copies the encrypted store and flips a byte in an object of the segment at offset 690."""
    shutil.copytree(written / "aiven-encrypted", folder / "aiven-encrypted")
    shutil.copy(written / "private.pem", folder)
    (object_,) = (folder / "aiven-encrypted").rglob(f"*00690-*.{ending}")
    data = bytearray(object_.read_bytes())
    data[20] ^= 1
    object_.write_bytes(data)
    return object_


def test_a_flipped_byte_in_an_encrypted_log_is_told_with_its_place(
    written: Path, tmp_path: Path, read: Callable[..., Any]
) -> None:
    object_ = flipped(written, tmp_path, "log")
    with pytest.raises(LayoutError, match="changed after it was encrypted") as told:
        read(*opened(tmp_path, "aiven-encrypted"), "read_uncommitted", 690, 882)
    assert (told.value.file, told.value.position) == (str(object_), 0)


def test_an_encrypted_index_with_a_flipped_byte_is_done_without_and_found_by_a_check(
    written: Path, tmp_path: Path, read: Callable[..., Any]
) -> None:
    object_ = flipped(written, tmp_path, "indexes")
    storage, root = opened(tmp_path, "aiven-encrypted")
    expected = [row for row in consumed(written, "aiven-encrypted", "read_uncommitted") if 800 <= row[0] < 882]
    assert read(storage, root, "read_uncommitted", 800, 882) == expected
    (fault,) = check_partition(storage, f"{root}/orders-0", "orders", 0).faults
    assert (fault.file, type(fault)) == (str(object_), CorruptIndex)


@pytest.mark.parametrize("store", STORES[:3])
def test_a_segment_whose_log_is_gone_is_told(
    written: Path, tmp_path: Path, read: Callable[..., Any], store: str
) -> None:
    shutil.copytree(written / store, tmp_path / store)
    shutil.copy(written / "private.pem", tmp_path)
    place = opened(tmp_path, store)
    (object_,) = (tmp_path / store / "remote").rglob("*00690-*.log")
    object_.unlink()
    with pytest.raises(SegmentGone):
        read(*place, "read_uncommitted", 690, 882)


@pytest.mark.parametrize("store", STORES)
def test_they_are_read_from_a_bucket_by_ranges(s3: Any, written: Path, read: Callable[..., Any], store: str) -> None:
    shutil.copytree(written / store / "remote", s3.folder / store)
    below = "" if store == "local-tiered-storage" else "/tiered"
    place = opened(written, store, at=f"s3://logs/{store}{below}")
    assert read(*place, "read_committed") == consumed(written, store, "read_committed", REMOTE_STABLE)
    assert s3.gets()
    assert all(one.count > 0 for one in s3.gets())
    shutil.rmtree(s3.folder / store)


def test_a_file_is_named_as_if_a_broker_had_it(written: Path, contents: Callable[[Storage, str], bytes]) -> None:
    where = str(written / "aiven-compressed" / "remote" / "tiered")
    storage, path = open_file(f"{where}/orders-0/{690:020d}.log", "aiven")
    local = written / "aiven-compressed" / "local" / "orders-0" / f"{690:020d}.log"
    assert contents(storage, path) == local.read_bytes()
    with pytest.raises(SegmentGone):
        storage.open(path.replace("690", "691"))
    with pytest.raises(SegmentGone):
        storage.list(f"{where}/orders-7")

"""Logs in an object store, read from a real S3 server: the same rows, range reads only, refusals as our errors."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import SegmentGone, StoreRefused, StoreUnavailable
from kseg.segment_reader.log.files import object_stores
from kseg.segment_reader.log.files.locations import child, open_storage, parent
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.record_sets import record_sets

BATCHES, RECORDS, VALUE = 1500, 4, 1000
SEGMENT = f"{0:020d}.log"


@pytest.fixture(scope="module")
def log_dir(s3_process: Any) -> Iterator[Path]:
    """One partition of some 6 MB in the bucket, with the .index that a broker would have made."""
    folder = s3_process.folder / "copy" / "orders-0"
    folder.mkdir(parents=True)
    rng, data, index, since = random.Random(3), bytearray(), bytearray(), 0
    for number in range(BATCHES):
        batch = encode_batch([Record(value=rng.randbytes(VALUE)) for _ in range(RECORDS)], base_offset=number * RECORDS)
        if since >= 4096:
            index += pack(">ii", number * RECORDS + RECORDS - 1, len(data))
            since = 0
        data += batch
        since += len(batch)
    (folder / SEGMENT).write_bytes(data)
    (folder / SEGMENT).with_suffix(".index").write_bytes(index)
    yield folder.parent
    shutil.rmtree(folder.parent)


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "_PAUSES", (0.0, 0.0, 0.0))


def rows(storage: Storage, root: str, start: int = 0, end: int = BATCHES * RECORDS) -> list[tuple[int, bytes]]:
    log = open_log(storage, f"{root}/orders-0", "orders", 0)
    decoder = RangeDecoder("orders", 0, start, end, isolation_level="read_uncommitted")
    found = []
    for records in record_sets(storage, log, start, end, read_committed=False):
        for batch in decoder.feed(records.records, records.aborted):
            found += list(zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True))
    for batch in decoder.finish():
        found += list(zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True))
    return found


def test_a_log_in_a_bucket_has_the_rows_of_its_files_and_is_read_by_ranges_alone(s3: Any, log_dir: Path) -> None:
    assert rows(*open_storage("s3://logs/copy")) == rows(*open_storage(str(log_dir)))
    size = (log_dir / "orders-0" / SEGMENT).stat().st_size
    gets = s3.gets(".log")
    assert gets
    assert all(one.count > 0 and one.status == 206 for one in gets)
    assert sum(one.count for one in gets) < 1.1 * size
    assert len(gets) < 12  # not a request a batch


@pytest.mark.parametrize(("first", "batches"), [(700, 400), (0, 300), (1100, 400)])
def test_of_a_range_little_more_than_its_bytes_is_asked_for(s3: Any, log_dir: Path, first: int, batches: int) -> None:
    start, end = first * RECORDS + 1, (first + batches) * RECORDS
    assert rows(*open_storage("s3://logs/copy"), start, end) == rows(*open_storage(str(log_dir)), start, end)
    size = (log_dir / "orders-0" / SEGMENT).stat().st_size
    asked = s3.gets(".log")
    assert all(one.count > 0 for one in asked)
    assert sum(one.count for one in asked) < 2 * size * batches / BATCHES


def test_one_who_reads_on_gets_more_each_time_and_one_who_jumps_little(s3: Any, log_dir: Path) -> None:
    storage, root = open_storage("s3://logs/copy")
    local = (log_dir / "orders-0" / SEGMENT).read_bytes()
    with closing(storage.open(f"{root}/orders-0/{SEGMENT}")) as file:
        assert file.size == len(local)
        for position in range(0, len(local), 16 * 1024):
            assert file.read(position, 16 * 1024) == local[position : position + 16 * 1024]
        on = len(s3.gets(".log"))
        assert on < 12
        s3.forget()
        for position in (1_000_000, 100_000, 500_000):
            assert bytes(file.read(position, 100)) == local[position : position + 100]
        assert [one.count for one in s3.gets(".log")] == [object_stores.LEAST_BYTES] * 3
        assert bytes(file.read(len(local) - 10, 100)) == local[-10:]
        assert bytes(file.read(len(local), 100)) == b""


def test_any_sequence_of_reads_gives_the_file_s_bytes(s3: Any, log_dir: Path) -> None:
    storage, root = open_storage("s3://logs/copy")
    local = (log_dir / "orders-0" / SEGMENT).read_bytes()
    rng, position = random.Random(5), 0
    with closing(storage.open(f"{root}/orders-0/{SEGMENT}")) as file:
        for _ in range(60):
            length = rng.choice([1, 61, 5000, 70_000, 1 << 20])
            position = rng.choice([position, position + length, max(0, position - 300), rng.randrange(len(local))])
            assert file.read(position, length) == local[position : position + length]


@pytest.mark.parametrize("status", [503, 500, 0])
def test_trouble_that_passes_is_waited_out(s3: Any, log_dir: Path, without_pauses: None, status: int) -> None:
    s3.trouble += [(".log", status)] * 3
    assert rows(*open_storage("s3://logs/copy")) == rows(*open_storage(str(log_dir)))
    assert not s3.trouble


def test_trouble_that_stays_is_told_and_may_be_tried_again(
    s3: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_stores, "_PAUSES", (0.0,))
    storage, root = open_storage("s3://logs/copy")
    with closing(storage.open(f"{root}/orders-0/{SEGMENT}")) as file:
        s3.trouble += [(".log", 503)] * 50
        with pytest.raises(StoreUnavailable) as told:
            file.read(1000, 10)
    assert told.value.retriable
    assert (told.value.file, told.value.position) == (f"logs/copy/orders-0/{SEGMENT}", 1000)
    again = pickle.loads(pickle.dumps(told.value))
    assert (type(again), str(again)) == (StoreUnavailable, str(told.value))


@pytest.mark.parametrize(
    "question",
    [
        lambda storage, root: storage.list(f"{root}/nobody-0"),
        lambda storage, root: storage.open(f"{root}/nobody-0/{SEGMENT}"),
        lambda storage, root: storage.read_all(f"{root}/partition.metadata"),
        lambda storage, root: storage.list("no-such-bucket/copy"),
    ],
)
def test_what_is_not_there_is_gone(s3: Any, log_dir: Path, question: Callable[[Storage, str], Any]) -> None:
    with pytest.raises(SegmentGone, match="no such"):
        question(*open_storage("s3://logs/copy"))


def test_an_object_that_goes_while_it_is_read_is_gone(s3: Any, log_dir: Path) -> None:
    (s3.folder / "copy" / "passing.log").write_bytes(bytes(1 << 20))
    storage, root = open_storage("s3://logs/copy")
    with closing(storage.open(f"{root}/passing.log")) as file:
        assert len(file.read(0, 10)) == 10
        (s3.folder / "copy" / "passing.log").unlink()
        with pytest.raises(SegmentGone):
            file.read(1 << 19, 10)


@pytest.mark.parametrize("wrong", [{"aws_secret_access_key": "guessed wrong"}, {"access_key": "nobody"}])
def test_credentials_that_do_not_fit_are_told_with_a_remedy(s3: Any, log_dir: Path, wrong: dict[str, str]) -> None:
    options = {name: value for name, value in s3.options.items() if name.removeprefix("aws_") != next(iter(wrong))}
    if "access_key" in wrong:
        del options["aws_access_key_id"]
    storage, root = open_storage("s3://logs/copy", options=options | wrong)
    for question in (lambda: storage.list(root), lambda: storage.open(f"{root}/orders-0/{SEGMENT}")):
        with pytest.raises(StoreRefused) as told:
            question()
        assert not told.value.retriable
        assert "credentials" in told.value.remedy
        assert "guessed wrong" not in str(told.value)
        assert pickle.loads(pickle.dumps(told.value)).remedy == told.value.remedy


def test_options_say_what_the_environment_does_not(s3: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in s3.environment:
        if name != "AWS_EC2_METADATA_DISABLED":
            monkeypatch.delenv(name)
    where = s3.endpoint.removeprefix("http://")
    keys = {name: value for name, value in s3.options.items() if "access" in name}
    by_uri = f"s3://logs/copy?endpoint_override={where}&scheme=http&region=us-east-1"
    assert len(rows(*open_storage(by_uri, options=keys), 0, 40)) == 40
    assert len(rows(*open_storage("s3a://logs/copy", options=s3.options), 0, 40)) == 40


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA:hunter2@logs/copy",
        "s3://logs/copy?secret_key=hunter2",
        "abfss://container@account.dfs.core.windows.net/copy?account_key=hunter2",
        "gs://logs/copy?access_token=hunter2",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(ValueError, match="must not have credentials") as told:
        open_storage(location)
    assert "hunter2" not in str(told.value)
    assert "AKIA" not in str(told.value)


def test_an_option_that_a_store_does_not_take_is_told() -> None:
    with pytest.raises(ValueError, match=r"s3://logs/copy: .*colour"):
        open_storage("s3://logs/copy", options={"region": "us-east-1", "colour": "blue"})
    with pytest.raises(ValueError, match="nobody-knows://x"):
        open_storage("nobody-knows://x")


def test_what_pyarrow_does_not_know_is_read_through_fsspec(log_dir: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(log_dir), "/copied", recursive=True)
    assert rows(*open_storage("memory://copied"), 10, 50) == rows(*open_storage(str(log_dir)), 10, 50)
    with pytest.raises(SegmentGone):
        open_storage("memory://copied")[0].list("/copied/nobody-0")


def test_a_location_s_child_keeps_its_query_and_leads_back() -> None:
    for location in ("/data", "s3://logs/copy", "s3://logs/copy?region=x&endpoint_override=h:1"):
        assert parent(child(location, "orders-0")) == (location, "orders-0")
    assert child("s3://logs/copy/?region=x", "orders-0") == "s3://logs/copy/orders-0?region=x"
    assert parent("/orders-0") == ("/", "orders-0")

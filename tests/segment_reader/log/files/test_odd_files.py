"""Files that are no files, disks that fail, links in a circle, holes: typed errors at once, and nothing hangs."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.errors import StoreRefused
from kseg.segment_reader.log.files.segments import open_logs
from kseg.segment_reader.log.files.storage import LocalFile, LocalStorage
from kseg.segment_reader.log.scan.headers import only_zeros, pieces

NAME = "00000000000000000000.log"
NOBODY = 65534


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket may have 108 bytes
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def folder(path: Path) -> None:
    path.mkdir()


def read_all(log_dir: Path) -> None:
    storage = LocalStorage()
    for _, found in open_logs(storage, str(log_dir)):
        for segment in found.segments:
            with closing(storage.open(segment.path)) as file:
                list(pieces(file))


@pytest.mark.parametrize("make", [fifo, device, bound_socket, circle, folder])
def test_what_is_no_file_is_refused_with_its_name(make: object, tmp_path: Path) -> None:
    path = tmp_path / NAME
    make(path)  # type: ignore[operator]
    with pytest.raises(StoreRefused) as caught:
        LocalFile(str(path))
    assert caught.value.file == str(path)
    assert not caught.value.retriable
    assert caught.value.remedy


@pytest.mark.parametrize("make", [fifo, device, bound_socket, circle])
@pytest.mark.parametrize("name", [NAME, "leader-epoch-checkpoint", "partition.metadata"])
def test_a_log_with_one_is_refused_where_the_file_is_needed(make: object, name: str, tmp_path: Path) -> None:
    log = tmp_path / "orders-0"
    log.mkdir()
    (log / "00000000000000000001.log").write_bytes(encode_batch([Record(b"k", b"v")], base_offset=1))
    make(log / name)  # type: ignore[operator]
    with pytest.raises(StoreRefused):
        read_all(tmp_path)


def test_a_disk_that_fails_is_a_typed_error() -> None:
    with closing(LocalFile("/proc/self/mem")) as file:  # the kernel answers EIO for an address without memory
        file.size = 100
        with pytest.raises(StoreRefused, match="Input/output error") as caught:
            file.read(0, 100)
    assert caught.value.position == 0


def test_a_hole_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    batch = encode_batch([Record(b"k", b"v")])
    read: list[int] = []
    own = LocalFile.read

    def counted(self: LocalFile, position: int, length: int) -> memoryview:
        read.append(length)
        return own(self, position, length)

    monkeypatch.setattr(LocalFile, "read", counted)
    for tail, zeros in ((b"", True), (b"x", False)):
        with path.open("wb") as out:
            out.write(batch)
            out.truncate(1 << 34)
            out.seek(0, os.SEEK_END)
            out.write(tail)
        with closing(LocalFile(str(path))) as file:
            read.clear()
            assert only_zeros(file, len(batch)) is zeros
            assert sum(read) < 1 << 20


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Without root's rights, which permissions do not bind."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may enter: pytest's own are their owner's."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("unreadable", ["topic-0/" + NAME, "topic-0", "."])
def test_what_may_not_be_read_is_refused_with_its_name(unreadable: str, public: Path) -> None:
    log_dir = public / "data"
    (log_dir / "topic-0").mkdir(parents=True)
    (log_dir / "topic-0" / NAME).write_bytes(encode_batch([Record(b"k", b"v")]))
    path = log_dir / unreadable
    path.chmod(0)
    try:
        with as_somebody_else(), pytest.raises(StoreRefused) as caught:
            read_all(log_dir)
        assert str(path.resolve()) in str(caught.value) or str(path) in str(caught.value)
        with as_somebody_else():
            for deep in (False, True):
                found: object = None
                try:
                    found = check_partition(LocalStorage(), str(log_dir / "topic-0"), "topic", 0, deep=deep)
                except StoreRefused as error:
                    found = error
                assert found is not None
    finally:
        path.chmod(0o755)


def test_a_folder_of_many_files_costs_what_they_cost(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    """Listed once, however many segments and strange names there are."""

    def seconds(count: int) -> float:
        log_dir = tmp_path / str(count)
        for number in range(count // 2):
            (log_dir / "topic-0").mkdir(parents=True, exist_ok=True)
            (log_dir / "topic-0" / f"{number * 10:020d}.log").touch()
            (log_dir / "topic-0" / f"{number}.strange").touch()
        began = time.process_time()
        ((_, log),) = open_logs(LocalStorage(), str(log_dir))
        took = time.process_time() - began
        assert len(log.segments) == count // 2
        check_partition(LocalStorage(), str(log_dir / "topic-0"), "topic", 0)
        return took

    most = scale(1_000, 100_000)
    few, many = seconds(most // 4), seconds(most)
    assert many < 12 * few + 0.5

"""A local file that is dropped while it is open is closed, and a warning says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.segment_reader.log.files.storage import LocalFile


def open_files() -> set[str]:
    return {str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}


def test_a_file_that_nobody_closes_is_told_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"records")
    file = LocalFile(str(path))
    assert str(path) in open_files()
    with pytest.warns(ResourceWarning, match=str(path)):
        del file
    assert str(path) not in open_files()


def test_one_that_was_closed_goes_in_silence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"records")
    file = LocalFile(str(tmp_path / "file"))
    file.close()
    file.close()
    del file

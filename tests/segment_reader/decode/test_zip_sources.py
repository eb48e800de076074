"""Where compiled sources are laid out when the package is in a zip file."""

from pathlib import Path

import pytest

from kseg.segment_reader.decode.zip_sources import lay_out


def test_files_are_laid_into_the_first_folder_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert lay_out("n", {"a.py": b"1"}) == tmp_path / "cache" / "kseg" / "compiled" / "n"
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")  # a container without a home
    assert lay_out("n", {"a.py": b"1"}) == tmp_path / "cwd" / ".kseg-compiled" / "n"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    folder = lay_out("n", {"a.py": b"1", "b.py": b"2"})
    assert folder == tmp_path / "numba" / "n"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a.py": b"1", "b.py": b"2"}


def test_a_file_that_is_there_keeps_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba may hold an entry for stale if its source's date moves."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = lay_out("n", {"a.py": b"1"})
    assert folder is not None
    before = (folder / "a.py").stat().st_mtime_ns
    lay_out("n", {"a.py": b"1"})
    assert (folder / "a.py").stat().st_mtime_ns == before

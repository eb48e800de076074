"""`make setup` does nothing twice, and detects what has to be done again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kseg.jobs import setup_stamp
from kseg.segment_reader.decode import jit

ROOT = Path(__file__).parents[2]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source, a compiled function, and a stamp that tells of both."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "segment_reader").mkdir()
    (tmp_path / "segment_reader" / "kernel.py").write_text("from kseg.segment_reader.decode.jit import compiled\n")
    (tmp_path / "segment_reader" / "plain.py").write_text("SIZE = 8\n")
    (tmp_path / "kernel.nbi").write_text("")
    setup_stamp.write(setup_stamp.inputs(tmp_path), [tmp_path / "kernel.nbi"], tmp_path / "stamp")
    assert is_current(tmp_path)
    return tmp_path


def is_current(folder: Path) -> bool:
    return setup_stamp.is_current(folder / "stamp", folder)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a source": lambda made: (made / "segment_reader" / "plain.py").write_text("SIZE = 9\n"),
    "a source more": lambda made: (made / "segment_reader" / "more.py").write_text(""),
    "a source less": lambda made: (made / "segment_reader" / "plain.py").unlink(),
    "the time of a compiled function": lambda made: os.utime(made / "segment_reader" / "kernel.py", (1, 1)),
    "an output": lambda made: (made / "kernel.nbi").unlink(),
    "the stamp": lambda made: (made / "stamp").write_text("{"),
    "another stamp": lambda made: (made / "stamp").write_text("[]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(made: Path, change: str) -> None:
    CHANGES[change](made)
    assert not is_current(made)


@pytest.mark.parametrize("variable", ["JAVA_HOME", "KSEG_CACHE", "NUMBA_CPU_NAME"])
def test_another_environment_is_seen(made: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "/elsewhere")
    assert not is_current(made)


def test_the_time_of_a_file_that_holds_the_same_is_no_change(made: Path) -> None:
    os.utime(made / "segment_reader" / "plain.py", (1, 1))
    assert is_current(made)


def test_what_could_not_be_made_is_tried_again(made: Path) -> None:
    setup_stamp.write(setup_stamp.inputs(made), [made / "kernel.nbi", made / "archive.jsa"], made / "stamp")
    assert not is_current(made)


def test_compiled_functions_that_are_kept_elsewhere_are_never_taken_for_present(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(made))
    setup_stamp.write(setup_stamp.inputs(made), [made / "kernel.nbi"], made / "stamp")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert not is_current(made)


def test_modules_with_compiled_functions_are_recognized() -> None:
    """By the import without which there are none."""
    sources = {entry.parents[1] / f"{entry.name.partition('.')[0]}.py" for entry in jit.cache_entries()}
    assert sources
    assert all(setup_stamp._COMPILED in source.read_bytes() for source in sources)


def test_the_question_loads_nothing_of_what_it_spares() -> None:
    program = "import sys; from kseg.jobs import setup_stamp; setup_stamp.is_current(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "kseg.jobs.setup_stamp" in loaded
    assert not {"numba", "numpy", "pyarrow", "pydantic", "pyspark", "rich"} & set(loaded)


@pytest.fixture
def make_setup(tmp_path: Path) -> Callable[..., str]:
    """What `make setup` asks an environment's Python to do, in a copy of the repository."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "python $*"\n')
    python.chmod(0o755)

    def made(*variables: str) -> str:
        command = ["make", "--no-print-directory", "setup", *variables]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    return made


def test_packages_are_installed_again_only_if_their_list_has_changed(
    make_setup: Callable[..., str], tmp_path: Path
) -> None:
    first = make_setup()
    assert "pip install" in first
    assert "python -m kseg.jobs.setup_stamp" in first
    assert "pip install" not in make_setup()
    later = (tmp_path / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(tmp_path / "constraints.txt", (later, later))
    assert "pip install" not in make_setup()
    with (tmp_path / "constraints.txt").open("a") as constraints:
        constraints.write("another==1\n")
    os.utime(tmp_path / "constraints.txt", (later + 10, later + 10))
    assert "pip install" in make_setup()
    assert "pip install" in make_setup("JRE=1")
    assert "pip install" not in make_setup("JRE=1")
    assert "pip install" not in make_setup()

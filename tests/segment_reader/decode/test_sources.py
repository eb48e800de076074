"""Sources of compiled functions: a hash over their imports, and files of them when the package is in a zip file."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kseg.segment_reader.decode import primitives, sources
from kseg.segment_reader.decode.sources import PACKAGE, closure, fingerprint, write_source

ROOT = Path(sources.__file__).parents[1]
COMPILED = (
    "decode.kernel",
    "decode.primitives",
    "decode.scan",
    "encode.columns",
    "log.scan.kernels",
    "payload.avro.kernel",
    "payload.avro.numbers",
    "payload.avro.slots",
    "payload.json.kernel",
    "payload.text",
)

FROM_ZIP = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kseg.segment_reader.decode import primitives
from kseg.segment_reader.encode import columns
from kseg.segment_reader.log.scan import kernels

data = np.zeros(16, np.uint8)
primitives.crc32(data, 0, 16)
columns._hash_keys(data, np.zeros(3, np.int64), data, np.zeros(2, np.int64))
kernels.chain(data, 0)
for function in (primitives.crc32, columns._hash_keys, kernels.chain):
    assert function.py_func.__code__.co_filename.startswith(sys.argv[2])
    print(sum(function.stats.cache_misses.values()), sum(function.stats.cache_hits.values()))
"""


def test_files_are_laid_into_the_first_folder_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert write_source("n", "a.py", b"1") == tmp_path / "cache" / "kseg" / "compiled" / "n"
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")  # a container without a home
    assert write_source("n", "a.py", b"1") == tmp_path / "cwd" / ".kseg-compiled" / "n"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    folder = write_source("n", "a.py", b"1")
    assert folder == tmp_path / "numba" / "n" == write_source("n", "b.py", b"2")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a.py": b"1", "b.py": b"2"}


def test_a_file_that_is_there_keeps_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba may hold an entry for stale if its source's date moves."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = write_source("n", "a.py", b"1")
    assert folder is not None
    before = (folder / "a.py").stat().st_mtime_ns
    write_source("n", "a.py", b"1")
    assert (folder / "a.py").stat().st_mtime_ns == before


def imports_of(path: Path) -> set[str]:
    """The modules of this package that a file imports at its top level, as Python's own parser finds them."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
            spec = importlib.util.find_spec(node.module)
            is_package = spec is not None and spec.submodule_search_locations is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if is_package else {node.module}
    return found


def test_an_edit_of_any_source_of_compiled_code_is_seen() -> None:
    """The cache entries' names carry a hash of these files; whatever they import of this package is among them."""
    for module in COMPILED:
        names = closure(f"{PACKAGE}.{module}")
        assert f"{PACKAGE}.{module}" in names
        for name in names:
            path = ROOT / f"{name.removeprefix(PACKAGE + '.').replace('.', '/')}.py"
            assert imports_of(path) <= names
    assert primitives.crc32.__qualname__.endswith(fingerprint(primitives.__name__))


def test_code_in_a_zip_file_is_compiled_once(tmp_path: Path) -> None:
    """Each application has its own copy of the zip file; the second finds what the first has compiled."""
    cache = tmp_path / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONPATH", None)
    for number, expected in enumerate(["1 0", "0 1"]):
        path = tmp_path / f"application-{number}" / "kseg.zip"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            for source in (ROOT.parent / "__init__.py", *ROOT.rglob("*.py")):
                archive.write(source, f"kseg/{source.relative_to(ROOT.parent)}")
        done = subprocess.run(
            [sys.executable, "-c", FROM_ZIP, str(path), str(cache)],
            capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [expected] * 3

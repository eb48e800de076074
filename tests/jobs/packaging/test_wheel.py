"""The wheel that `kseg package` makes without building anything."""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kseg.jobs.packaging.wheel import wheel_bytes, wheel_name, zip_name

FROM_ZIP = """
import pkgutil, sys
sys.path.insert(0, sys.argv[1])
from importlib.metadata import distributions
import kseg.jobs.cli, kseg.etl.tasks.writing
from kseg.segment_reader.decode import primitives
print(kseg.jobs.cli.__file__.startswith(sys.argv[1]), kseg.etl.tasks.writing.__file__.startswith(sys.argv[1]))
print([module.name for module in pkgutil.iter_modules([sys.argv[1]])])
print([found.metadata["Name"] for found in distributions(path=[sys.argv[1]])])
print(primitives.crc32.py_func.__code__.co_filename)
"""


@pytest.fixture(scope="module")
def wheel() -> bytes:
    return wheel_bytes()


def test_the_same_code_gives_the_same_bytes(wheel: bytes) -> None:
    assert wheel_bytes() == wheel


def test_the_record_tells_every_file_with_its_sum(wheel: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        told = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
        assert told.pop(record) == ","
        digests = {}
        for name in set(archive.namelist()) - {record}:
            data = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            digests[name] = f"sha256={digest},{len(data)}"
    assert told == digests


def test_pip_installs_it(wheel: bytes, tmp_path: Path) -> None:
    (tmp_path / wheel_name()).write_bytes(wheel)
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*command, "--target", str(target), str(tmp_path / wheel_name())], check=True, timeout=300)
    assert (target / "bin" / "kseg").is_file()
    assert (target / "pyspark_kseg" / "__init__.py").is_file()
    assert not (target / "kseg" / "etl" / "spark_format" / "pyspark_kseg").exists()
    assert not (target / "kseg" / "jobs" / "kseg").exists()


def test_python_imports_from_it_and_compiled_code_has_the_same_place_for_all_copies(
    wheel: bytes, tmp_path: Path
) -> None:
    places = []
    for application in ("app-1", "app-2"):
        path = tmp_path / application / zip_name()
        path.parent.mkdir()
        path.write_bytes(wheel)
        told = subprocess.run(
            [sys.executable, "-Ic", FROM_ZIP, str(path)],
            env={"NUMBA_CACHE_DIR": str(tmp_path / "compiled")},
            capture_output=True,
            text=True,
            check=True,
        )
        ours, modules, names, source = told.stdout.splitlines()
        assert ours == "True True"
        assert modules == "['kseg', 'pyspark_kseg']"
        assert names == "['kafka-segment-etl']"
        places.append(Path(source))
    assert places[0] == places[1]
    assert places[0].is_relative_to(tmp_path / "compiled")
    assert places[0].read_bytes() == zipfile.ZipFile(path).read("kseg/segment_reader/decode/primitives.py")

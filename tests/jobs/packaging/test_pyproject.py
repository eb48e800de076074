"""What ``pip install`` puts on a machine, from a wheel and from an editable install."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = ("client", "segment_reader", "etl", "jobs")
MAPPED = re.compile(r"^kseg/(?:etl/spark_format/(?=pyspark_kseg/)|jobs/(?=kseg/))")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A copy of what is under version control or new, and all files in the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not in a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return source, {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel_files(built: tuple[Path, dict[str, bytes]]) -> set[str]:
    return set(built[1])


def test_every_module_is_in_the_wheel(built: tuple[Path, dict[str, bytes]], wheel_files: set[str]) -> None:
    source, _ = built
    written = {
        MAPPED.sub("", f"kseg/{path.relative_to(source)}") for part in PARTS for path in (source / part).rglob("*.py")
    }
    assert written - wheel_files == set()
    assert {"kseg/jobs/broker/jars.lock", "kseg/py.typed", "pyspark_kseg/__init__.py"} <= wheel_files
    assert {f"kseg/jobs/report/templates/{name}" for name in ("page.html.jinja", "style.css")} <= wheel_files


def test_nothing_else_gets_a_top_level_name(wheel_files: set[str]) -> None:
    top = {name.split("/")[0] for name in wheel_files if ".dist-info/" not in name}
    assert top == {"kseg", "pyspark_kseg"}


def test_kseg_package_packs_the_same_files_without_a_build(built: tuple[Path, dict[str, bytes]]) -> None:
    from kseg.jobs.packaging.wheel import package_files

    assert dict(package_files()) == {name: data for name, data in built[1].items() if ".dist-info/" not in name}


def test_the_licence_and_the_command_are_in_the_wheel(wheel_files: set[str]) -> None:
    metadata = {name.split(".dist-info/")[1] for name in wheel_files if ".dist-info/" in name}
    assert {"licenses/LICENSE", "entry_points.txt"} <= metadata


def test_spark_finds_the_data_source_in_this_install() -> None:
    assert "pyspark_kseg" in {module.name for module in pkgutil.iter_modules()}

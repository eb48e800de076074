"""In CI a skipped test is a failure, unless CONTRIBUTING.md's table names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skips import ROOT, parts_of_table

HARNESS = Path(__file__).parent

CONFTEST = """
from pathlib import Path
import skips

def pytest_configure(config):
    skips.register(config, Path(__file__).parent)
"""
TABLE = """
| command | | |
| --- | --- | --- |
| `make test-full PART=some` | more | `tests/test_named.py`, `tests/test_module.py` |
"""
FILES = {
    "tests/test_named.py": """
import pytest
from skips import IN_FULL, full_scale_only

@full_scale_only
def test_marked(): pass

def test_inside(): pytest.skip(IN_FULL)

def test_other(): pytest.skip("jars are out of reach")

def test_of_some(): pytest.skip("make test-full PART=some")
""",
    "tests/test_module.py": "import pytest\npytest.importorskip('no_such_module', reason='make test-full')",
    "tests/test_stranger.py": "from skips import full_scale_only\n@full_scale_only\ndef test_stranger(): pass",
    "tests/test_stranger_module.py": "import pytest\npytest.importorskip('no_such_module')",
    "tests/test_sound.py": """
import pytest

def test_passes(): pass

@pytest.mark.xfail
def test_expected(): assert False
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "CONTRIBUTING.md").write_text(TABLE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def outcomes(project: Path, **environ: str) -> dict[str, str]:
    """What pytest says of each test, or of each file that it could not collect."""
    left = {key: value for key, value in os.environ.items() if key not in ("CI", "KSEG_TEST_SCALE", "KSEG_TEST_PART")}
    left["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and they take most of the time
    path = os.pathsep.join(filter(None, [str(HARNESS), left.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    done = subprocess.run(
        [*command, "--rootdir", project, project],
        env=left | {"PYTHONPATH": path} | environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) +(?:\S*/)?(\w+)\.py(?:::(\w+))?", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1), done.stdout
    return {test or file: outcome for outcome, file, test in found}


def test_elsewhere_a_skip_is_a_skip(project: Path) -> None:
    assert outcomes(project) == {"test_passes": "PASSED", "test_expected": "XFAIL"}


def test_in_ci_a_skip_that_the_table_does_not_name_fails(project: Path) -> None:
    assert outcomes(project, CI="true") == {
        "test_passes": "PASSED",
        "test_expected": "XFAIL",
        "test_other": "FAILED",
        "test_stranger": "ERROR",
        "test_stranger_module": "ERROR",
    }


def test_a_part_runs_what_is_left_to_it(project: Path) -> None:
    assert outcomes(project, CI="true", KSEG_TEST_PART="some")["test_of_some"] == "FAILED"
    assert "test_of_some" not in outcomes(project, CI="true", KSEG_TEST_PART="other")


def test_the_table_names_the_files_that_leave_something_to_the_full_run() -> None:
    named = set().union(*parts_of_table(ROOT / "CONTRIBUTING.md").values())
    use = re.compile(r"^from skips import .*(IN_FULL|full_scale_only)|PART=kerberos", re.MULTILINE)
    using = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and use.search(path.read_text(encoding="utf-8"))
    }
    assert named - using == {"tests/airflow/test_on_airflow_2.py"}  # left out by its suite's conftest.py
    assert using <= named

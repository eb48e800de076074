"""The folder `airflow/` must not hide the package of that name, and its code must not need ours."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

if TYPE_CHECKING:
    from kseg_process import Kseg

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "airflow"
OURS = {"kseg", "pyspark_kseg"}


def _python(program: Path | str, code: str) -> str:
    """What Python prints, started in the repository's root: the first place where it then looks for imports."""
    done = subprocess.run([program, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_from_the_root_the_real_airflow_is_imported() -> None:
    told = _python(sys.executable, "import airflow, airflow.sdk; print(airflow.__file__); print(airflow.__version__)")
    assert not Path(told.splitlines()[0]).is_relative_to(FOLDER)
    assert told.splitlines()[1][0] in "23"


def test_without_airflow_nothing_is_taken_for_it(kseg: Kseg) -> None:
    code = """
import airflow, importlib.util
print(airflow.__file__, importlib.util.find_spec("airflow.sdk"), importlib.util.find_spec("airflow.models"))
"""
    assert _python(kseg.binary.with_name("python"), code) == "None None None"


def test_no_folder_has_the_name_of_a_module_of_airflows() -> None:
    import airflow

    theirs = {path.stem for folder in airflow.__path__ if Path(folder) != FOLDER for path in Path(folder).iterdir()}
    assert {"models", "sdk", "providers"} <= theirs
    assert not (FOLDER / "__init__.py").exists()
    assert {path.stem for path in FOLDER.iterdir() if not path.name.startswith(".")} & theirs == set()


def test_it_imports_nothing_of_ours() -> None:
    """But for the application that is handed to spark-submit: it never runs in Airflow's environment."""
    files = sorted(set(FOLDER.rglob("*.py")) - set((FOLDER / "kseg_airflow" / "application").glob("kseg_driver.py")))
    assert files
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found += [f"{file.relative_to(ROOT)}:{node.lineno}: {name}" for name in names if name.split(".")[0] in OURS]
    assert found == []

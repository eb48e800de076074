"""A socket that a test leaves open fails it, and never another one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import leaks

HARNESS = Path(__file__).parent
REGISTER = "leaks.register(config, lambda item: item.path.parent.name == 'unchecked')"

LEAK = """
import socket

class Cycle:
    def __init__(self):
        self.own, self.socket = self, socket.socket()
"""
FILES = {
    "conftest.py": f"import leaks\ndef pytest_configure(config): {REGISTER}",
    "pytest.ini": "[pytest]\nfilterwarnings = error",
    "tests/airflow/conftest.py": f"import leaks\ndef pytest_configure(config): {REGISTER}",
    "tests/airflow/test_nothing.py": "",
    "tests/client/test_leaks.py": f"{LEAK}\ndef test_leaks(): socket.socket()",
    "tests/client/test_closes.py": f"{LEAK}\ndef test_closes(): socket.socket().close()",
    "tests/client/test_last.py": "import gc\ndef test_last(): gc.collect()",
    "tests/unchecked/test_leaks.py": f"{LEAK}\ndef test_is_not_checked(): socket.socket()",
    "tests/unchecked/test_cycle.py": f"{LEAK}\ndef test_leaves_garbage(): Cycle()",
}


def test_a_leak_fails_the_test_that_left_it_where_leaks_are_checked(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    others = [f"unchecked/test_{name}" for name in ("leaks", "cycle")]
    order = ["airflow/test_nothing", "client/test_closes", "client/test_leaks", *others, "client/test_last"]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            *(f"tests/{name}.py" for name in order),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(HARNESS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(re.findall(r"::test_(\w+) (PASSED|FAILED|ERROR)", ended.stdout))
    assert found.pop("leaks") in ("FAILED", "ERROR"), ended.stdout
    assert found == dict.fromkeys(["closes", "is_not_checked", "leaves_garbage", "last"], "PASSED"), ended.stdout
    assert "unclosed <socket.socket" in ended.stdout


def test_every_place_that_is_not_checked_is_there() -> None:
    assert [place for place in leaks.UNCHECKED if not (HARNESS.parents[1] / place).exists()] == []

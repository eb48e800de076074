"""The application that spark-submit and Livy start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_process import wait_for
from kseg_airflow.submit.spark_submit import APPLICATION

# In place of kseg: it unwinds by a SIGTERM, and says what it was asked.
CLI = """
import os, signal, sys, time
from pathlib import Path

def main(words):
    here = Path(__file__).parent
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
        (here / "began").write_text(" ".join([os.environ["KSEG_DRIVER"], *words]))
        time.sleep(300)
    finally:
        (here / "unwound").touch()
"""
ENDS = "import sys\n\ndef main(words):\n    print(words)\n    sys.exit({code})\n"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"


def test_it_unwinds_when_the_jvm_that_started_it_is_gone(tmp_path: Path) -> None:
    jobs = tmp_path / "kseg" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "cli.py").write_text(CLI)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(APPLICATION), "--driver", "4f1c2d", "ingest", "orders.yaml"],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYSPARK_GATEWAY_PORT": "1"},
    )
    try:
        began = wait_for(lambda: (jobs / "began").exists() and (jobs / "began").read_text(), "it begins")
        assert began == "4f1c2d ingest orders.yaml"
        assert not (jobs / "unwound").exists()
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_for((jobs / "unwound").exists, "it unwinds")


@pytest.mark.parametrize(("code", "told"), [("3", 3), ("", 0), ("'a message'", 1)])
def test_behind_livy_its_exit_code_is_the_last_line_that_it_prints(tmp_path: Path, code: str, told: int) -> None:
    """Livy tells no code. Elsewhere the output is the document alone."""
    jobs = tmp_path / "kseg" / "jobs"
    jobs.mkdir(parents=True)
    (jobs / "cli.py").write_text(ENDS.format(code=code))

    def printed(*words: str) -> list[str]:
        command = [sys.executable, str(APPLICATION), *words, "verify"]
        env = os.environ | {"PYTHONPATH": str(tmp_path)}
        ended = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
        assert ended.returncode == told
        return ended.stdout.splitlines()

    assert printed("--driver", "4f1c2d") == ["['verify']", f"kseg-exit: {told}"]
    assert printed() == ["['verify']"]

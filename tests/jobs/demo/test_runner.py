"""A run that the demo has started and that is interrupted leaves nothing open."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from kseg.jobs.demo.runner import ingest


def test_an_interrupted_run_leaves_neither_a_process_nor_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    def interrupted(process: subprocess.Popen[str], *_: Any, **__: Any) -> None:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(tmp_path / "job.yaml")
    (process,) = started
    assert not psutil.pid_exists(process.pid)
    assert process.returncode is not None
    assert process.stdout is not None
    assert process.stdout.closed

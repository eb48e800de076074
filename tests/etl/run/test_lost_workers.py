"""A run whose worker processes end in the middle of a task. Without a broker: the records are in log files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.load import job_from_document
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.source.errors import WorkersLost
from kseg.segment_reader.encode.batches import Record, encode_batch

ENDS_ITS_PROCESS = """
import os, signal, uuid
from pathlib import Path

def ends(batch):
    if batch.num_rows:
        (Path(__file__).parent / f"mark-{uuid.uuid4()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return batch
"""


def test_the_run_ends_after_the_last_attempt_at_a_task(
    tmp_path: Path, log_files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends them is the machine's: to read everything again until the run's deadline would not mend it."""
    log_files.write_partition(tmp_path / "logs" / "t-0", [[encode_batch([Record(None, b"v")] * 10)]])
    (tmp_path / "ending_steps.py").write_text(ENDS_ITS_PROCESS)
    monkeypatch.syspath_prepend(str(tmp_path))
    job = job_from_document(
        {
            "version": 1,
            "name": "lost",
            "source": {"segments": {"paths": [str(tmp_path / "logs")]}, "topics": ["t"]},
            "transform": [{"arrow": "ending_steps:ends"}],
            "sink": {"path": str(tmp_path / "rows")},
            "ledger": str(tmp_path / "ledger"),
            "run": {"engine": "local", "task_attempts": 2, "deadline": "30s"},
        }
    )
    with pytest.raises(WorkersLost, match="ended 2 times") as caught:
        run_ingest(job)
    assert caught.value.retriable
    assert len(list(tmp_path.glob("mark-*"))) == 2

"""`kseg … | head -1`: a reader that has gone ends a command quietly, and is no failure of its work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.jobs.output import standard_streams

ROOT = Path(__file__).parents[3]
CUT_OFF = standard_streams.EXIT_CODE


def unread(*words: str, errors_too: bool = False, before: str = "") -> tuple[int, str]:
    """The exit code of `kseg` with a stdout that nobody reads, and what it says on stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    code = f"{before}\nfrom kseg.jobs.cli import main\nmain({list(words)!r})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdout=writing,
            stderr=writing if errors_too else subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--help", CUT_OFF),
        ("check --schema", CUT_OFF),
        ("api docs", CUT_OFF),
        ("api list", 0),  # its work was done: the exit code is that of the work
        ("doctor --json", 0),
        ("explain", 0),
        ("broker status --dir nothing-here", CUT_OFF),
    ],
)
def test_a_command_ends_quietly(line: str, code: int) -> None:
    assert unread(*line.split()) == (code, "")


@pytest.mark.parametrize("errors_too", [False, True], ids=["output", "output and errors"])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_failure_keeps_its_exit_code(tmp_path: Path, form: list[str], errors_too: bool) -> None:
    code, said = unread("check", str(tmp_path / "missing.yaml"), *form, errors_too=errors_too)
    assert code == 2
    assert "Traceback" not in said


LANDED = """
import sys, types
pipeline = types.ModuleType('kseg.etl.run.pipeline')
pipeline.run_ingest = lambda job, **_: types.SimpleNamespace(to_json=lambda: {'run': 1})
sys.modules['kseg.etl.run.pipeline'] = pipeline
"""


def test_a_run_whose_result_nobody_reads_has_ended_well(tmp_path: Path) -> None:
    """Its run file says so, too: a scheduler would run it again."""
    job, run_file = tmp_path / "orders.yaml", tmp_path / "run.json"
    job.write_text(
        "version: 1\nname: orders\nkafka: {bootstrap.servers: 'localhost:9092'}\nsource: {topics: [orders]}\n"
        "sink: {path: ./lake/orders}\nledger: ./lake/_kseg_ledger\n"
    )
    assert unread("ingest", str(job), "--run-file", str(run_file), before=LANDED) == (0, "")
    assert '"state": "done"' in run_file.read_text()


def test_a_closed_connection_is_no_closed_output() -> None:
    with pytest.raises(BrokenPipeError), standard_streams.while_read(sys.stdout):
        raise BrokenPipeError("of a socket")


def test_a_stream_with_a_reader_has_one() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        assert not standard_streams.has_no_reader(stream)
        os.close(reading)
        assert standard_streams.has_no_reader(stream)
        stream.write("kept in a buffer")
        standard_streams.discard(stream)

"""A result or an error that cannot be printed, as on a full disk, leaves the exit code of the command's work."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.jobs.output.last_output import last_output

ROOT = Path(__file__).parents[3]
FULL = "No space left on device"
LANDED = """
import sys, types
pipeline = types.ModuleType('kseg.etl.run.pipeline')
pipeline.run_ingest = lambda job, **_: types.SimpleNamespace(to_json=lambda: {'run': 1})
sys.modules['kseg.etl.run.pipeline'] = pipeline
"""
NO_LEDGER = """
import sys, types
from kseg.etl.errors import RetriableFailure
pipeline = types.ModuleType('kseg.etl.run.pipeline')
def run_ingest(job, **_): raise RetriableFailure('the store is away')
pipeline.run_ingest = run_ingest
sys.modules['kseg.etl.run.pipeline'] = pipeline
"""


LANDED_WITH_GAPS = LANDED.replace("{'run': 1}", "{'run': 'ä€', 'tables': [{'rows': 1, 'lag': None}]}")


def ended(redirection: str, *words: str, before: str = "") -> tuple[int, str]:
    """The exit code of `kseg` with a shell's redirection, and what it says on stderr."""
    code = f"{before}\nfrom kseg.jobs.cli import main\nmain({list(words)!r})"
    done = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {redirection}', sys.executable, code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stderr


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "version: 1\nname: orders\nkafka: {bootstrap.servers: 'localhost:9092'}\nsource: {topics: [orders]}\n"
        "sink: {path: ./lake/orders}\nledger: ./lake/_kseg_ledger\n"
    )
    return file


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_run_whose_result_cannot_be_printed_has_ended_well(tmp_path: Path, job: Path, form: list[str]) -> None:
    """A scheduler took it for a failure."""
    run_file = tmp_path / "run.json"
    code, said = ended(">/dev/full", "ingest", str(job), "--run-file", str(run_file), *form, before=LANDED)
    assert (code, said.strip()) == (0, f"kseg: the output could not be written: {FULL}")
    told = json.loads(run_file.read_text())
    assert (told["state"], told["result"]["run"]) == ("done", 1)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("redirection", [">/dev/full 2>/dev/full", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_run_without_any_output_has_ended_well(job: Path, form: list[str], redirection: str) -> None:
    code, said = ended(redirection, "ingest", str(job), *form, before=LANDED)
    assert (code, "Traceback" in said) == (0, False)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("redirection", [">/dev/full", ">/dev/full 2>/dev/full", ">&-", "2>&-", ">&- 2>&-"])
def test_a_failure_that_cannot_be_printed_keeps_its_exit_code(job: Path, form: list[str], redirection: str) -> None:
    code, said = ended(redirection, "ingest", str(job), *form, before=NO_LEDGER)
    assert (code, "Traceback" in said) == (4, False)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "ascii:surrogateescape"])
def test_a_run_ends_well_where_stdout_cannot_encode_its_result(
    job: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, form: list[str]
) -> None:
    """A cell without a value is a dash, which latin-1 has not: half of the table, and exit code 1, were the end."""
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    code, said = ended(">/dev/null", "ingest", str(job), *form, before=LANDED_WITH_GAPS)
    assert (code, said) == (0, "")


def test_output_that_cannot_be_encoded_is_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a stream that is not the process' own, as a notebook's."""
    with last_output(stream := io.TextIOWrapper(io.BytesIO(), encoding="latin-1")):
        stream.write("–")
    assert capsys.readouterr().err.startswith("kseg: the output could not be written: 'latin-1' codec can't encode")

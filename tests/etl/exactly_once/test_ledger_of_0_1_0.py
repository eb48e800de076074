"""A ledger, its tables and its unfinished runs, all written by release 0.1.0, are continued by the current code.

The folder is unpacked at the path where it was made, since ledger and tables hold absolute paths. What the tests expect
was found by finishing a copy with that release: data/ledger_0_1_0/README.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from kseg.jobs.cli import cli
from skips import IN_FULL

FIXTURES = Path(__file__).parent / "data" / "ledger_0_1_0"
HOME = Path("/tmp/kseg-ledger-0.1.0")
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())["jobs"]
REDUCED = ("history", "planned", "committed", "routed", "accounted")
"""One job for each stage at which an unfinished run may be."""


@pytest.fixture(scope="module")
def home(spark: Any) -> Iterator[Path]:
    """The folder as 0.1.0 left it. One test process of the machine at a time has it. Runs are in the tests' Spark."""
    with HOME.with_name(f"{HOME.name}.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(HOME, ignore_errors=True)
        with tarfile.open(FIXTURES / "files.tar.xz") as tar:
            tar.extractall(HOME.parent, filter="data")
        patch.syspath_prepend(HOME)  # the Arrow step's module: here, and in the workers
        spark.sparkContext.addPyFile(str(HOME / "steps_of_0_1_0.py"))
        yield HOME
        shutil.rmtree(HOME)


def kseg(command: str, job: str, *options: str) -> tuple[int, Any]:
    """The command's exit code and JSON output."""
    words = [command, str(HOME / "jobs" / f"{job}.yaml"), *options, "--json", "--progress", "none"]
    done = CliRunner().invoke(cli, words)
    assert done.stdout.strip(), f"{words} ended with {done.exit_code}:\n{done.stderr[-3000:]}"
    return done.exit_code, json.loads(done.stdout)


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=plain).encode()).hexdigest()


def plain(value: Any) -> str:
    text: str = value.hex() if isinstance(value, bytes) else value.isoformat()
    return text


def table_of(path: Path, known: set[str]) -> dict[str, Any]:
    """The addresses of a table's rows, a digest of all columns but `_kseg_run`, and how many rows each run has.

    known: runs of 0.1.0. The ids of other runs differ each time.
    """
    table = DeltaTable(path)
    read = pa.table(table.to_pyarrow_table())
    rows = sorted(read.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))
    runs = Counter(row.pop("_kseg_run") for row in rows)
    addresses: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        addresses[f"{row['topic']}:{row['partition']}"].append(row["offset"])
    return {
        "rows": len(rows),
        "columns": sorted(read.column_names),
        "partition_by": list(table.metadata().partition_columns),
        "addresses": addresses,
        "digest": digest(rows),
        "rows_of_runs": {run: number for run, number in sorted(runs.items()) if run in known},
        "rows_of_new_runs": sum(number for run, number in runs.items() if run not in known),
    }


def tables_of(expected: dict[str, Any], known: set[str]) -> dict[str, Any]:
    paths = {path: Path(path) for path in expected["tables"]}
    return {p: table_of(path, known) if (path / "_delta_log").is_dir() else None for p, path in paths.items()}


def assert_holds(job: str, when: str) -> None:
    """Tables, and the ledger as `kseg status` reads it, are as expected `before` or `after` the job was continued."""
    expected = EXPECTED[job][when]
    known = set(EXPECTED[job]["before"]["runs"])
    code, status = kseg("status", job, "--runs", "100")
    assert code in (0, 3)  # 3: a run was left
    phases = {run["run_id"]: run["phase"] for run in status["runs"]}
    assert {run: phase for run, phase in phases.items() if run in known} == expected["runs"]
    assert [phase for run, phase in phases.items() if run not in known] == expected["new_runs"]
    assert {run["run_id"]: run["mode"] for run in status["runs"] if run["run_id"] in known} == EXPECTED[job]["modes"]
    frontier = {f"{p['topic']}:{p['partition']}": p["frontier"] for p in status["partitions"]}
    assert {partition: at for partition, at in frontier.items() if at is not None} == expected["frontier"]
    assert [table["problem"] for table in status["tables"] if table["problem"]] == []
    assert tables_of(expected, known) == expected["tables"]


def continue_job(job: str) -> None:
    """The commands that finish what 0.1.0 left, and one more that has nothing to do."""
    for step in EXPECTED[job]["steps"]:
        command, *options = step["command"]
        code, output = kseg(command, job, *options, "--take-over")
        known = EXPECTED[job]["before"]["runs"]
        found = {"exit": code, "status": output.get("status"), "counts": output.get("counts")}
        found["code"] = output.get("error", {}).get("code")
        assert found == {key: step[key] for key in found}, (step["command"], output)
        assert (output.get("run") if output.get("run") in known else None) == step["run"]


@pytest.mark.parametrize("job", EXPECTED)
def test_what_was_left_is_continued(job: str, home: Path, scale: Callable[[Any, Any], Any]) -> None:
    if job not in scale(REDUCED, EXPECTED):
        pytest.skip(IN_FULL)
    assert_holds(job, "before")
    continue_job(job)
    assert_holds(job, "after")
    if (verified := EXPECTED[job].get("verify")) is not None:
        code, output = kseg("verify", job)
        assert {"exit": code, "ok": output["ok"]} == verified


@pytest.mark.parametrize(
    ("job", "number"), [(job, n) for job, of_one in EXPECTED.items() for n in range(len(of_one.get("again", ())))]
)
def test_what_was_finished_is_not_read_again(job: str, number: int, home: Path) -> None:
    """The run id of a backfill or an interval is made from the request: it is the same under any release."""
    expected = EXPECTED[job]["again"][number]
    before = {path: DeltaTable(path).version() for path in EXPECTED[job]["before"]["tables"]}
    command, *options = expected["command"]
    code, output = kseg(command, job, *options)
    assert (code, output["status"], output["run"]) == (expected["exit"], expected["status"], expected["run"])
    assert output["status"] == "nothing-to-do"
    assert {path: DeltaTable(path).version() for path in before} == before


@pytest.mark.parametrize("run", EXPECTED["history"]["reports"])
def test_reports_of_its_runs_are_the_same(run: str, home: Path) -> None:
    """Later releases add members, and there is nothing in them for these runs."""
    expected = EXPECTED["history"]["reports"][run]
    report = kseg("status", "history", "--run", run)[1]
    ranges = report.pop("ranges")
    assert [_known(one, old) for one, old in zip(ranges, expected["ranges"], strict=True)] == expected["ranges"]
    assert _known(report, expected) == {key: value for key, value in expected.items() if key != "ranges"}


def _known(report: Any, expected: Any) -> Any:
    """A report without what it has besides, as long as that is null."""
    if isinstance(report, dict) and isinstance(expected, dict):
        kept = {key: value for key, value in report.items() if key in expected or value is not None}
        return {key: _known(value, expected.get(key)) for key, value in kept.items()}
    if isinstance(report, list) and isinstance(expected, list) and len(report) == len(expected):
        return [_known(one, old) for one, old in zip(report, expected, strict=True)]
    return report


def test_the_ledger_keeps_its_events(home: Path) -> None:
    """All events of 0.1.0 are unchanged. Retention may have deleted those that a summary replaces."""
    lines = (FIXTURES / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    summarised = {event["job"]: event["seq"] for event in events if event["kind"] == "summary"}
    kept = {line for line, event in zip(lines, events, strict=True) if event["seq"] > summarised.get(event["job"], 0)}
    there = pa.table(DeltaTable(home / "ledger").to_pyarrow_table()).to_pylist()
    now = {json.dumps(row | {"written_at": row["written_at"].isoformat()}, ensure_ascii=False) for row in there}
    assert kept <= now

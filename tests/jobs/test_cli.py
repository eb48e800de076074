"""The command line's promises: help with an example, exit codes, words instead of tracebacks, one JSON object alone."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kseg.client.errors import BrokerUnavailable, ConfigError, ConfigFault, OffsetOutOfRange, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.etl.config.job import Job
from kseg.etl.errors import AnotherRunActive, ConfigurationError, Diagnostic, KsegError, Refused, RetriableFailure
from kseg.etl.operations.verify import TableResult, VerifyReport
from kseg.etl.run.report import RangeReport, RunReport, TableReport
from kseg.jobs.cli import COMMANDS, cli
from kseg.jobs.commands.bench import SECTIONS
from kseg.jobs.invocation.failures import failure_of

ROOT = Path(__file__).parents[2]
JOB = """\
version: 1
name: orders
kafka: {bootstrap.servers: "localhost:9092", client.id: "${CLIENT_SECRET}"}
source: {topics: [orders]}
sink: {path: ./lake/orders}
ledger: ./lake/_kseg_ledger
"""
REPORT = RunReport(
    job="orders",
    run_id="r1",
    mode="incremental",
    status="done",
    ranges=[RangeReport("orders", p, 0, 10, 8, 1, 1, 0) for p in range(3)],
    rows_in=24,
    rows_out=24,
    tables=[TableReport("/lake/orders", 3, 24)],
    notes=["a run was taken up"],
    throttled={2: 0.25},
    seconds={"plan": 0.5, "total": 1.25},
)


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLIENT_SECRET", "s3cr3t-client")
    file = tmp_path / "orders.yaml"
    file.write_text(JOB)
    return file


@pytest.fixture
def facade(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Stands in for one function of the framework: answers or raises, and notes how it was called."""

    def install(name: str, answer: Any) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        module_name, function = name.rsplit(".", 1)

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            calls.append({"args": args, **kwargs})
            if isinstance(answer, BaseException):
                raise answer
            return answer(*args, **kwargs) if callable(answer) else answer

        module = types.ModuleType(module_name)
        setattr(module, function, stand_in)
        for other in ("finish", "abandon"):
            module.__dict__.setdefault(other, stand_in)
        monkeypatch.setitem(sys.modules, module_name, module)
        return calls

    return install


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


class Told:
    """A report of which the command line knows no more than its JSON."""

    def __init__(self, document: dict[str, Any], ok: bool = True) -> None:
        self.document, self.ok = document, ok

    def to_json(self) -> dict[str, Any]:
        return self.document


# ---- help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"  kseg {command}" in result.stdout


def test_the_list_of_commands_agrees_with_the_commands() -> None:
    listed = run("--help").stdout
    for name in COMMANDS:
        assert f"\n  {name} " in listed
    with click.Context(cli) as ctx:
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            assert command is not None
            assert command.name == name


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ingest", ["--dry-run", "--json", "--take-over", "--accept-group-offsets"]),
        ("backfill", ["--from", "--to", "--interval", "--mode", "--label", "--segments", "--commit-offsets"]),
        ("backfill", ["--dry-run", "--take-over", "--json"]),
        ("repair", ["--dry-run", "--finish", "--abandon", "--accept-table", "--no-verify", "--accept-source"]),
        ("bench", ["--quick", "--json"]),
    ],
)
def test_the_options_are_there(command: str, options: list[str]) -> None:
    text = run(command, "--help").stdout
    assert [option for option in options if option not in text] == []


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from kseg.jobs.cli import cli\n"
        "for args in (['--help'], ['ingest', '--help']): cli.main(args, prog_name='kseg', standalone_mode=False)\n"
        "heavy = {'pyspark', 'pyarrow', 'deltalake', 'pydantic', 'rich', 'yaml', 'kseg.client'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def test_the_version_is_told() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("kseg 0.")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ingst", "x"], "Did you mean ingest?"),
        (["zzz"], "Commands: init, ingest, plan"),
        (["ingest"], "Missing argument"),
        (["ingest", "x.yaml", "--dryrun"], "No such option"),
        (["backfill", "x.yaml", "--mode", "odd"], "'odd' is not one of"),
        (["repair", "x.yaml"], "one of --finish RUN, --abandon RUN, --accept-table TABLE, --accept-source TOPIC"),
        (["repair", "x.yaml", "--finish", "a", "--abandon", "b"], "one of --finish RUN"),
    ],
)
def test_a_wrong_command_line_is_bad_configuration(args: list[str], message: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert message in result.stderr
    as_json = run(*args, "--json")
    assert as_json.exit_code == 2
    assert message in only_json(as_json)["error"]["message"]


def test_without_arguments_help_is_shown() -> None:
    result = run()
    assert "Commands:" in result.stdout
    assert result.exit_code == 2


def test_a_broken_command_takes_no_other_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kseg.jobs.commands.doctor", None)
    result = run("doctor")
    assert result.exit_code == 1
    assert "kseg.jobs.commands.doctor" in result.stderr
    assert run("--help").exit_code == 0
    assert run("ingest", "--help").exit_code == 0


# ---- results


def only_json(result: Result) -> dict[str, Any]:
    """stdout holds one JSON object on one line."""
    assert result.stdout.endswith("}\n")
    assert result.stdout.count("\n") == 1
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def test_ingest_runs_the_job_and_prints_its_report(facade: Any, job_file: Path) -> None:
    calls = facade("kseg.etl.run.pipeline.run_ingest", REPORT)
    result = run("ingest", job_file, "--json", "--take-over")
    assert result.exit_code == 0
    assert only_json(result)["throttled"] == {"2": 0.25}
    assert only_json(result) == REPORT.to_json()
    (call,) = calls
    assert isinstance(call["args"][0], Job)
    assert (call["take_over"], call["accept_group_offsets"]) == (True, False)


def test_a_dry_run_is_a_plan(facade: Any, job_file: Path) -> None:
    calls = facade("kseg.etl.run.dry_run.plan_only", REPORT)
    assert only_json(run("ingest", job_file, "--json", "--dry-run", "--accept-group-offsets"))["run"] == "r1"
    assert calls[0]["accept_group_offsets"]


def test_a_report_is_laid_out_for_people(facade: Any, job_file: Path) -> None:
    facade("kseg.etl.run.pipeline.run_ingest", REPORT)
    result = run("ingest", job_file)
    assert result.exit_code == 0
    assert "orders: done, 24 records read, 24 rows landed in 1 table(s)" in result.stdout
    for text in ("r1", "/lake/orders", "a run was taken up", "1.250"):
        assert text in result.stdout


def test_what_is_printed_beside_the_report_does_not_reach_stdout(facade: Any, job_file: Path) -> None:
    def noisy(job: Job, progress: Any, **_: Any) -> RunReport:
        print("from user code")
        progress.phase("land")
        progress.total(100, "rows")
        progress.advance(50)
        progress.message("a line")
        return REPORT

    facade("kseg.etl.run.pipeline.run_ingest", noisy)
    result = run("ingest", job_file, "--json")
    assert only_json(result)["run"] == "r1"
    assert "from user code" in result.stderr
    assert "kseg: land …" in result.stderr
    assert "kseg: a line" in result.stderr


def test_plan_tells_the_ranges(facade: Any, job_file: Path) -> None:
    ranges = [{"topic": "orders", "partition": 0, "start": 5, "end": 25}]
    facade("kseg.etl.run.dry_run.plan_only", Told({"ranges": ranges}))
    assert "20 offsets in 1 range(s) to read" in run("plan", job_file).stdout
    assert only_json(run("plan", job_file, "--json")) == {"ranges": ranges}


def test_backfill_hands_over_what_was_asked(facade: Any, job_file: Path) -> None:
    calls = facade("kseg.etl.operations.backfill.run_backfill", REPORT)
    args = ["--from", "orders:0:5", "--from", "orders:1:0", "--to", "orders:0:9", "--to", "orders:1:3"]
    result = run("backfill", job_file, *args, "--mode", "append", "--label", "again", "--commit-offsets", "--json")
    assert result.exit_code == 0
    request = calls[0]["args"][1]
    assert [str(bound) for bound in request.from_] == ["orders:0:5", "orders:1:0"]
    assert (request.mode, request.label, request.commit_offsets) == ("append", "again", True)


def test_log_files_are_handed_over(facade: Any, job_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job_file.parent)
    calls = facade("kseg.etl.operations.backfill.run_backfill", REPORT)
    assert run("backfill", job_file, "--segments", "./data", "--segments", "s3://b/x?region=y").exit_code == 0
    assert calls[0]["args"][1].segments == (str(job_file.parent / "data"), "s3://b/x?region=y")
    report = VerifyReport("orders", [TableResult("t", "rows", 7, 0, 0)])
    calls = facade("kseg.etl.operations.verify.verify", report)
    assert run("verify", job_file, "--segments", "./data").exit_code == 0
    assert calls[0]["segments"] == ("./data",)


def test_backfill_dry_run_plans_the_same_request_and_runs_nothing(facade: Any, job_file: Path) -> None:
    runs = facade("kseg.etl.operations.backfill.run_backfill", REPORT)
    plans = facade("kseg.etl.run.dry_run.plan_only", REPORT)
    bounds = ["--from", "orders:0:10", "--to", "orders:0:20"]
    assert run("backfill", job_file, *bounds, "--dry-run").exit_code == 0
    assert run("backfill", job_file, *bounds).exit_code == 0
    assert [len(plans), len(runs)] == [1, 1]
    assert plans[0]["args"][1] == runs[0]["args"][1]


def test_backfill_tells_the_faults_of_job_and_question_at_once(facade: Any, job_file: Path) -> None:
    job_file.write_text(JOB.replace("topics", "topcs"))
    result = run("backfill", job_file, "--interval", "2026-01-01T00:00:00/2026-01-02T00:00:00Z")
    assert result.exit_code == 2
    assert "--interval" in result.stderr
    assert "has no time zone" in result.stderr
    assert "did you mean topics?" in result.stderr


@pytest.mark.parametrize("found", [0, 1])
def test_verify_says_by_its_exit_code_whether_rows_agree(facade: Any, job_file: Path, found: int) -> None:
    report = VerifyReport("orders", [TableResult("t", "rows", 7, 0, found)])
    facade("kseg.etl.operations.verify.verify", report)
    assert run("verify", job_file).exit_code == found
    result = run("verify", job_file, "--json")
    assert (result.exit_code, only_json(result)) == (found, report.to_json())


def test_repair_hands_over_the_sources(facade: Any, job_file: Path) -> None:
    calls = facade("kseg.etl.operations.accept_source.accept_source", REPORT)
    assert run("repair", job_file, "--accept-source", "t:0:7", "--accept-source", "u", "--take-over").exit_code == 0
    assert calls[0]["args"][1:] == (("t:0:7", "u"),)
    assert (calls[0]["dry_run"], calls[0]["take_over"]) == (False, True)


@pytest.mark.parametrize("word", ["finish", "abandon"])
def test_repair_hands_over_the_run(facade: Any, job_file: Path, word: str) -> None:
    calls = facade(f"kseg.etl.operations.repair.{word}", REPORT)
    assert run("repair", job_file, f"--{word}", "r7", "--dry-run").exit_code == 0
    assert calls[0]["args"][1:] == ("r7",)
    assert (calls[0]["dry_run"], calls[0]["take_over"]) == (True, False)


def test_status_starts_no_spark(facade: Any, job_file: Path) -> None:
    calls = facade(
        "kseg.etl.operations.status.status",
        Told({"job": "orders", "lag": 5, "dead_letters": {"open": 2}}),
    )
    result = run("status", job_file, "--runs", "50")
    assert result.exit_code == 0
    assert calls[0]["args"][1:] == (50,)
    assert "orders: 5 offsets behind" in result.stdout
    assert "5 offsets behind, 2 open dead letters" in result.stdout


def test_bench_prints_what_was_measured(facade: Any) -> None:
    ratios = {"kafka_to_delta_vs_spark_tuned": 3.1, "kafka_to_noop_vs_spark_tuned": 2.2}
    files = {"ratios": [{"java_null": 20.5}, {"java_null": 31.0}]}
    by_format = {
        "json": {"typed_vs_ours_raw": 0.8, "typed_vs_spark_decoded": 5.5},
        "protobuf": {"typed_vs_ours_raw": 0.9},
    }
    typed = {"ratios": by_format}
    calls = facade("kseg.jobs.bench.measuring.measure", {"ratios": ratios, "files": files, "typed": typed})
    assert only_json(run("bench", "--quick", "--json"))["ratios"] == ratios
    told = run("bench", "--section", "files", "--section", "spark").stdout
    assert "to Delta 3.1, to noop 2.2 times" in told
    assert "files 20.5 to 31.0 times as fast as DumpLogSegments" in told
    assert "typed rows of json: 5.5 times as fast as Spark's from_json, 0.8 times" in told
    assert "typed rows of protobuf: 0.9 times as fast as the same topic as bytes" in told
    quick, full = (call["args"] for call in calls)
    assert quick[0].rows < full[0].rows
    assert (quick[1], full[1]) == (SECTIONS, ("files", "spark"))


# ---- errors


class JavaError(Exception):
    """As py4j tells one: what happened stands in the second line."""

    java_exception = None

    def __str__(self) -> str:
        return "An error occurred while calling o66.load.\n: java.io.IOException: disk on fire\n\tat a.b.C(C.java:1)"


FAILURES: list[tuple[BaseException, int, list[str]]] = [
    (KsegError("odd", remedy="look"), 1, ["odd", "look"]),
    (
        ConfigurationError([Diagnostic("a.b", "wrong", "mend it", 3), Diagnostic("c", "worse")]),
        2,
        ["a.b (line 3): wrong", "mend it"],
    ),
    (
        Refused("topic-recreated", "topic orders has another id", remedy="run kseg status", topic="orders"),
        3,
        ["topic orders has another id (topic-recreated)", "topic=orders", "run kseg status"],
    ),
    (RetriableFailure("no broker", path="/lake"), 4, ["no broker", "path=/lake"]),
    (
        AnotherRunActive("busy", owner="host/7", until=datetime(2026, 1, 1, tzinfo=UTC)),
        5,
        ["busy", "owner=host/7", "2026-01-01", "--take-over"],
    ),
    (BrokerUnavailable("no route", broker="b:9092"), 4, ["no route", "broker=b:9092"]),
    (
        OffsetOutOfRange("gone", offset=5, log_start=9, high_watermark=20, topic="orders", partition=0),
        1,
        ["gone", "topic=orders", "partition=0", "offset=5"],
    ),
    (ConfigError([ConfigFault("x.y", "unknown", "remove it")]), 2, ["x.y"]),
    (OSError(28, "No space left on device", "/lake/x"), 1, ["No space left on device", "path=/lake/x"]),
    (ValueError("what is this\nsecond line"), 1, ["unexpected ValueError: what is this", "--debug"]),
    (JavaError(), 1, ["unexpected JavaError: java.io.IOException: disk on fire", "--debug"]),
    (KeyboardInterrupt(), 1, ["interrupted", "an unfinished run continues"]),
]


@pytest.mark.parametrize(("error", "code", "words"), FAILURES, ids=lambda v: type(v).__name__)
def test_an_error_is_told_in_words_and_by_its_exit_code(
    facade: Any, job_file: Path, error: BaseException, code: int, words: list[str]
) -> None:
    facade("kseg.etl.run.pipeline.run_ingest", error)
    result = run("ingest", job_file)
    assert result.exit_code == code
    assert result.stdout == ""
    assert [word for word in words if word not in result.stderr] == []
    assert "Traceback" not in result.stderr
    as_json = run("ingest", job_file, "--json")
    document = only_json(as_json)
    assert as_json.exit_code == document["exit_code"] == code
    assert set(document["error"]) >= {"kind", "message", "address", "cause", "remedy", "retriable"}
    assert document["error"]["retriable"] is (code in (4, 5))


def test_debug_adds_the_traceback(facade: Any, job_file: Path) -> None:
    facade("kseg.etl.run.pipeline.run_ingest", KsegError("odd"))
    assert "Traceback" in run("ingest", job_file, "--debug").stderr
    result = run("ingest", job_file, "--debug", "--json")
    assert "Traceback" in result.stderr
    assert only_json(result)["exit_code"] == 1


def test_the_cause_is_told(facade: Any, job_file: Path) -> None:
    error = RetriableFailure("storage away")
    error.__cause__ = OSError("connection reset\nmore")
    facade("kseg.etl.run.pipeline.run_ingest", error)
    assert "cause: OSError: connection reset" in run("ingest", job_file).stderr


def test_a_bad_job_file_is_told_fault_by_fault(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("version: 1\nname: x\nsorce: {}\n")
    result = run("plan", file)
    assert result.exit_code == 2
    assert "sorce (line 3): is an unknown key" in result.stderr
    assert "do: did you mean source?" in result.stderr
    faults = only_json(run("plan", file, "--json"))["error"]["faults"]
    assert {"path": "sorce", "message": "is an unknown key", "remedy": "did you mean source?", "line": 3} in faults
    assert run("plan", tmp_path / "none.yaml").exit_code == 2


@pytest.mark.parametrize("extra", [[], ["--json"], ["--debug"], ["--json", "--debug"]])
def test_a_secret_in_a_foreign_message_is_masked(facade: Any, job_file: Path, extra: list[str]) -> None:
    cause = RuntimeError("login of s3cr3t-client failed")
    error = RetriableFailure("away: s3cr3t-client", path="s3cr3t-client")
    error.__cause__ = cause
    facade("kseg.etl.run.pipeline.run_ingest", error)
    result = run("ingest", job_file, *extra)
    assert "***" in result.output
    assert "s3cr3t-client" not in result.output


def test_a_refused_principal_is_told_which_acl_to_add() -> None:
    failure = failure_of(error_from_code(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch", group="g"))
    assert failure.exit_code == 1
    assert failure.document["address"] == {"group": "g"}
    assert failure.document["remedy"].startswith("allow it: kafka-acls --add")
    assert "--operation Describe --group g" in failure.document["remedy"]

"""What a person and a program see of an error: the error, its address, what to do; all else is in a log file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kseg.client.errors import AuthenticationFailed, BrokerUnavailable, UnknownTopic
from kseg.client.registry.errors import RegistryRejected
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Diagnostic, KsegError
from kseg.etl.refusals.kinds import KINDS, LATER
from kseg.etl.source.errors import ArrowStepError, PythonStepError, WorkerError
from kseg.etl.spark.job_session import JobSession
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.jobs.invocation.execution import execute
from kseg.jobs.invocation.failures import failure_of, print_failure
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.report.options import ReportOptions
from kseg.segment_reader.errors import BatchAddress, CorruptRecordBatch, UnrepresentableRecord, UnsupportedMagic
from kseg.segment_reader.errors import Fault as Damage

FRAMES = "\n".join(f"\tat org.apache.spark.Frame{n}.run(Frame.scala:{n})" for n in range(100))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Any) -> Path:
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path))
    monkeypatch.delenv("KSEG_LOGS")
    return tmp_path


def with_note(error: Exception, note: str) -> Exception:
    error.add_note(note)
    return error


def logs(cache: Path) -> list[Path]:
    return sorted((cache / "logs").glob("*")) if (cache / "logs").exists() else []


def from_worker(error: Exception) -> Exception:
    """As the driver gets it: from the text of Spark's exception, in which it is one line of a hundred."""
    transport = ErrorTransport()

    def work() -> None:
        with transport.packing():
            raise error from ZeroDivisionError("by zero")

    def run() -> None:
        try:
            work()
        except Exception as packed:
            raise RuntimeError(
                f"An error occurred while calling o99.collect.\n: Job aborted\n{packed}\n{FRAMES}"
            ) from None

    try:
        with transport.opening():
            run()
    except Exception as opened:
        return opened
    raise AssertionError


def shown(error: Exception, capsys: Any, **options: Any) -> tuple[int, str, str]:
    def work(_: Invocation) -> Result:
        raise error

    code = execute(Invocation(command="ingest", progress_form="none", **options), work)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


WORKERS = [
    ArrowStepError("steps:bad raised ValueError: no number", remedy="mend it", topic="t", partition=0, offset=5),
    CorruptRecordBatch(BatchAddress("t", 0, 100, 1086), "the checksum does not match the bytes"),
    WorkerError("ValueError: " + "\n".join(f"line {n}" for n in range(200))),
]


@pytest.mark.parametrize("error", WORKERS, ids=lambda error: type(error).__name__)
def test_a_workers_error_is_shown_in_less_than_ten_lines_and_the_rest_is_in_the_log(
    cache: Path, capsys: Any, error: Exception
):
    code, _, err = shown(from_worker(error), capsys)
    assert code == 1
    lines = err.splitlines()
    assert len(lines) < 10
    assert all(len(line) < 400 for line in lines)
    assert lines[0].startswith(f"error: {str(error).splitlines()[0]}"[:30])
    assert "Traceback" not in err
    assert "org.apache.spark" not in err
    [log] = logs(cache)
    assert lines[-1] == f"log: {log}"
    text = log.read_text()
    assert "in work" in text  # the worker's traceback
    assert "org.apache.spark.Frame99" in text
    assert "by zero" in text
    assert "[kseg-error …]" in text
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_batch_that_cannot_be_read_has_its_address_and_what_to_do(capsys: Any):
    _, _, err = shown(from_worker(WORKERS[1]), capsys)
    assert "where: topic=t, partition=0, base_offset=100, position=1086" in err
    assert "do: `kseg fsck`" in err


def test_a_record_that_is_refused_names_both_settings_that_let_the_run_pass(capsys: Any):
    refused = UnrepresentableRecord(BatchAddress("t", 0, 0, 0), Damage.HEADER_UTF8.reason, offset=3)
    _, _, err = shown(from_worker(refused), capsys)
    assert "source.header_names: replace" in err
    assert "source.on_corruption: quarantine leaves this one record out" in err  # its batch lands


def test_what_may_pass_says_what_to_do(capsys: Any):
    code, _, err = shown(BrokerUnavailable("no route", broker="b:9092"), capsys)
    assert (code, err.splitlines()[-2][:26]) == (4, "do: run the same command a")


def test_the_document_is_short_too_and_names_the_log(cache: Path, capsys: Any):
    _, out, err = shown(from_worker(WORKERS[2]), capsys, as_json=True)
    document = json.loads(out)
    assert document["error"]["message"].count("\n") < 5
    assert document["log"] == str(logs(cache)[0])
    assert document["error"]["kind"] == "WorkerError"
    assert err == ""


def test_a_login_that_is_rejected_is_bad_configuration(capsys: Any):
    code, _, err = shown(AuthenticationFailed("SASL PLAIN: wrong password", broker="b:9092"), capsys)
    assert (code, "do: correct security.protocol" in err) == (2, True)
    code, _, err = shown(AuthenticationFailed("the token endpoint is away", retriable=True), capsys)
    assert (code, "do: run the same command again" in err) == (4, True)


def test_a_setting_that_a_second_fact_proves_wrong_is_bad_configuration_with_its_remedy(capsys: Any):
    error = BrokerUnavailable("cannot resolve kafka-internal", broker="1 (kafka-internal:9092)")
    assert failure_of(error).exit_code == 4
    error.blame("advertised.listeners", "set advertised.listeners of the brokers")
    failure = failure_of(error, runs=True)
    print_failure(failure, debug=False)
    assert (failure.exit_code, failure.document["retriable"]) == (2, False)
    assert "do: set advertised.listeners of the brokers\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (BrokerUnavailable("none"), 4, LATER),
        (BrokerUnavailable("none", retriable=False), 1, None),
        (UnknownTopic("none"), 1, None),
        (UnknownTopic("not yet", retriable=True), 4, LATER),
        (AuthenticationFailed("no"), 2, KINDS["AuthenticationFailed"].printed),
        (RegistryRejected("no"), 2, None),
        (UnsupportedMagic(BatchAddress("t", 0, 3, 99), "9"), 1, KINDS["UnsupportedMagic"].printed),
    ],
)
def test_an_error_of_the_client_or_the_decoder_has_exit_code_and_remedy_of_the_catalogue(
    error: Exception, code: int, remedy: str | None
):
    """An instance that knows whether a retry may help decides before its class."""
    failure = failure_of(error)
    assert (failure.exit_code, failure.document["remedy"]) == (code, remedy)


def test_a_step_that_raised_has_a_log(cache: Path, capsys: Any):
    _, _, err = shown(PythonStepError("steps:f raised KeyError: 'x'", step="transform[0].python", line=4), capsys)
    assert "where: step=transform[0].python, line=4" in err
    assert err.splitlines()[-1] == f"log: {logs(cache)[0]}"


def test_the_page_of_a_failed_run_names_the_log(cache: Path, capsys: Any, tmp_path: Path):
    options = ReportOptions(report=str(tmp_path / "page.html"))
    _, _, err = shown(KeyError("what"), capsys, report=options)
    [log] = logs(cache)
    assert f"log: {log}" in err
    assert str(log) in (tmp_path / "page.html").read_text()


def test_debug_prints_what_else_is_in_the_log(cache: Path, capsys: Any):
    _, _, err = shown(from_worker(WORKERS[0]), capsys, debug=True)
    assert "in work" in err
    assert "org.apache.spark.Frame99" in err
    assert logs(cache) == []


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError.of("sink.path", "is missing"),
        KsegError("odd"),
        OSError(28, "No space left", "/lake"),
        with_note(BrokerUnavailable("no route", broker="b:9092"), "gave up at try 8"),
    ],
)
def test_an_error_that_is_shown_whole_has_no_log(cache: Path, capsys: Any, error: Exception):
    _, _, err = shown(error, capsys)
    assert "log:" not in err
    assert logs(cache) == []


def test_an_unexpected_error_has_a_log(cache: Path, capsys: Any):
    _, _, err = shown(KeyError("what"), capsys)
    assert "unexpected KeyError" in err
    assert "in work" in logs(cache)[0].read_text()


def test_secrets_are_not_in_the_log(cache: Path, capsys: Any, monkeypatch: Any):
    monkeypatch.setattr(REDACTOR, "secrets", {"s3cr3t"})
    shown(KeyError("the password is s3cr3t"), capsys)
    assert "s3cr3t" not in logs(cache)[0].read_text()


def test_logs_may_have_a_folder_of_their_own(cache: Path, capsys: Any, monkeypatch: Any, tmp_path: Path):
    monkeypatch.setenv("KSEG_LOGS", str(tmp_path / "elsewhere"))
    shown(KeyError("what"), capsys)
    assert logs(cache) == []
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def test_where_the_cache_is_read_only_the_log_is_a_temporary_file(
    cache: Path, capsys: Any, monkeypatch: Any, tmp_path: Path
):
    monkeypatch.setenv("KSEG_CACHE", "/proc/kseg")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _, _, err = shown(KeyError("what"), capsys)
    assert Path(err.splitlines()[-1].removeprefix("log: ")).parent == tmp_path


# -- Spark's own exceptions

IN_PYTHON = f"""An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/spark/worker.py", line 1, in main
    process()
  File "/jobs/steps.py", line 9, in clean
    return str(int(v))
               ^^^^^^
ValueError: invalid literal: 'x'
 SQLSTATE: 38000
{FRAMES}"""


def sparks(text: str) -> Exception:
    from pyspark.errors import PySparkException

    return PySparkException(text)


def through_session(error: Exception, job: Job) -> Exception:
    try:
        with JobSession(job).typed_errors():
            raise error
    except Exception as typed:
        return typed
    raise AssertionError


@pytest.fixture
def job(tmp_path: Path) -> Job:
    from kseg.etl.config.load import load_job

    return load_job(
        {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "h:1"},
            "source": {"topics": ["t"]},
            "sink": {"path": str(tmp_path / "table")},
            "ledger": str(tmp_path / "ledger"),
        },
        env={},
    )


@pytest.mark.parametrize(
    ("text", "message", "address"),
    [
        (
            IN_PYTHON,
            "Python code failed in Spark: ValueError: invalid literal: 'x'",
            {"file": "/jobs/steps.py", "line": 9, "function": "clean"},
        ),
        (
            f"[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\nSELECT …\n{FRAMES}",
            "Spark failed: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
            {},
        ),
        (f"disk on fire\n{FRAMES}", "Spark failed: disk on fire", {}),
    ],
)
def test_an_exception_of_sparks_is_one_line_and_its_place(
    cache: Path, capsys: Any, job: Job, text: str, message: str, address: dict[str, Any]
):
    code, out, err = shown(through_session(sparks(text), job), capsys, as_json=True)
    document = json.loads(out)
    assert (code, document["error"]["message"], document["error"]["address"]) == (1, message, address)
    assert document["error"]["cause"] is None
    assert "org.apache.spark.Frame99" in logs(cache)[0].read_text()
    assert "org.apache" not in err


def test_what_is_no_exception_of_sparks_passes_as_it_is(job: Job):
    error = KeyError("x")
    assert through_session(error, job) is error


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            ConfigurationError([Diagnostic("", "cannot be read: No such file", "give the path")], file="no.yaml"),
            ["error: 1 error in the configuration", "where: file=no.yaml", "  no.yaml: cannot be read: No such file"],
        ),
        (
            ConfigurationError([Diagnostic("", "is not YAML", None, 4)], file="job.yaml"),
            ["error: 1 error in the configuration", "where: file=job.yaml", "  line 4: is not YAML"],
        ),
        (ConfigurationError("nothing to draw", remedy="measure"), ["error: nothing to draw", "    do: measure"]),
    ],
)
def test_a_fault_without_a_key_has_no_place_of_its_own(capsys: Any, error: ConfigurationError, lines: list[str]):
    """It had the place `(document)`, also where there was none."""
    print_failure(failure_of(error), debug=False)
    assert capsys.readouterr().err.splitlines()[: len(lines)] == lines

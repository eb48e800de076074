"""A process that runs jobs for the tests, and that a test can have killed or suspended at any step.

One JSON command a line on stdin, one JSON answer a line on stdout; the end of stdin ends it. It is forked (nursery.py).

A command: `job` (path of a job file), `do` (`ingest`, `drain`, `backfill`, `redrive` or `kseg`), `request` (of
`backfill` and `redrive`), `arguments` (of `kseg`: a command line without it), `take_over`, `accept_group_offsets`, and
`at` with `signal`: at that step the process sends this signal to itself; `time` says when it comes to it (1: at first,
the default). SIGKILL and SIGSTOP cannot be caught, so nothing is
cleaned up: that is the point. `go` names a file to wait for before the work begins. `environment`: variables for it and
its Spark's workers. `python_path`: a folder whose modules it imports. `clock`: seconds by which its clock is ahead
(`clocks.py`). A command line has no steps to stop at.

An answer: `exit` (the exit code that `kseg` would end with), `report` or `error`, and `steps` (all that were observed).
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pyspark import SparkContext

import clocks
import shared_jvm
from kseg.etl.config.load import load_job
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.redrive import run_redrive
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.drain import run_drain
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.broker.java import use_java
from kseg.jobs.cli import cli
from kseg.jobs.invocation.failures import failure_of


def short(step: str) -> str:
    """`land:/somewhere/lake/orders:before` as `land:orders:before`: the same wherever the table lies."""
    first, _, rest = step.partition(":")
    table, _, last = rest.rpartition(":")
    return ":".join(part for part in (first, Path(table).name, last) if part)


def set_up(command: dict[str, Any]) -> None:
    if command.get("clock") and not clocks.move(command["clock"]):
        raise RuntimeError("this process has no clock that can be moved (harness/clocks.py)")
    os.environ.update(command.get("environment") or {})
    context = SparkContext._active_spark_context
    if context is not None:  # its workers' variables are its own
        context.environment.update(command.get("environment") or {})
    if command.get("python_path"):
        sys.path.insert(0, command["python_path"])


def carry_out(command: dict[str, Any]) -> dict[str, Any]:
    steps: list[str] = []
    set_up(command)

    def observe(step: str) -> None:
        steps.append(short(step))
        if steps[-1] == command.get("at") and steps.count(steps[-1]) == command.get("time", 1):
            os.kill(os.getpid(), signal.Signals[command["signal"]])

    if command.get("do") == "kseg":
        return carry_out_line(command["arguments"])
    job = load_job(command["job"])
    take_over = command.get("take_over", False)
    try:
        if command.get("do", "ingest") == "backfill":
            request = BackfillRequest.parse(**command["request"])
            report: Any = run_backfill(job, request, take_over=take_over, observe=observe)
        elif command.get("do") == "redrive":
            report = run_redrive(job, take_over=take_over, observe=observe, **command.get("request", {}))
        elif command.get("do") == "drain":
            report = run_drain(job, take_over=take_over, observe=observe)
        else:
            accept = command.get("accept_group_offsets", False)
            report = run_ingest(job, take_over=take_over, accept_group_offsets=accept, observe=observe)
    except Exception as error:
        failure = failure_of(error)
        return {"exit": failure.exit_code, "error": failure.to_json(), "trace": failure.trace, "steps": steps}
    return {"exit": 0, "report": report.to_json(), "steps": steps}


def carry_out_line(arguments: list[str]) -> dict[str, Any]:
    """`kseg ARGUMENTS --json` in this process; what it prints is the report, or the error."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = cli.main([*arguments, "--json"], prog_name="kseg", standalone_mode=False)
    document = json.loads(printed.getvalue() or "{}")
    return {"exit": code, "error" if "error" in document else "report": document, "steps": []}


def command_line(arguments: list[str]) -> int:
    """`kseg ARGUMENTS` as a process of its own, which reads and writes what its caller does; its exit code."""
    sys.argv = ["kseg", *arguments]
    if shared_jvm.given():
        use_java()
        # That JVM's environment is not the command's: its workers get what stores are asked with.
        context = shared_jvm.adopt()
        context.environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    return int(cli.main(arguments, prog_name="kseg", standalone_mode=False))


def main() -> None:
    use_java()
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what Spark, the JVM and its workers print
        if shared_jvm.given():
            shared_jvm.adopt()
        for line in sys.stdin:
            command = json.loads(line)
            print(json.dumps("ready"), file=answers, flush=True)
            while command.get("go") and not Path(command["go"]).exists():
                time.sleep(0.001)
            print(json.dumps(carry_out(command)), file=answers, flush=True)

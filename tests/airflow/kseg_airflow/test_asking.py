"""Questions to `kseg` that never become one: what is told names what is missing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from airflow_process import wait_for
from kseg_airflow import asking
from kseg_airflow.asking import ask, ask_async
from kseg_airflow.compat import AirflowFailException
from kseg_airflow.exit_codes import RETRIABLE
from kseg_airflow.hooks import KsegHook
from kseg_airflow.outcomes import NOT_EXECUTABLE, NOT_FOUND


def test_a_missing_command_and_a_missing_folder_are_told_apart(tmp_path: Path) -> None:
    missing = ask([str(tmp_path / "kseg"), "status"])
    assert missing.exit_code == NOT_FOUND
    assert str(tmp_path / "kseg") in str(missing.detail)
    nowhere = ask(["/bin/echo", "{}"], cwd=str(tmp_path / "nowhere"))
    assert nowhere.exit_code == NOT_FOUND
    assert str(tmp_path / "nowhere") in str(nowhere.detail)
    assert ask(["/bin/echo", "{}"], cwd=str(tmp_path)).document == {}


def test_a_file_that_is_no_program_fails_for_good(tmp_path: Path) -> None:
    (tmp_path / "kseg").write_text("#!/bin/sh\n")
    assert ask([str(tmp_path / "kseg")]).exit_code == NOT_EXECUTABLE
    with pytest.raises(AirflowFailException, match="cannot be executed"):
        KsegHook(kseg=str(tmp_path / "kseg")).status("orders.yaml")


def program(folder: Path, text: str) -> str:
    """A program that prints the text and exits with 3."""
    path = folder / "kseg"
    path.write_text(f"#!/bin/sh\necho '{text}'\nexit 3\n")
    path.chmod(0o755)
    return str(path)


def test_the_status_of_a_job_that_needs_a_person_is_an_answer(tmp_path: Path) -> None:
    kseg = program(tmp_path, '{"runs": [], "problems": ["a run failed"]}')
    assert KsegHook(kseg=kseg).status("orders.yaml") == {"runs": [], "problems": ["a run failed"]}
    with pytest.raises(AirflowFailException):
        KsegHook(kseg=kseg).run("plan", "orders.yaml")


def test_a_refused_status_fails_for_good(tmp_path: Path) -> None:
    kseg = program(tmp_path, '{"error": {"message": "not this ledger"}, "exit_code": 3}')
    with pytest.raises(AirflowFailException, match="not this ledger"):
        KsegHook(kseg=kseg).status("orders.yaml")


SECRET = {"sasl.password": "hunter2 =#"}
#: `kseg … --command-config FILE`: answers with the file's text.
READS = 'printf \'{"read": "%s"}\' "$(cat "$3")"'


def test_the_properties_reach_a_command(tmp_path: Path) -> None:
    kseg = tmp_path / "kseg"
    kseg.write_text(f"#!/bin/sh\n{READS}\n")
    kseg.chmod(0o755)
    read = {"read": "sasl.password=hunter2 =#"}
    assert ask([str(kseg), "status"], properties=SECRET).document == read
    assert asyncio.run(ask_async([str(kseg), "status"], properties=SECRET)).document == read


@pytest.mark.parametrize("ask_by", ["ask(*asked, **more)", "asyncio.run(ask_async(*asked, **more))"])
def test_a_process_that_is_killed_while_it_asks_leaves_no_secret(tmp_path: Path, ask_by: str) -> None:
    """Its folder with the password lay in the temporary folder until somebody deleted it."""
    kseg = tmp_path / "kseg"
    read = f'cat "$3" >/dev/null\necho $$ >{tmp_path}/part\nmv {tmp_path}/part {tmp_path}/asked'
    kseg.write_text(f"#!/bin/sh\n{read}\nexec sleep 60\n")
    kseg.chmod(0o755)
    code = f"""
import asyncio
from kseg_airflow.asking import ask, ask_async
asked, more = [[{str(kseg)!r}, "status"]], dict(properties={SECRET!r})
{ask_by}
"""
    path = os.pathsep.join(p for p in sys.path if p)
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen([sys.executable, "-c", code], env=env)
    wait_for((tmp_path / "asked").exists, "the command reads its properties")
    process.kill()
    process.wait(60)
    try:
        left = [path for path in (tmp_path / "tmp").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
        assert left == []
    finally:
        os.kill(int((tmp_path / "asked").read_text()), signal.SIGKILL)


def test_a_triggerer_asks_many_at_once_without_threads_and_a_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six sensors of a dead broker held all threads that triggers share, for five minutes."""
    monkeypatch.setattr(asking, "AT_ONCE", 3)
    kseg = tmp_path / "kseg"
    kseg.write_text(f"#!/bin/sh\necho >>{tmp_path}/begun\nread line <{tmp_path}/go\necho '{{}}'\n")
    kseg.chmod(0o755)
    os.mkfifo(tmp_path / "go")
    begun = tmp_path / "begun"

    async def ask_all() -> None:
        threads = threading.active_count()
        asked = [asyncio.create_task(ask_async([str(kseg), "interval"])) for _ in range(10)]
        while not begun.exists() or len(begun.read_text()) < 3:  # of processes
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(begun.read_text()) == 3
        # Python 3.11 waits for each child in a thread of its own, none of which is the pool's.
        assert threading.active_count() <= threads + 3
        for task in asked[:5]:
            task.cancel()
        with (tmp_path / "go").open("w") as file:  # whoever still waits reads on
            file.write("\n" * 10)
            file.flush()
            answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True] * 5 + [False] * 5

    asyncio.run(ask_all())


def test_a_command_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    kseg = tmp_path / "kseg"
    kseg.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    kseg.chmod(0o755)
    outcome = asyncio.run(ask_async([str(kseg), "interval"], timeout=1))
    assert (outcome.exit_code, outcome.detail) == (RETRIABLE, "no response within 1 s")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert asyncio.run(ask_async([str(tmp_path / "missing")])).exit_code == NOT_FOUND

"""What a local driver is handed, and what is left of it wherever it lands."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from airflow_process import wait_for
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.processes import session_members
from kseg_airflow.submission import Submission
from kseg_airflow.submit.local import submit


def test_the_connections_properties_reach_the_driver_and_lie_in_no_file(tmp_path: Path) -> None:
    """Killed with its shell, on a worker that never came back, a driver left kafka.properties for as long as a day."""
    program = tmp_path / "kseg"
    program.write_text(
        f'#!/bin/sh\nfor file; do :; done\n[ "$(cat "$file")" = "sasl.password=hunter2" ] || exit 9\n'
        f"[ $KSEG_DRIVER = ab12 ] || exit 8\ntouch {tmp_path}/read\nexec sleep 600\n"
    )
    program.chmod(0o755)
    folder = tmp_path / "task" / "try-1"
    folder.mkdir(parents=True)
    driver = submit(
        Submission(["ingest", "j"], folder, str(program), properties={"sasl.password": "hunter2"}, mark="ab12")
    )
    assert isinstance(driver, LocalDriver)
    try:
        wait_for(lambda: (tmp_path / "read").exists() or driver.poll(), "the driver reads its properties")
        assert driver.poll() is None
    finally:
        for process in session_members(driver.session):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    wait_for(lambda: not session_members(driver.session), "the driver's end")
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != program]
    assert {"driver.log", "read"} <= {path.name for path in files}
    assert [path for path in files if b"hunter2" in path.read_bytes()] == []

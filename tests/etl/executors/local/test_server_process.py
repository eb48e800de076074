"""The server process ends when its driver has no use for it, and without a wait where nobody has used it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.executors.local import server_process
from kseg.etl.executors.local.server_process import ServerProcess

SERVER = """
import pathlib, socket, sys
control = socket.socket(fileno=int(sys.argv[1]))
while control.recv(1):
    pass
pathlib.Path({ended!r}).touch()
"""
"""In place of the server: it ends as the server does once its workers have ended."""


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Exists once the process has ended by itself."""
    ended = tmp_path / "ended"
    monkeypatch.setattr(server_process, "_START", SERVER.format(ended=str(ended)))
    monkeypatch.setattr(server_process, "_END_SECONDS", 300)
    return ended


def test_a_process_without_workers_is_not_waited_for(ended: Path) -> None:
    ServerProcess().close()
    assert not ended.exists()


def test_a_process_with_workers_ends_by_itself(ended: Path) -> None:
    server = ServerProcess()
    with server.fork():
        server.close()
    assert ended.exists()

"""A holder that was a process of this machine and has ended is known to be dead; of no other is that ever said."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kseg.etl.ledger import holder_process
from kseg.etl.ledger.holder_process import known_dead
from kseg.etl.ledger.lease import owner_name

PRINT_OWNER = "from kseg.etl.ledger.lease import owner_name; print(owner_name(), flush=True); input()"


@pytest.fixture
def process():
    child = subprocess.Popen(
        [sys.executable, "-c", PRINT_OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield child
    child.kill()
    child.communicate()


def test_a_process_is_known_to_be_dead_once_it_has_ended(process):
    owner = process.stdout.readline().strip()
    assert not known_dead(owner)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie: nobody has asked for its status yet
    assert known_dead(owner)
    process.wait()
    assert known_dead(owner)


def test_a_process_id_that_another_process_has_now_is_not_the_holders():
    host, pid, rest = owner_name().split(":")
    token, started, place = rest.split(".")
    assert not known_dead(f"{host}:{pid}:{rest}")
    assert known_dead(f"{host}:{pid}:{token}.{int(started) - 1}.{place}")


@pytest.mark.parametrize("name", ["host:1:ab12cd34", "host:999999999:ab12cd34.5.00000000", "me", ""])
def test_of_holders_elsewhere_nothing_is_known(name):
    assert not known_dead(name)


def test_where_there_is_no_proc_nothing_is_known(monkeypatch, tmp_path):
    owner = owner_name()
    monkeypatch.setattr(holder_process, "_PROC", tmp_path)
    assert holder_process.process_mark() == ""
    assert not known_dead(owner.replace(f":{os.getpid()}:", ":999999999:"))

"""A process that has everything imported, and forks children that run jobs (`child.py`).

    python nursery.py SOCKET     the number of a socket that is inherited; its end ends it

Imports are most of a short life: three seconds of processor time, where a run takes one. So they are done once, and
every child begins with them. It is a process of its own in everything else: what it opens, it opens itself.

A request is one datagram: JSON `{"environment": {…}}` with three file descriptors (stdin, stdout, stderr). With
`arguments` and `folder` the child is the command `kseg ARGUMENTS` in that folder, and `environment` is all of its own.
Told are, one datagram each: `{"born": pid}` for every request, in their order, and `{"pid": pid, "status": status}` (as
of waitpid) whenever a child has stopped or ended.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """A suspended process does not notice that its test is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def child_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("child", Path(__file__).with_name("child.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tell(channel: socket.socket, **event: Any) -> None:
    channel.send(json.dumps(event).encode())


def be_a_child(child: ModuleType, request: dict[str, Any], files: list[int]) -> None:
    """Never returns."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for wanted, given in enumerate(files):
            os.dup2(given, wanted)
        os.closerange(3, 256)
        die_with_parent()
        if "arguments" in request:
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            code = child.command_line(request["arguments"])
        else:
            os.environ.update(request["environment"])
            child.main()
            code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(channel: socket.socket) -> None:
    child = child_module()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(channel, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is channel:
                data, files, _, _ = socket.recv_fds(channel, 1 << 18, 3)
                if not data:
                    return
                pid = os.fork()
                if pid == 0:
                    be_a_child(child, json.loads(data), files)
                for file in files:
                    os.close(file)
                tell(channel, born=pid)
            else:
                os.read(woken, 1024)
                tell_of_children(channel)


def tell_of_children(channel: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        tell(channel, pid=pid, status=status)


if __name__ == "__main__":
    die_with_parent()
    serve(socket.socket(fileno=int(sys.argv[1])))

"""A worker of the local executor: runs packs, one at a time, that the driver names over a socket.

    driver ──►  {"path": [module search path], "token": "<of the read's ErrorTransport>"}
    driver ──►  (PackPlan, Write), pickled
    driver ──►  {"pack": 3, "id": 17, "number": 0}                   an attempt at a pack
    worker ──►  {"tasks": [5], "attempt": 17, "range_results": […], "outputs": true}, then an Arrow stream
    worker ──►  {"done": true}  or  {"error": "<a packed error, see etl.tasks.error_transport>"}

What a worker returns is data, never a pickle. A worker ends when the driver closes the socket or ends itself, also in
the middle of a pack.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import socket
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from kseg.etl.tasks.error_transport import ErrorTransport, TransportedError

_CLOSED: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_PAUSE_SECONDS: Final = 0.1


def serve(driver: socket.socket) -> NoReturn:
    """Run packs until the driver closes the socket. Never returns: the process ends."""
    _keep_from_children(driver)
    _end_with(driver.fileno())
    code = 1
    try:
        _serve(Connection(driver.detach()))
        code = 0
    except (EOFError, ConnectionError):
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(driver: Connection) -> None:
    from kseg.etl.tasks.packs import AttemptNumbers, land_packs

    read = json.loads(driver.recv_bytes())
    sys.path[:] = read["path"]
    transport, pickled = ErrorTransport(read["token"]), driver.recv_bytes()
    while True:
        order = json.loads(driver.recv_bytes())
        try:
            with transport.packing():  # a module of the user's may be missing
                plan, write = pickle.loads(pickled)
            for output in land_packs(plan, write, [order["pack"]], AttemptNumbers(order["id"], order["number"])):
                fields = output._asdict()
                _send(driver, fields | {"outputs": output.outputs is not None})
                if output.outputs is not None:
                    driver.send_bytes(output.outputs)
            _send(driver, {"done": True})
        except TransportedError as error:
            _send(driver, {"error": str(error)})


def _send(driver: Connection, message: dict[str, Any]) -> None:
    driver.send_bytes(json.dumps(message).encode())


def _keep_from_children(driver: socket.socket) -> None:
    """Keep the socket out of processes that a step starts: while one of them had it open, the driver would not notice
    the end of this process."""
    fileno = driver.fileno()
    driver.set_inheritable(False)  # of programs; a socket that was received is inheritable
    os.register_at_fork(after_in_child=lambda: os.close(fileno))


def _end_with(fileno: int) -> None:
    """End this process when the other end of the socket is closed."""

    def watch() -> None:
        closed = select.poll()
        closed.register(fileno, select.POLLHUP)  # macOS reports it only if it is asked for
        while not any(events & _CLOSED for _, events in closed.poll()):
            time.sleep(_PAUSE_SECONDS)  # macOS may return for other reasons
        os._exit(1)

    threading.Thread(target=watch, name="kseg-driver-watch", daemon=True).start()

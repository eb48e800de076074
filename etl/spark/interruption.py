"""A signal's exception in the middle of a call to the JVM: it leaves Spark's functions at once, and as what it is.

py4j has one connection for each thread. An exception that a signal's handler raises while the thread reads an answer
leaves the connection with that answer still to come. The thread's next call uses it again: pyspark makes one on the
way out of `RDD.collect`, which waits until the first call has ended (a Spark job of hours), and takes the answer to
that for its own. An error among these answers hides the exception. So here

- the interrupted connection is closed, and the thread's next call gets another;
- a call that fails while the exception unwinds raises that exception again: the JVM may have been stopped as well.

py4j closes the connection itself for a KeyboardInterrupt, and for no other exception.
https://github.com/py4j/py4j/blob/0.10.9.9/py4j-python/src/py4j/clientserver.py (JavaClient._get_connection)
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


def leave_at_once(context: SparkContext) -> None:
    """Have signals interrupt calls to this context's JVM. Once is enough for a process; again changes nothing."""
    gateway: Any = context._gateway
    client = gateway._gateway_client if gateway is not None else None
    if client is not None and not isinstance(vars(client).get("send_command"), _Interruptible):
        client.send_command = _Interruptible(client)


@contextmanager
def own_interrupt() -> Iterator[None]:
    """Around the start of Spark, which sets a handler of its own for SIGINT: it asks the JVM to cancel all jobs, by the
    connection that the interrupted thread waits on. A program that has a handler keeps it."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        changed = before not in (None, signal.default_int_handler, signal.getsignal(signal.SIGINT))
        if changed and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


class _Interruptible:
    """In place of `JavaClient.send_command`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._send = client.send_command

    def __call__(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        unwinding = sys.exc_info()[1]
        leaving = None if isinstance(unwinding, Exception | GeneratorExit) else unwinding
        try:
            answer = self._send(command, retry, binary)
        except Exception:
            if leaving is not None:
                raise leaving from leaving.__cause__
            raise
        except BaseException:
            self._give_up_connection()
            raise
        if leaving is not None and _is_error(answer):
            raise leaving from leaving.__cause__
        return answer

    def _give_up_connection(self) -> None:
        find = getattr(self._client, "get_thread_connection", None)  # without pinned threads there is none
        connection = find() if find is not None else None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _is_error(answer: Any) -> bool:
    from py4j.protocol import is_error  # type: ignore[import-untyped]

    return bool(is_error(answer)[0]) if isinstance(answer, str) else False

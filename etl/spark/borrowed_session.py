"""The session that a process had before a job: the job's settings hold in it only as long as the job works.

Programs and notebooks go on in their session afterwards, and their own queries must not find another time zone there.
Jobs of several threads share it: what it had is set again when the last of them has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

_LOCK = threading.Lock()
_BEFORE: dict[str, str | None] = {}
_users = 0


def borrow_session(keys: Iterable[str]) -> Callable[[], None]:
    """Remember what the process's session has for these settings; to be called before they are set.

    Returns what sets them again, to be called once. Where there is no session yet, the one that the job starts keeps
    the job's settings.
    """
    from pyspark.sql import SparkSession

    # The one that `builder.getOrCreate` gives, in whatever thread.
    session: Any = getattr(SparkSession, "_instantiatedSession", None)
    if session is None or session._sc._jsc is None:
        return lambda: None
    global _users
    with _LOCK:
        _users += 1
        for key in keys:
            if key not in _BEFORE:
                _BEFORE[key] = session.conf.get(key, None)

    def give_back() -> None:
        global _users
        with _LOCK:
            _users -= 1
            if _users:
                return
            with suppress(Exception):  # it was stopped meanwhile
                for key, value in _BEFORE.items():
                    if session.conf.isModifiable(key):
                        session.conf.unset(key) if value is None else session.conf.set(key, value)
            _BEFORE.clear()

    return give_back

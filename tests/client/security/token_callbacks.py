"""Token callbacks that tests name as `module:function`."""

from __future__ import annotations

import os

from kseg.client.security import Token

calls: list[int] = []


def token() -> Token:
    calls.append(os.getpid())
    return Token.of("callback-token", expires_at=None)


def failing() -> str:
    raise RuntimeError("hunter2")


def wrong() -> object:
    return 7


not_a_function = 7

"""`${NAME}` and `${file:/path}` in properties, filled in where they are used: in the driver, or in an executor.

A module of its own, since executors load it: they have none of what reads job files. The syntax of references is
described in `etl.config.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

REFERENCE = re.compile(r"\$\$\{|\$\{(?P<body>[^{}]*)\}|(?P<open>\$\{)")

_MAX_SECRET_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ReferenceFault(ValueError):
    """A reference that cannot be used; the text has no secret in it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def resolve(text: str, *, env: Mapping[str, str], folder: Path) -> str:
    """Fill in every reference. Raises ReferenceFault."""

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["open"]:
            _refuse("a reference is not closed", "write ${NAME} or ${file:/path}; $${ is a plain ${")
        body = match["body"]
        if body.startswith("file:"):
            return _from_file(body.removeprefix("file:"), folder)
        return _from_env(body, env)

    return REFERENCE.sub(fill, text)


def _from_env(name: str, env: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        _refuse(
            "a reference is not ${NAME} or ${file:/path}", "name an environment variable or a file; $${ is a plain ${"
        )
    if name not in env:
        _refuse(f"environment variable {name} is not set", f"set {name} where the job runs")
    return env[name]


def _from_file(name: str, folder: Path) -> str:
    file = folder / name.strip()
    if not name.strip():
        _refuse("a file reference names no file", "write ${file:/path}")
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_SECRET_BYTES + 1)
    except OSError as error:
        _refuse(
            f"cannot read {file}: {error.strerror or type(error).__name__}", "make the file readable where the job runs"
        )
    if len(data) > _MAX_SECRET_BYTES:
        _refuse(f"{file} is larger than {_MAX_SECRET_BYTES} bytes", "name a file with only the secret in it")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None:  # outside of the except: the decoder's error carries the bytes, and would be chained
        _refuse(f"{file} is not UTF-8 text", "name a text file")
    return text.removesuffix("\n").removesuffix("\r")


def _refuse(message: str, remedy: str) -> NoReturn:
    raise ReferenceFault(message, remedy) from None

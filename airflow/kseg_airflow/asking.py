"""Commands of `kseg` that answer within seconds: run, waited for, and read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from kseg_airflow.exit_codes import RETRIABLE
from kseg_airflow.outcomes import NOT_EXECUTABLE, NOT_FOUND, Outcome
from kseg_airflow.submission import Submission, nameless_file, path_of

_SECONDS_FOR_AN_ANSWER: Final = 300.0
#: How many processes a triggerer has at once that ask, however many sensors it has: each is a Python of its own.
AT_ONCE: Final = 16
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def ask(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = _SECONDS_FOR_AN_ANSWER,
) -> Outcome:
    """Run a command that prints one JSON object. properties: client properties for it, by a file without a name.

    A command that does not answer in time counts as a broker that is away.
    """
    with _prepared(command, env, cwd, properties) as (words, how):
        try:
            done = subprocess.run(words, capture_output=True, timeout=timeout, check=False, **how)
        except subprocess.TimeoutExpired:
            return _late(timeout)
        except OSError as error:
            return _not_started(error)
    return _answer(done.returncode, done.stdout, done.stderr)


async def ask_async(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = _SECONDS_FOR_AN_ANSWER,
) -> Outcome:
    """The same in the triggerer: it takes no thread, and of its process nothing is left when this is cancelled."""
    places = _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with places:
        with _prepared(command, env, cwd, properties) as (words, how):
            try:
                process = await asyncio.create_subprocess_exec(
                    *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
                )
            except OSError as error:
                return _not_started(error)
            try:
                printed, said = await asyncio.wait_for(process.communicate(), timeout)
            except TimeoutError:
                return _late(timeout)
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await asyncio.shield(process.wait())
    return _answer(process.returncode or 0, printed, said)


@contextlib.contextmanager
def _prepared(
    command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, properties: Mapping[str, str] | None
) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The words, and how they are started."""
    submission = Submission(list(command[1:]), Path(), env=env or {}, properties=properties or {})
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": submission.environment(), "cwd": cwd}
    if not properties:
        yield list(command), how
        return
    with nameless_file(submission.properties_text()) as file:
        yield [*command, "--command-config", path_of(file)], how | {"pass_fds": [file]}


def _late(timeout: float) -> Outcome:
    return Outcome(RETRIABLE, detail=f"no response within {timeout:.0f} s")


def _not_started(error: OSError) -> Outcome:
    """The outcome of a command that cannot be started, or whose folder `cwd` is missing. Raises any other error."""
    if isinstance(error, FileNotFoundError):
        return Outcome(NOT_FOUND, detail=str(error))
    if isinstance(error, PermissionError):
        return Outcome(NOT_EXECUTABLE, detail=str(error))
    raise error


def _answer(code: int, printed: bytes, said: bytes) -> Outcome:
    return Outcome(code, _document(printed), said.decode("utf-8", "replace")[-2000:] or None)


def _document(printed: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(printed)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

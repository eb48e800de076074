"""Commands of `kseg` that answer within seconds: run, waited for, and read."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kseg_airflow.outcomes import NOT_EXECUTABLE, NOT_FOUND, RETRIABLE, Outcome
from kseg_airflow.submission import Submission

_SECONDS_FOR_AN_ANSWER: Final = 300.0


def ask(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float = _SECONDS_FOR_AN_ANSWER,
) -> Outcome:
    """Run a command that prints one JSON object. properties: client properties for it, by a file that is then removed.

    A command that does not answer in time counts as a broker that is away.
    """
    with tempfile.TemporaryDirectory(prefix="kseg-") as folder:  # 0700
        submission = Submission(list(command[1:]), Path(folder), env=env or {}, properties=properties or {})
        file = submission.written_properties()
        words = [*command, *(["--command-config", str(file)] if file else [])]
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=submission.environment(),
                cwd=cwd,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(RETRIABLE, detail=f"no response within {timeout:.0f} s")
        except FileNotFoundError as error:
            return Outcome(NOT_FOUND, detail=str(error))  # which names the command, or the folder `cwd`
        except PermissionError as error:
            return Outcome(NOT_EXECUTABLE, detail=str(error))
    return Outcome(done.returncode, _document(done.stdout), done.stderr.decode("utf-8", "replace")[-2000:] or None)


def _document(printed: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(printed)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

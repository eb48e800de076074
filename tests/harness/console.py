"""Pages followed as a reader follows them: their files are written, their commands run, their output is compared.

    ```yaml title="orders.yaml"       a file, written where the commands run
    ```console                        commands, each after `$ `, and under it lines that it prints, in order;
                                      `…` in such a line is anything. A command ends with 0, or as `# exit 3` says.

Everything else on a page (a block of `text`, of `yaml` without a title …) is for readers alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"#.*\bexit (\d+)")
_END = "--- the command has ended: "


class Command(NamedTuple):
    """One command of a page, and what the page shows of its output."""

    text: str
    shown: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        said = _EXIT.search(self.text)
        return int(said[1]) if said else 0


class File(NamedTuple):
    """A file of a page."""

    name: str
    text: str


def steps(page: str) -> Iterator[Command | File]:
    """What a page asks its reader to do, in order."""
    for language, title, text in _BLOCK.findall(page):
        if title:
            yield File(title, text)
        elif language == "console":
            yield from commands(text)


def commands(block: str) -> Iterator[Command]:
    """The commands of one block; one that ends with a backslash goes on in the next line."""
    command, shown = "", []
    for line in block.splitlines():
        if command.endswith("\\"):
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield Command(command, tuple(shown))
            command, shown = line[2:], []
        elif line.strip():
            shown.append(line)
    if command:
        yield Command(command, tuple(shown))


def missing_line(shown: tuple[str, ...], output: str) -> str | None:
    """The first line that a page shows and the output does not have, behind those before it."""
    lines = iter(output.splitlines())
    for wanted in shown:
        pattern = ".*".join(map(re.escape, " ".join(wanted.split()).split("…")))
        if not any(re.fullmatch(pattern, " ".join(line.split())) for line in lines):
            return wanted
    return None


class Reader:
    """Somebody who follows a page in one shell, in a folder of their own."""

    def __init__(
        self,
        folder: Path,
        replaced: Mapping[str, str],
        programs: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`replaced`: what the page calls by another name than this machine does. programs: a folder, first in PATH.
        environment: more of it."""
        self._folder, self._replaced = folder, replaced
        path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=os.environ
            | dict(environment or {})
            | {"PATH": os.pathsep.join(str(folder) for folder in path if folder is not None)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def follow(self, page: str) -> None:
        """Do all that the page says. Raises AssertionError: a command ends otherwise, or prints something else."""
        for step in steps(page):
            if isinstance(step, File):
                (self._folder / step.name).write_text(self._here(step.text))
                continue
            code, output = self._run(self._here(step.text))
            said = f"$ {step.text}\n{output}"
            assert code == step.exit_code, f"exit {code}\n{said}"
            line = missing_line(tuple(map(self._here, step.shown)), output)
            assert line is None, f"the page shows {line!r}\n{said}"

    def close(self) -> None:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        with contextlib.suppress(ProcessLookupError):  # with a command that has not ended
            os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.stdin.close()
        self._shell.wait()
        self._shell.stdout.close()

    def _here(self, text: str) -> str:
        for name, here in self._replaced.items():
            text = text.replace(name, here)
        return text

    def _run(self, command: str) -> tuple[int, str]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\nended=$?; echo; echo '{_END}'$ended\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended\n$ {command}\n{''.join(lines)}")

"""All that is needed to start one driver: command, environment, properties and files.

Secrets are passed to a child process by an anonymous file: it has no name, and exists only while it is open. So nobody
has to delete it, even if the processes that write and read it are killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kseg_airflow import commands
from kseg_airflow.run_folder import SECRETS, write_private


@contextlib.contextmanager
def nameless_file(text: str) -> Iterator[int]:
    """The descriptor of a file with this text, open as long as the context; a child gets it by `pass_fds`."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kseg")
    else:  # macOS
        descriptor, name = tempfile.mkstemp(prefix="kseg-")
        os.unlink(name)  # noqa: PTH108
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode("utf-8"))
        os.lseek(descriptor, 0, os.SEEK_SET)  # where /dev/fd shares the position
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    """The path by which a child process that inherited the descriptor opens the file."""
    return f"/dev/fd/{descriptor}"


#: The environment variable with whose value `kseg` begins the random part of its owner name in the ledger.
MARK_VARIABLE = "KSEG_DRIVER"


@dataclass(slots=True)
class Submission:
    """words: command and arguments (`["ingest", "orders.yaml"]`). folder: a folder that only this driver uses.

    env: variables that override the worker's environment. secret_env: variables that override `env`, and whose values
    are written nowhere else. properties: Java client properties that override the job file's; they contain secrets.
    options: more options of the submit method. name: shown in the cluster's lists. mark: becomes part of the driver's
    owner name in the ledger (`previous.mark_of`).
    """

    words: list[str]
    folder: Path
    kseg: str = "kseg"
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    conn_id: str | None = None
    take_over: bool = False
    name: str = "kseg"
    job_file: str | None = None
    report: bool = False
    mark: str | None = None

    @property
    def command(self) -> str:
        return self.words[0]

    def arguments(self, *, run_file: str | None, command_config: str | None) -> list[str]:
        """All arguments of `kseg`. run_file, command_config: the paths of these files for the driver; None: no file."""
        words = [*self.words, "--json"]
        if self.take_over:
            words.append("--take-over")
        if self.report and run_file:
            words += ["--report", str(self.folder / "report.html")]
        if run_file and self.command in commands.WITH_RUN_FILE:
            words += ["--run-file", run_file]
        if command_config:
            words += ["--command-config", command_config]
        return words

    def remote_arguments(self) -> list[str]:
        """All arguments of `kseg` for a driver on another machine, without a run file and without a properties file."""
        return self.arguments(run_file=None, command_config=None)

    def shipped_arguments(self, *, command_config: Path | None) -> list[str]:
        """All arguments of `kseg` for a driver whose files are in its working folder: by their bare names."""
        words = self.arguments(run_file=None, command_config=command_config.name if command_config else None)
        return [Path(word).name if word == self.job_file else word for word in words]

    @property
    def properties_file(self) -> Path | None:
        """The file that the client properties are written to; None if there are no properties."""
        return self.folder / SECRETS if self.properties else None

    def written_properties(self) -> Path | None:
        """Writes the client properties to a file that only this user can read; None if there are no properties.

        The file contains secrets: write it just before the driver starts. It is removed when the driver has ended.
        """
        path = self.properties_file
        if path is not None:
            write_private(path, self.properties_text())
        return path

    def properties_text(self) -> str:
        """The client properties as a Java properties file has them."""
        lines = [f"{_escaped(key, ' :=#!')}={_escaped(text, '')}\n" for key, text in self.properties.items()]
        return "".join(lines)

    def environment(self) -> dict[str, str]:
        """The driver's environment: the worker's without Airflow's own variables, then `env`, then `secret_env`."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith(_AIRFLOWS_OWN)}
        marked = {MARK_VARIABLE: self.mark} if self.mark else {}
        return ours | marked | {str(name): str(text) for name, text in self.env.items()} | dict(self.secret_env)


# Airflow's configuration contains the password of its database and its connections: drivers must not get them.
_AIRFLOWS_OWN = ("AIRFLOW_", "_AIRFLOW_", "__AIRFLOW", "VIRTUAL_ENV")


def _escaped(text: str, also: str) -> str:
    """Escapes a text as Java's Properties.store does."""
    text = re.sub(rf"([\\{re.escape(also)}])" if also else r"(\\)", r"\\\1", text)
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    return "\\" + text if text[:1] == " " and not also else text

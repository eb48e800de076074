"""A task's origin without its secrets: each executor resolves them from its own environment and files.

A task's arguments are pickled and sent over Spark's network and, if they are large, through files on its disks. With
deferred secrets they have the properties as the job file has them, with references such as `${NAME}` unresolved.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from kseg.client.config import ClientConfig
from kseg.client.errors import ConfigError
from kseg.etl.config.references import ReferenceFault, resolve
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.source.origin import LogFiles, Origin


@dataclass(frozen=True, slots=True)
class DeferredSecrets:
    """An origin that is opened where it is used. Picklable.

    properties: client properties, or with `files` those of its store, references unresolved and file paths absolute.
    """

    properties: tuple[tuple[str, str], ...]
    client_id: str = ""
    files: LogFiles | None = None

    def open(self) -> Origin:
        """The origin itself.

        Raises:
            ConfigurationError: something is missing on this executor; the message names its host.
        """
        section = "kafka" if self.files is None else "source.segments.options"
        values: dict[str, str] = {}
        faults: list[Diagnostic] = []
        for key, text in self.properties:
            try:
                values[key] = resolve(text, env=os.environ, folder=Path("/"))
            except ReferenceFault as fault:
                faults.append(Diagnostic(f"{section}.{key}", f"on executor {_host()}: {fault}", fault.remedy))
        if faults:
            raise ConfigurationError(faults)
        if self.files is not None:
            return replace(self.files, options=tuple(sorted(values.items())))
        try:
            return ClientConfig.from_properties(values, client_id=self.client_id)
        except ConfigError as error:
            here = [
                Diagnostic(f"{section}.{f.key}", f"on executor {_host()}: {f.message}", f.remedy) for f in error.faults
            ]
            raise ConfigurationError(here) from None


TaskOrigin = Origin | DeferredSecrets
"""The origin as it is sent to tasks."""


def opened(origin: TaskOrigin) -> Origin:
    """In a task: the origin to read from. Raises ConfigurationError, see `DeferredSecrets.open`."""
    return origin.open() if isinstance(origin, DeferredSecrets) else origin


def _host() -> str:
    import socket

    return socket.gethostname()

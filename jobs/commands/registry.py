"""``kseg registry``: a real Schema Registry on this machine, for trying things out."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kseg.jobs.broker import jars
from kseg.jobs.invocation.server_commands import ServerKind, directory_option, json_option
from kseg.jobs.registry import detached
from kseg.jobs.registry.detached import RegistryState
from kseg.jobs.setup import fetch_jars

_directory = directory_option("The folder of the registry's log and schemas. [default: 'registry' in kseg's cache]")


def _running(directory: Path) -> RegistryState | None:
    state = detached.read(directory)
    return state if state is not None and state.process() is not None else None


def _document(state: RegistryState | None) -> dict[str, object]:
    if state is None:
        return {"url": None, "pid": None}
    return {
        "url": state.url,
        "version": state.version,
        "pid": state.pid,
        "directory": state.directory,
        "log": state.log_file,
    }


_SERVER = ServerKind(
    noun="registry",
    place="The registry",
    default_directory=detached.default_directory,
    read=_running,
    stop=detached.stop,
    answering=lambda state: state.answering,
    title=lambda state: f"Apicurio Registry {state.version}",
    document=_document,
    lines=lambda state: [f"  url  {state.url}", f"  pid  {state.pid}, log {state.log_file}"],
)


@click.group()
def registry() -> None:
    """Start and stop a real Schema Registry on this machine's loopback.

    It is Apicurio with the REST API of Confluent's registry, so that Confluent's serializers work with it.

    \b
    Example:
      kseg registry start
      kseg registry status --json | jq -r .url
      kseg registry stop
    """


@registry.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Where to listen. [default: as before, else a free port]")
@_directory
@json_option
def start(port: int | None, directory: Path | None, as_json: bool) -> None:
    """Start a registry, or show the running one. Schemas are kept when it is stopped.

    \b
    Example:
      kseg registry start --port 8081
    """
    began = time.monotonic()
    fetch_jars(jars.APICURIO)
    state, started = detached.start(_SERVER.directory(directory), port=port)
    _SERVER.print_started(state, started, began, as_json)


@registry.command()
@_directory
@json_option
def stop(directory: Path | None, as_json: bool) -> None:
    """Stop the registry. Its schemas stay on disk.

    \b
    Example:
      kseg registry stop
    """
    _SERVER.stop_and_print(directory, as_json)


@registry.command()
@_directory
@json_option
def status(directory: Path | None, as_json: bool) -> int:
    """Show whether the registry runs, and where: exit 0 if it answers, 1 if not.

    \b
    Example:
      kseg registry status --json
    """
    return _SERVER.print_status(directory, as_json)

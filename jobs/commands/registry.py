"""``kseg registry``: a real Schema Registry on this machine, for trying things out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from kseg.jobs.broker import jars
from kseg.jobs.registry import detached
from kseg.jobs.registry.detached import State
from kseg.jobs.setup import fetch_jars

_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the registry keeps log and schemas. [default: 'registry' in kseg's cache]",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


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
@_json
def start(port: int | None, directory: Path | None, as_json: bool) -> None:
    """Start a registry, or find the one that runs; its schemas outlive a stop.

    \b
    Example:
      kseg registry start --port 8081
    """
    began = time.monotonic()
    fetch_jars(jars.APICURIO)
    state, started = detached.start(directory or detached.default_directory(), port=port)
    if as_json:
        click.echo(json.dumps(_describe(state) | {"started": started}, indent=2))
    else:
        how = f"started in {time.monotonic() - began:.1f} s" if started else "runs already"
        click.echo(f"Apicurio Registry {state.version} {how}.")
        _print_state(state)


@registry.command()
@_directory
@_json
def stop(directory: Path | None, as_json: bool) -> None:
    """Stop the registry. Its schemas stay on disk.

    \b
    Example:
      kseg registry stop
    """
    where = directory or detached.default_directory()
    stopped = detached.stop(where)
    if as_json:
        click.echo(json.dumps({"stopped": stopped, "directory": str(where)}))
    else:
        click.echo(f"The registry in {where} {'is stopped' if stopped else 'was not running'}.")


@registry.command()
@_directory
@_json
def status(directory: Path | None, as_json: bool) -> None:
    """Show whether the registry runs, and where: exit 0 if it answers, 1 if not.

    \b
    Example:
      kseg registry status --json
    """
    where = directory or detached.default_directory()
    state = detached.read(where)
    running = state is not None and state.answering
    if as_json:
        described = _describe(state) if state is not None and running else {"url": None, "pid": None}
        click.echo(json.dumps(described | {"running": running}, indent=2))
    elif state is not None and running:
        click.echo(f"Apicurio Registry {state.version} answers.")
        _print_state(state)
    else:
        click.echo(f"No registry runs in {where}.")
    sys.exit(0 if running else 1)


def _describe(state: State) -> dict[str, object]:
    return {
        "url": state.url,
        "version": state.version,
        "pid": state.pid,
        "directory": state.directory,
        "log": state.log_file,
    }


def _print_state(state: State) -> None:
    click.echo(f"  url  {state.url}")
    click.echo(f"  pid  {state.pid}, log {state.log_file}")

"""``kseg broker``: a real Kafka on this machine, for trying things out."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kseg.jobs.broker import detached, jars
from kseg.jobs.broker.detached import BrokerState
from kseg.jobs.invocation.server_commands import ServerKind, directory_option, json_option
from kseg.jobs.setup import fetch_jars

_directory = directory_option("The folder of the broker's data. [default: 'broker' in kseg's cache]")


def _document(state: BrokerState | None) -> dict[str, object]:
    if state is None:
        return {"bootstrap_servers": None, "log_dirs": [], "version": None, "pids": []}
    return {
        "bootstrap_servers": state.bootstrap_servers,
        "log_dirs": [node.log_dir for node in state.nodes],
        "version": state.version,
        "pids": [node.pid for node in state.running],
        "directory": state.directory,
    }


def _lines(state: BrokerState) -> list[str]:
    nodes = [f"  node {node.id}             pid {node.pid}, log {node.log_file}" for node in state.nodes]
    return [f"  bootstrap.servers  {state.bootstrap_servers}", *nodes]


_SERVER = ServerKind(
    noun="Kafka",
    place="Kafka",
    default_directory=detached.default_directory,
    read=detached.read,
    stop=detached.stop,
    answering=lambda state: state.answering,
    title=lambda state: f"Kafka {state.version}",
    document=_document,
    lines=_lines,
    detail=lambda state: f" ({len(state.running)} of {len(state.nodes)} nodes run)",
)


@click.group()
def broker() -> None:
    """Start and stop a real Kafka on this machine's loopback.

    \b
    Example:
      kseg broker start
      kseg broker status --json | jq -r .bootstrap_servers
      kseg broker stop
    """


@broker.command()
@click.option("--brokers", type=click.IntRange(1, 9), help="How many nodes. [default: as before in this --dir, else 1]")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Where the first node listens. [default: as before, else a free port]"
)
@click.option(
    "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="Feature level of a new cluster; repeatable."
)
@click.option("--config", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting; repeatable.")
@_directory
@json_option
def start(
    brokers: int | None,
    port: int | None,
    features: tuple[str, ...],
    settings: tuple[str, ...],
    directory: Path | None,
    as_json: bool,
) -> None:
    """Start Kafka, or show the running one. Topics are kept when it is stopped.

    \b
    Example:
      kseg broker start
      kseg broker start --port 9092
      kseg broker start --brokers 3 --dir /tmp/three
      kseg broker start --dir /tmp/old --feature transaction.version=1 --config log.segment.bytes=1048576
    """
    levels = {name: _level(name, level) for name, level in _pairs(features, "--feature").items()}
    config = _pairs(settings, "--config")
    began = time.monotonic()
    fetch_jars(jars.KAFKA)
    state, started = detached.start(
        _SERVER.directory(directory), nodes=brokers, port=port, features=levels, config=config
    )
    _SERVER.print_started(state, started, began, as_json)


@broker.command()
@_directory
@json_option
def stop(directory: Path | None, as_json: bool) -> None:
    """Stop Kafka. Its topics stay on disk.

    \b
    Example:
      kseg broker stop --dir /tmp/three
    """
    _SERVER.stop_and_print(directory, as_json)


@broker.command()
@_directory
@json_option
def status(directory: Path | None, as_json: bool) -> int:
    """Show whether Kafka runs, and where: exit 0 if it answers, 1 if not.

    \b
    Example:
      kseg broker status --json
    """
    return _SERVER.print_status(directory, as_json)


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, found, value = text.partition("=")
        if not found or not key:
            raise click.BadParameter(f"{text!r} must be of the form KEY=VALUE", param_hint=option)
        pairs[key.strip()] = value.strip()
    return pairs


def _level(name: str, level: str) -> int:
    if not level.isdecimal():
        raise click.BadParameter(f"level {level!r} of {name} is not a number", param_hint="--feature")
    return int(level)

"""``kseg broker``: a real Kafka on this machine, for trying things out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from kseg.jobs.broker import detached, jars
from kseg.jobs.broker.detached import State
from kseg.jobs.setup import fetch_jars

_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the broker's data. [default: 'broker' in kseg's cache]",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


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
    "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="Feature level of a new cluster; repeatable."
)
@click.option("--config", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting; repeatable.")
@_directory
@_json
def start(
    brokers: int | None, features: tuple[str, ...], settings: tuple[str, ...], directory: Path | None, as_json: bool
) -> None:
    """Start Kafka, or find the one that runs; its topics outlive a stop.

    \b
    Example:
      kseg broker start
      kseg broker start --brokers 3 --dir /tmp/three
      kseg broker start --dir /tmp/old --feature transaction.version=1 --config log.segment.bytes=1048576
    """
    levels = {name: _level(name, level) for name, level in _pairs(features, "--feature").items()}
    config = _pairs(settings, "--config")
    began = time.monotonic()
    fetch_jars(jars.KAFKA)
    where = directory or detached.default_directory()
    state, started = detached.start(where, nodes=brokers, features=levels, config=config)
    if as_json:
        click.echo(json.dumps(_describe(state) | {"started": started}, indent=2))
    else:
        how = f"started in {time.monotonic() - began:.1f} s" if started else "runs already"
        click.echo(f"Kafka {state.version} {how}.")
        _print_state(state)


@broker.command()
@_directory
@_json
def stop(directory: Path | None, as_json: bool) -> None:
    """Stop Kafka. Its topics stay on disk.

    \b
    Example:
      kseg broker stop --dir /tmp/three
    """
    where = directory or detached.default_directory()
    stopped = detached.stop(where)
    if as_json:
        click.echo(json.dumps({"stopped": stopped, "directory": str(where)}))
    else:
        click.echo(f"Kafka in {where} {'is stopped' if stopped else 'was not running'}.")


@broker.command()
@_directory
@_json
def status(directory: Path | None, as_json: bool) -> None:
    """Show whether Kafka runs, and where: exit 0 if it answers, 1 if not.

    \b
    Example:
      kseg broker status --json
    """
    where = directory or detached.default_directory()
    state = detached.read(where)
    if state is None:
        nothing: dict[str, object] = {
            "running": False,
            "bootstrap_servers": None,
            "log_dirs": [],
            "version": None,
            "pids": [],
        }
        click.echo(json.dumps(nothing, indent=2) if as_json else f"No Kafka runs in {where}.")
        sys.exit(1)
    answering = state.answering
    if as_json:
        click.echo(json.dumps(_describe(state) | {"running": answering}, indent=2))
    else:
        alive = f"{len(state.running)} of {len(state.nodes)} nodes run"
        click.echo(f"Kafka {state.version} {'answers' if answering else 'does not answer'} ({alive}).")
        _print_state(state)
    sys.exit(0 if answering else 1)


def _describe(state: State) -> dict[str, object]:
    return {
        "bootstrap_servers": state.bootstrap_servers,
        "log_dirs": [node.log_dir for node in state.nodes],
        "version": state.version,
        "pids": [node.pid for node in state.running],
        "directory": state.directory,
    }


def _print_state(state: State) -> None:
    click.echo(f"  bootstrap.servers  {state.bootstrap_servers}")
    for node in state.nodes:
        click.echo(f"  node {node.id}             pid {node.pid}, log {node.log_file}")


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

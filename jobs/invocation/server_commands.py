"""``start``, ``stop`` and ``status`` of a server that is kept on this machine for trying things out.

`kseg broker` and `kseg registry` have the same options, output and exit codes; a `ServerKind` holds what differs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import click

S = TypeVar("S")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def directory_option(text: str) -> Callable[[Any], Any]:
    """`--dir`, as the argument `directory`: a path, or None."""
    path = click.Path(file_okay=False, path_type=Path)
    return click.option("--dir", "directory", type=path, help=text)


@dataclass(frozen=True)
class ServerKind(Generic[S]):
    """One kind of server; `S` is the state of one that was started in a directory.

    noun: as in "No Kafka runs in …". place: as in "The registry in … is stopped".
    read: the state; None where nothing was started, or it was stopped. stop: whether anything ran.
    answering: whether it can be used. title: name and version. detail: what `status` adds to "answers".
    document: for `--json`; of None, that of no server. lines: the same for people.
    """

    noun: str
    place: str
    default_directory: Callable[[], Path]
    read: Callable[[Path], S | None]
    stop: Callable[[Path], bool]
    answering: Callable[[S], bool]
    title: Callable[[S], str]
    document: Callable[[S | None], Mapping[str, object]]
    lines: Callable[[S], list[str]]
    detail: Callable[[S], str] = lambda _: ""

    def directory(self, given: Path | None) -> Path:
        """The directory of `--dir`, else the default."""
        return given or self.default_directory()

    def print_started(self, state: S, started: bool, began: float, as_json: bool) -> None:
        """began: when the command began (`time.monotonic`). started: False if it was running before."""
        if as_json:
            click.echo(json.dumps({**self.document(state), "started": started}, indent=2))
            return
        how = f"started in {time.monotonic() - began:.1f} s" if started else "runs already"
        self._print(f"{self.title(state)} {how}.", state)

    def stop_and_print(self, given: Path | None, as_json: bool) -> None:
        """The command `stop`."""
        where = self.directory(given)
        stopped = self.stop(where)
        if as_json:
            click.echo(json.dumps({"stopped": stopped, "directory": str(where)}))
        else:
            click.echo(f"{self.place} in {where} {'is stopped' if stopped else 'was not running'}.")

    def print_status(self, given: Path | None, as_json: bool) -> int:
        """The command `status`: returns 0 if the server answers, with 1 if not."""
        where = self.directory(given)
        state = self.read(where)
        answering = state is not None and self.answering(state)
        if as_json:
            click.echo(json.dumps({**self.document(state), "running": answering}, indent=2))
        elif state is None:
            click.echo(f"No {self.noun} runs in {where}.")
        else:
            self._print(
                f"{self.title(state)} {'answers' if answering else 'does not answer'}{self.detail(state)}.", state
            )
        return 0 if answering else 1

    def _print(self, headline: str, state: S) -> None:
        click.echo("\n".join([headline, *self.lines(state)]))

"""`kseg completion`: completion of commands and options in a shell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

_SHELLS: Final = ("bash", "zsh", "fish")
#: Where a shell loads completions from, below the user's data or configuration folder.
_PLACES: Final = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/kseg"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_kseg"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/kseg.fish"),
}
_NEXT: Final = {
    "bash": "open a new shell (package bash-completion has to be installed)",
    "zsh": "add `fpath=({folder} $fpath)` above compinit in ~/.zshrc, and open a new shell",
    "fish": "open a new shell",
}


@click.command(
    epilog="""\b
Examples:
  kseg completion bash --install
  eval "$(kseg completion zsh)"
"""
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.option("--install", is_flag=True, help="Write the script to the file from which the shell loads completions.")
@click.pass_context
def completion(context: click.Context, shell: str | None, install: bool) -> None:
    """Print a shell's completion script for kseg, or install it for this user.

    Without an argument, the shell is taken from the environment ($SHELL).
    """
    from click.shell_completion import get_completion_class

    shell = shell or Path(os.environ.get("SHELL", "")).name
    found = get_completion_class(shell) if shell in _SHELLS else None
    if found is None:
        raise click.UsageError(f"name the shell: {', '.join(_SHELLS)}")
    script = found(context.find_root().command, {}, "kseg", "_KSEG_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    file = _place(shell)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script + "\n", encoding="utf-8")
    click.echo(f"wrote {file}; {_NEXT[shell].format(folder=file.parent)}")


def _place(shell: str) -> Path:
    variable, below_home, rest = _PLACES[shell]
    given = os.environ.get(variable)
    return (Path(given) if given else Path.home() / below_home) / rest

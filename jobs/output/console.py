"""The console that tables are printed on."""

from __future__ import annotations

from rich.console import Console


class PlainConsole(Console):
    """rich's, which leaves a closed pipe to its caller: rich would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Called where a BrokenPipeError was caught, which is raised again."""
        raise

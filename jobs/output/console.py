"""The console that tables are printed on."""

from __future__ import annotations

from rich.console import Console


class PlainConsole(Console):
    """rich's console, but it raises on a closed pipe: rich would end the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled; raises it again."""
        raise

"""The click command that passes an `Invocation` to its function.

A command's function takes the invocation, then its own options and arguments by their names, and returns a `Result`:

    @click.command(cls=KsegCommand)
    @job_argument
    @click.option("--dry-run", is_flag=True)
    @common_options
    def ingest(invocation: Invocation, job_file: str, dry_run: bool) -> Result: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import click

from kseg.jobs.invocation.execution import execute
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result
from kseg.jobs.report.options import ReportOptions

_COMMON: Final = frozenset(field.name for field in fields(Invocation))
_REPORT: Final = tuple(field.name for field in fields(ReportOptions))


class KsegCommand(click.Command):
    """A command whose common options travel as one `Invocation`.

    check: gets the command's own options before anything is begun or written; raises click.UsageError.
    json_only: the result is always printed as JSON, without a `--json`.
    """

    def __init__(
        self, *args: Any, check: Callable[..., None] | None = None, json_only: bool = False, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self._check = check
        self._json_only = json_only

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; returns its exit code."""
        invocation, own = self._split(ctx.params)
        if self._check is not None:
            ctx.invoke(self._check, **own)

        def work(running: Invocation) -> Result:
            assert self.callback is not None
            result = ctx.invoke(self.callback, running, **own)
            assert isinstance(result, Result)
            return result

        return execute(invocation, work)

    def _split(self, params: dict[str, Any]) -> tuple[Invocation, dict[str, Any]]:
        """The invocation of click's parameters, and those that are the command's own."""
        own = dict(params)
        report = None
        if all(name in own for name in _REPORT):
            report = ReportOptions(**{name: own.pop(name) for name in _REPORT})
        common = {name: own.pop(name) for name in params if name in _COMMON and name in own}
        if self._json_only:
            common["as_json"] = True
        return Invocation(command=self.name or "", report=report, **common), own

"""The command `kseg`.

Commands are imported when they are used: `kseg --help` needs none of them, `kseg status` starts no Spark, and a
command whose import fails takes no other down with it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from kseg.jobs.output.standard_streams import escape_unencodable, open_closed_streams

GC_THRESHOLD: Final = 200_000
"""Allocations between garbage collections: some 30 MB."""

# Name -> the line that `kseg --help` shows; the module jobs.commands.<name> exports a click command of that name.
COMMANDS = {
    "init": "Write a job file for a topic, from a sample of its records.",
    "ingest": "Run a job once: read what is new, land it, commit offsets.",
    "plan": "Show the ranges that the next run would read.",
    "backfill": "Land offsets, a time range or a data interval.",
    "redrive": "Land dead letters after their schema was corrected.",
    "interval": "Show whether a data interval is closed.",
    "check": "Validate job files, without connecting to a broker.",
    "verify": "Compare tables with Kafka, row by row.",
    "audit": "Find drift between asset events, ledger, tables and group.",
    "maintain": "Maintain tables and ledger: OPTIMIZE, VACUUM, retention.",
    "repair": "Finish or abandon an unfinished run; accept changes.",
    "status": "Show the last runs, consumer lag, and the group's state.",
    "explain": "Explain what an error means and what to do about it.",
    "runs": "Show a job's runs: durations, rows, errors.",
    "logs": "Show the log files of failed commands on this machine.",
    "report": "Write a run's HTML report from the ledger.",
    "topics": "Show topics: partitions, records, size, last record, rate.",
    "peek": "Show a topic's records.",
    "schema": "Show a subject of a schema registry; check a new schema.",
    "produce": "Write lines of text or JSON to a topic.",
    "api": "List, call, encode and decode any API of Kafka's protocol.",
    "dump": "Show the content of a broker's segment and index files.",
    "metadata": "Show the cluster's metadata as tables, from its log.",
    "fsck": "Check whether a log directory is intact.",
    "recover": "Land all that can be read from a damaged log directory.",
    "package": "Package what a cluster's executors need, for spark-submit.",
    "broker": "Start and stop a local Kafka broker for trying things out.",
    "registry": "Start and stop a Schema Registry for trying things out.",
    "doctor": "Check this machine, and the stores of a job.",
    "setup": "Download jars and compile decoders before the first run.",
    "completion": "Complete commands and options in a shell.",
    "bench": "Benchmark the decoder and runs from Kafka to Delta.",
}


class LazyGroup(click.Group):
    """A group that imports a command when it is run, and turns every error into an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kseg.jobs.commands.{cmd_name}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" Commands: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Does the same as click's, with our messages and exit codes for errors outside of a command too."""
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            code = 2
        except SystemExit:  # by this click answers a BrokenPipeError
            if (cut_off := _cut_off()) is None:
                raise
            code = cut_off
        except (Exception, KeyboardInterrupt) as error:
            from kseg.jobs.invocation.execution import report_error

            json_to = sys.stdout if "--json" in arguments else None
            code = report_error(error, json_to, debug="--debug" in arguments)
        code = code if isinstance(code, int) else 0
        if standalone_mode:
            sys.exit(code)
        return code


def _cut_off() -> int | None:
    """The exit code of a command whose output nobody reads any more, which is discarded; None for any other."""
    from kseg.jobs.output import standard_streams

    streams = [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
    if not any(map(standard_streams.has_no_reader, streams)):
        return None
    standard_streams.discard(*streams)
    return standard_streams.EXIT_CODE


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kseg import __version__

        click.echo(f"kseg {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example:  kseg broker start && kseg ingest orders.yaml",
)
@click.option("--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version.")
def cli() -> None:
    """Batch ETL from Kafka into Delta Lake on Spark, exactly once."""


def _collect_seldom() -> None:
    """Let the garbage collector run seldom at the start, and not at the end.

    Imports make some 100,000 objects that live as long as the process, and Python's threshold of 700 new ones has them
    searched for cycles hundreds of times; the interpreter searches all once more when it ends. Together that was a
    quarter of a short command's CPU time. What the process leaves at its end, the system takes back.
    """
    gc.set_threshold(GC_THRESHOLD, 10, 10)
    atexit.register(gc.freeze)


def main(args: Sequence[str] | None = None) -> None:
    """The console script. Leaves the process with the exit code."""
    _collect_seldom()
    open_closed_streams()
    escape_unencodable(sys.stdout, sys.stderr)
    try:
        cli.main(args, prog_name="kseg")
    finally:
        if (stopping := sys.modules.get("kseg.jobs.invocation.stopping")) is not None:
            stopping.leave_in_peace()


if __name__ == "__main__":
    main()

"""`kseg check`: are job files valid?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import command_config_option, common_options, with_spark_option
from kseg.jobs.invocation.result import Result
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.output.standard_streams import while_read

if TYPE_CHECKING:
    from kseg.etl.config.check import CheckedFile
    from kseg.etl.config.job import Job


def _schema(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from kseg.etl.config.schema import job_schema_text

    click.echo(job_schema_text(), nl=False)
    context.exit()


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg check orders.yaml
  kseg check airflow/jobs/*.yaml --json
  kseg check --schema > kseg.schema.json
""",
)
@click.argument("job_files", metavar="JOB.yaml...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the JSON Schema of job files, for editors, and exit.",
)
@click.option(
    "--connect",
    is_flag=True,
    help="Also plan each job's next run: do brokers, registry, ledger and tables answer, and may the account read?",
)
@with_spark_option
@command_config_option
@common_options
def check(invocation: Invocation, job_files: tuple[str, ...], connect: bool, with_spark: bool) -> Result:
    """Check job files: list all errors, and files that describe the same job or the same DAG.

    Without --connect no broker, table or ledger is read; references (${NAME}) are resolved as in a run, schemas of
    `decode:` are compiled, except those in a registry, and the functions of transforms are imported. What was not
    checked is listed as a warning. Exit 2 if there is an error; with --connect as `kseg plan`, of the first that fails.
    --json shows each file's `airflow:` section with its defaults.
    """

    checked = _checked(invocation, job_files)
    _check_decoding(checked, connect=connect)
    for one in checked:
        if one.job is not None and one.ok:
            _check_steps(one, one.job, connect=connect, with_spark=with_spark)
    if connect:
        _connect(checked)
    faulty = [one for one in checked if not one.ok]
    document = {"files": [one.to_json() for one in checked], "faults": sum(len(one.faults) for one in checked)}
    if not invocation.as_json:
        faults = ["\n  ".join([f"{one.file}:", *map(str, one.faults)]) + "\n" for one in faulty]
        warnings = [f"{one.file}: warning: {warning}\n" for one in checked for warning in one.warnings]
        with while_read(sys.stderr):
            click.echo(REDACTOR.clean("".join(faults + warnings)), nl=False, err=True)
    headline = f"{len(checked) - len(faulty)} of {len(checked)} job files are valid"
    shown = document if invocation.as_json else {"files": [{"file": one.file, "valid": one.ok} for one in checked]}
    return Result(shown, headline, int(ExitCode.BAD_CONFIGURATION if faulty else ExitCode.DONE))


def _checked(invocation: Invocation, job_files: tuple[str, ...]) -> list[CheckedFile]:
    from kseg.etl.config.check import check_files
    from kseg.jobs.api.properties import PropertiesFile

    files = dict.fromkeys(job_files)
    if invocation.command_config is None:
        checked = check_files(files)
    else:
        given = PropertiesFile.read(invocation.command_config)
        checked = check_files(files, kafka=given.values)
        for one in checked:
            one.faults = given.placed(one.faults)
    for one in checked:
        if one.job is not None:
            REDACTOR.learn(one.job.secret_values())
    return checked


def _check_decoding(checked: list[CheckedFile], *, connect: bool) -> None:
    for one in checked:
        if one.job is not None and one.job.decode is not None:
            from kseg.etl.config.document import with_lines
            from kseg.etl.run.check_decode import decode_faults, decode_warnings

            one.faults += with_lines(decode_faults(one.job), one.file)
            if not connect:  # else the plan reads them
                one.warnings += decode_warnings(one.job)


def _check_steps(one: CheckedFile, job: Job, *, connect: bool, with_spark: bool) -> None:
    from kseg.etl.config.document import with_lines
    from kseg.etl.errors import ConfigurationError
    from kseg.etl.run.check_job import check_steps, import_faults, not_checked

    one.faults += with_lines(import_faults(job), one.file)
    if one.ok:
        try:
            one.warnings += check_steps(job, with_spark=with_spark)
        except ConfigurationError as error:
            one.faults += with_lines(error.faults, one.file)
    one.warnings += not_checked(job, with_spark=with_spark, connected=connect)
    if not connect:
        one.warnings.append("not checked: brokers, registry, ledger, tables and group, which --connect asks")


def _connect(checked: list[CheckedFile]) -> None:
    """Decide what each job's next run would do. Raises the first error."""
    from kseg.etl.run.dry_run import plan_only

    for one in checked:
        if one.job is not None and one.ok:
            notes = plan_only(one.job).notes
            one.warnings += [note for note in notes if note not in one.warnings]

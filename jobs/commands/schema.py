"""`kseg schema`: shows a subject of a schema registry, and checks whether a new schema is compatible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kseg.etl.decoding.formats.registry import in_registries
from kseg.etl.errors import ExitCode
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import command_config_option, common_options, is_job_file
from kseg.jobs.invocation.result import Result

if TYPE_CHECKING:
    from kseg.client.registry.config import RegistryConfig
    from kseg.etl.config.job import Job

_SUFFIXES: Final = " and ".join(form.suffix for form, _ in in_registries() if form.suffix is not None)


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg schema orders-value --registry http://localhost:8081
  kseg schema orders-value --registry http://localhost:8081 --versions
  kseg schema orders.yaml
  kseg schema orders-value --table orders.yaml --check orders-v4.avsc
""",
)
@click.argument("name", metavar="SUBJECT|JOB.yaml")
@click.option("--registry", metavar="URL", help="The schema registry.  [default: the job's]")
@click.option(
    "-X", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the registry's client; repeatable."
)
@click.option("--version", type=click.IntRange(1), help="Show this version.  [default: the newest]")
@click.option("--versions", "every", is_flag=True, help="Show the columns of all versions.")
@click.option("--check", "file", metavar="FILE", help="Would this schema fit as the next version? Exit 3 if not.")
@click.option(
    "--type",
    "kind",
    type=click.Choice([own.type.lower() for _, own in in_registries()]),
    help=f"FILE's type.  [default: by {_SUFFIXES}, else as the subject's newest version]",
)
@click.option("--table", metavar="JOB.yaml", help="With --check: also compare with this job's tables.")
@command_config_option
@common_options
def schema(
    invocation: Invocation,
    name: str,
    registry: str | None,
    properties: tuple[str, ...],
    version: int | None,
    every: bool,
    file: str | None,
    kind: str | None,
    table: str | None,
) -> Result:
    """Show a subject's versions, and the table columns that the newest would give, as Spark's types.

    With --check: whether the registry's compatibility rule accepts a new schema, which columns it would add, and which
    would change their type. Nothing is registered or written. With a job file: the job's subjects, registry and tables.
    """
    from kseg.client.registry.registry import SchemaRegistry
    from kseg.jobs.invocation.job import load_job
    from kseg.jobs.records.subjects import checked, job_subjects, shown_subject

    if version is not None and every:
        raise click.UsageError("--version and --versions exclude each other")
    if file is None and (table is not None or kind is not None):
        raise click.UsageError("--table and --type belong to --check FILE")
    named = is_job_file(name)
    if named and table is not None:
        raise click.UsageError("--table: the job file is the first argument already")
    job_file = name if named else table
    job = load_job(invocation, job_file) if job_file is not None else None
    subjects = job_subjects(job) if named and job is not None else [name]
    if file is not None and len(subjects) > 1:
        raise click.UsageError(
            f"--check needs one subject, and the job has {', '.join(subjects)}: give one and --table"
        )
    candidate, found = None, []
    with SchemaRegistry(_config(job, registry, properties)) as client:
        if file is None:
            found = [shown_subject(client, subject, version, every=every) for subject in subjects]
        else:
            candidate = checked(client, subjects[0], file, kind.upper() if kind is not None else None, job)
        url = client.url
    if candidate is not None:
        document: dict[str, Any] = {"registry": url, "subject": subjects[0]}
        document |= {"check": candidate.to_json()} if invocation.as_json else candidate.for_people()
        headline = f"{file} {'fits' if candidate.fits else 'does not fit'} as the next version of {subjects[0]}"
        return Result(document, headline, int(ExitCode.DONE if candidate.fits else ExitCode.REFUSED), rows=1000)
    document = {"registry": url}
    if invocation.as_json:
        document["subjects"] = [one.to_json() for one in found]
    else:
        for one in found:
            document |= one.for_people()
    counts = ", ".join(f"{one.subject} has {len(one.numbers)} version(s)" for one in found)
    return Result(document, counts, rows=1000)


def _config(job: Job | None, registry: str | None, properties: tuple[str, ...]) -> RegistryConfig:
    from kseg.client.registry.config import RegistryConfig
    from kseg.etl.errors import ConfigurationError
    from kseg.jobs.output.redaction import REDACTOR

    given: dict[str, str] = {}
    for pair in properties:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigurationError.of("-X", f"{key} has no value", "KEY=VALUE")
        given[key.strip()] = value
    from kseg.client.registry.config import SECRETS

    REDACTOR.learn(given[key] for key in SECRETS & given.keys())
    if registry is not None:
        given["url"] = registry
    elif job is not None and job.registry is not None:
        given = {**job.registry_properties(), **given}
    else:
        raise ConfigurationError.of("--registry", "is missing", "the registry's URL, or a job file with `registry:`")
    if "type" in given:
        message = "names a registry without Confluent's REST API, whose schemas this command does not show"
        raise ConfigurationError.of("registry.type", message, "with glue, `aws glue get-schema-version` shows them")
    return RegistryConfig.from_properties(given)

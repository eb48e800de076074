"""`kseg package`: packs what executors need, for spark-submit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job
from kseg.jobs.invocation.options import command_config_option, debug_option, json_option
from kseg.jobs.invocation.result import Result
from kseg.jobs.output.files import writing_to

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

_LOGGING = "log4j2.properties"
_ENTRY = "kseg_submit.py"
_SOMEWHERE = "spark://HOST:7077"


@click.command(cls=KsegCommand, epilog="Example:  kseg package --out dist --archive --job orders.yaml")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("dist"),
    show_default=True,
    help="The folder to write to.",
)
@click.option(
    "--archive",
    is_flag=True,
    help="Also write an environment for --archives, for executors that have only a Python of the same version.",
)
@click.option("--driver", is_flag=True, help="Also put what a driver in the cluster needs into the archive.")
@click.option(
    "--with",
    "more",
    multiple=True,
    metavar="DISTRIBUTION",
    help="Also put this installed package into the archive. Repeatable.",
)
@click.option("--python-prefix", metavar="DIR", help="The prefix of the workers' Python, if it differs from this one.")
@click.option(
    "--job",
    "job_file",
    metavar="JOB.yaml",
    type=click.Path(dir_okay=False),
    help="Also pack the job's own modules, and show the command that submits the job.",
)
@command_config_option
@json_option
@debug_option
def package(
    invocation: Invocation,
    out: Path,
    archive: bool,
    driver: bool,
    more: tuple[str, ...],
    python_prefix: str | None,
    job_file: str | None,
) -> Result:
    """Pack what a cluster's executors need, and show the spark-submit command.

    Writes kseg as a wheel, and as a zip file for --py-files: this is enough if executors have the required packages
    (`pip install` of the wheel installs them). With --archive, also writes an environment with these packages, copied
    from the one that this command runs in. No network is needed. docs/guides/clusters.md explains which one to use.
    """

    from kseg.jobs.packaging import archive as environment
    from kseg.jobs.packaging.submitting import ENVIRONMENT, Packed, as_text, spark_submit
    from kseg.jobs.packaging.wheel import wheel_bytes, wheel_name, zip_name

    job = load_job(invocation, job_file) if job_file else None
    with writing_to("--out"):
        out.mkdir(parents=True, exist_ok=True)
    invocation.progress.message("packing kseg")
    wheel = wheel_bytes()
    written = [_write(out / wheel_name(), wheel), _write(out / zip_name(), wheel)]
    written.append(_write(out / _ENTRY, _entry()))
    logging = _write(out / _LOGGING, _logging())
    py_files = [written[1]]
    if job is not None and job_file is not None and (modules := _modules(job, Path(job_file))) is not None:
        written.append(_write(out / f"{job.name}-modules.zip", modules))
        py_files.append(written[-1])
    packed = None
    if archive:
        invocation.progress.message("packing the environment (half a gigabyte to compress)")
        packed = (out / f"{Path(zip_name()).stem}-{ENVIRONMENT}.tar.gz").absolute()
        environment.build(packed, driver=driver, more=more, python_prefix=python_prefix)
        written.append(packed)
        py_files = py_files[1:]  # ours are in the archive
    whole = Packed(written[2], tuple(py_files), packed, _jars(job), logging)
    written.append(logging)
    given = job_file or "JOB.yaml"
    master = job.spark.master if job is not None and not job.spark.master.startswith("local") else None
    config = invocation.command_config
    options = ["--command-config", config] if config is not None else []
    client = spark_submit(whole, master or _SOMEWHERE, "client", ["ingest", given, *options])
    commands = {"client": client}
    # A standalone cluster runs Python drivers only in client mode.
    runs_drivers = master is None or not master.startswith("spark://")
    if runs_drivers and (packed is None or driver):
        files = [Path(given), *map(Path, options[1:])]  # Spark copies them into the driver's working folder
        words = ["ingest", files[0].name, *options[:1], *(file.name for file in files[1:])]
        commands["cluster"] = spark_submit(
            whole, master or "yarn", "cluster", words, files=[file.absolute() for file in files]
        )
    document = {
        "out": str(out.absolute()),
        "python": _python(),
        "files": [{"path": str(path), "bytes": path.stat().st_size} for path in written],
        "spark_submit": commands,
    }
    if not invocation.as_json:
        shown = document | {"spark_submit": None}
        return Result(shown, f"packed into {out}; to submit:\n\n{as_text(client)}\n")
    return Result(document, "")


def _write(path: Path, data: bytes) -> Path:
    scratch = path.with_name(f".{path.name}")
    with writing_to("--out"):
        scratch.write_bytes(data)
        return scratch.replace(path).absolute()


def _entry() -> bytes:
    from importlib import resources

    return resources.files("kseg.jobs").joinpath("submit.py").read_bytes()


def _logging() -> bytes:
    """The logging configuration of sessions that kseg starts itself: only errors."""
    from importlib import resources

    return resources.files("kseg.etl.spark").joinpath("log4j2.properties").read_bytes()


def _modules(job: Job, job_file: Path) -> bytes | None:
    from kseg.etl.transform.needed_modules import modules_needed, modules_zip, references_of

    needed = modules_needed(references_of(job), [job_file.absolute().parent])
    return modules_zip(needed) if needed else None


def _jars(job: Job | None) -> tuple[Path, ...]:
    """Delta's jars, unless the job names jars: Spark itself reads tables to verify them, and writes some tables."""
    from kseg.etl.spark.cache import DELTA, jar_folder
    from kseg.etl.spark.session import JAR_KEYS

    if job is not None and any(key in job.spark.conf for key in JAR_KEYS):
        return ()
    return tuple(sorted(jar_folder(DELTA).glob("*.jar")))


def _python() -> str:
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}"

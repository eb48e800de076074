"""JSON records to typed columns in Delta, as whole cold processes: `kseg ingest` with either engine, a script with
confluent-kafka and delta-rs, and dlt.

All tables have the 8 fields of the records as columns (those of the section `typed`); their row counts and the sums of
one column are compared. dlt is in the extra `bench`; without it, the section says that it is not installed.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Collection, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from deltalake import DeltaTable

from kseg.jobs.bench.cold import LOCAL, OURS_SPARK
from kseg.jobs.bench.contenders import WrongCount, job_file
from kseg.jobs.bench.typed import BenchmarkFormat, ColumnSums, formats
from kseg.jobs.bench.usage import Usage, usage_of
from kseg.jobs.bench.workload import BenchTopic

SCRIPT: Final = "confluent_kafka_delta_rs"
DLT: Final = "dlt"
_PEERS: Final = {SCRIPT: "peer_script", DLT: "peer_dlt"}
_PACKAGES: Final = {SCRIPT: ("confluent-kafka", "deltalake"), DLT: ("confluent-kafka", "dlt")}
WAYS: Final = (LOCAL, OURS_SPARK, SCRIPT, DLT)
_SUMMED: Final = "id"

Way = Callable[[Path], tuple[Usage, Path]]
"""Lands the topic below a folder. Returns the table's folder as well."""


def json_format() -> BenchmarkFormat:
    """The records of the topic."""
    return next(form for form in formats() if form.name == "json")


def measure(topic: BenchTopic, folder: Path, *, times: int, ways: Collection[str] = WAYS) -> dict[str, Any]:
    """Median seconds and processor seconds by way, and how many times as fast as the others the local engine is.

    Raises WrongCount: a run landed other rows than the others.
    """
    used: dict[str, list[Usage]] = {}
    sums = ColumnSums((_SUMMED,))
    for number in range(times):
        for way, land in _ways(topic, ways):
            place = folder / f"peers-{way}-{number}"
            place.mkdir()
            try:
                usage, table = land(place)
                _check(way, table, topic.rows, sums)
            finally:
                shutil.rmtree(place, ignore_errors=True)
            used.setdefault(way, []).append(usage)
    seconds = {way: median(usage.seconds for usage in all_of) for way, all_of in used.items()}
    processor = {way: median(usage.cpu_seconds for usage in all_of) for way, all_of in used.items()}
    return {
        "rows": topic.rows,
        "versions": {package: metadata.version(package) for way in used for package in _PACKAGES.get(way, ())},
        "seconds": {way: round(value, 2) for way, value in seconds.items()},
        "cpu_seconds": {way: round(value, 2) for way, value in processor.items()},
        "ratios": {
            f"{LOCAL}_vs_{way}": round(value / seconds[LOCAL], 2) for way, value in seconds.items() if way != LOCAL
        },
    } | ({"not_measured": missing} if (missing := dict(_not_measured())) else {})


def _not_measured() -> Iterator[tuple[str, str]]:
    for way in _PEERS:
        if packages := _missing(way):
            yield way, f"not installed: {', '.join(packages)} (pip install 'kafka-segment-etl[bench]')"


def _ways(topic: BenchTopic, ways: Collection[str]) -> Iterator[tuple[str, Way]]:
    engines: dict[str, Literal["local", "spark"]] = {LOCAL: "local", OURS_SPARK: "spark"}
    for way in WAYS:
        if way in ways and not _missing(way):
            if way in engines:
                yield way, partial(_ours, topic, engines[way])
            else:
                yield way, partial(_peer, topic, _PEERS[way])


def _missing(way: str) -> list[str]:
    return [
        package for package in _PACKAGES.get(way, ()) if importlib.util.find_spec(package.replace("-", "_")) is None
    ]


def _ours(topic: BenchTopic, engine: Literal["spark", "local"], folder: Path) -> tuple[Usage, Path]:
    decode = f"decode: {{value: {json_format().decode}}}\n"
    job = job_file(topic, folder, decode=decode, engine=engine)
    return usage_of("kseg.jobs.cli", "ingest", str(job), "--json"), folder / "table"


def _peer(topic: BenchTopic, module: str, folder: Path) -> tuple[Usage, Path]:
    usage = usage_of(f"kseg.jobs.bench.{module}", topic.servers, topic.name, str(folder))
    return usage, Path(usage.output.splitlines()[-1])


def _check(way: str, table: Path, expected: int, sums: ColumnSums) -> None:
    rows = int(DeltaTable(str(table)).count())
    if rows != expected:
        raise WrongCount(f"{way} landed {rows} rows, the topic has {expected}")
    sums.check(table)

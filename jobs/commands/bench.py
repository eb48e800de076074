"""`kseg bench`: measures throughput, and compares it with Spark's own connector."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import click

from kseg.etl.errors import ConfigurationError
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import common_options
from kseg.jobs.invocation.result import Result

TO_DELTA = "kafka_to_delta_vs_spark_tuned"
TO_NOOP = "kafka_to_noop_vs_spark_tuned"

SECTIONS: Final = (
    "decode",
    "payload",
    "extremes",
    "produce",
    "cold",
    "peers",
    "spark",
    "typed",
    "lake",
    "matrix",
    "floor",
    "far",
    "store",
    "day",
    "memory",
    "files",
    "scaling",
)


RELEASED: Final = "released"
"""The value of `--compare` without a file: compare with the measurements of this release."""

EPILOG = """\b
Examples:
  kseg bench --quick --section files --json
  kseg bench --section matrix --json > before.json
  kseg bench --section matrix --compare before.json
"""


@click.command(cls=KsegCommand, epilog=EPILOG)
@click.option("--quick", is_flag=True, help="Fewer records and rounds: minutes become seconds, figures become rough.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    type=click.Choice(SECTIONS),
    help="Measure only this; repeatable.  [default: all]",
)
@click.option(
    "--compare",
    "baseline",
    metavar="[FILE]",
    is_flag=False,
    flag_value=RELEASED,
    help="Compare the ratios with those of an earlier --json document, or of this release; exit code 3 if one has "
    "fallen by more than a tenth.",
)
@click.option(
    "--plot",
    "picture",
    metavar="FILE.svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the rates of the sections matrix and typed, and the connector's. Needs the extra `plot`.",
)
@common_options
def bench(
    invocation: Invocation, quick: bool, sections: tuple[str, ...], baseline: str | None, picture: Path | None
) -> Result:
    """Measure how fast records and payloads are decoded, produced, read from log files, and landed from Kafka in Delta.

    Spark's own connector, Kafka's DumpLogSegments, other producers and bare decompression are measured in turn on the
    same broker and machine. Shows medians and ratios.
    """

    from kseg.jobs.bench import plot
    from kseg.jobs.bench.efforts import FULL, QUICK
    from kseg.jobs.bench.measuring import measure

    if picture is not None:
        plot.check()
    earlier = None if baseline is None else _read(baseline, quick)
    document = {"quick": quick, **measure(QUICK if quick else FULL, sections or SECTIONS, invocation.progress)}
    if picture is not None:
        plot.plot(document, picture)
    if earlier is None:
        return Result(document, "; ".join(_headlines(document)) or "measured")
    return _compared(earlier, document)


def _read(baseline: str, quick: bool) -> dict[str, Any]:
    """Read the earlier document, before the measurements, which take minutes."""
    if baseline == RELEASED:
        text, name = files("kseg.jobs.bench").joinpath("released.json").read_text(), "this release's"
    else:
        try:
            text, name = Path(baseline).read_text(), baseline
        except OSError as error:
            raise ConfigurationError("--compare: the file cannot be read", file=baseline) from error
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigurationError("--compare: the file is no JSON", file=baseline) from error
    if not isinstance(document, dict) or document.get("quick") is not quick:
        raise ConfigurationError(
            f"--compare: {name} document is not one of `kseg bench{' --quick' if quick else ''} --json`",
            remedy="measure both with --quick, or both without it: figures of few records are others",
            file=baseline,
        )
    return document


def _compared(earlier: Mapping[str, Any], document: dict[str, Any]) -> Result:
    from kseg.jobs.bench.compare import compare

    changes = compare(earlier, document)
    fell = [change.figure for change in changes if change.fell]
    headline = f"{len(changes)} ratios compared, {len(fell)} fell by more than a tenth"
    if not changes:
        headline = "nothing to compare: the earlier document has none of these sections"
    elif fell:
        headline += ": " + ", ".join(fell[:3]) + (" …" if len(fell) > 3 else "")
    shown = [change.to_json() for change in changes]
    failed = bool(fell) or not changes
    return Result(document | {"compared": shown}, headline, exit_code=3 if failed else 0, people={"compared": shown})


def _headlines(document: Mapping[str, Any]) -> Iterator[str]:
    if "ratios" in document:
        ratios = document["ratios"]
        unit = "as fast as Spark's connector, tuned"
        yield f"to Delta {ratios[TO_DELTA]}, to noop {ratios[TO_NOOP]} times {unit}"
    for form, ratios in document.get("typed", {}).get("ratios", {}).items():
        beside = ratios.get("typed_vs_spark_decoded")
        against = f"{beside} times as fast as Spark's from_{form}, " if beside is not None else ""
        yield f"typed rows of {form}: {against}{ratios['typed_vs_ours_raw']} times as fast as the same topic as bytes"
    for case in document.get("lake", {}).get("cases", []):
        yield (
            f"{document['lake']['columns']} columns of {case['case']} by day: {case['ratios']['vs_spark_decoded']} "
            "times as fast as Spark's connector"
        )
    for case in document.get("cold", {}).get("cases", []):
        yield f"{case['case']} in a new process: {case['seconds']['ours_local']} s, {case['seconds']['idle']} s if idle"
    if "peers" in document:
        of_peers = document["peers"]["ratios"]
        beside_peers = ", ".join(
            f"{times} times as fast as {name.split('_vs_')[1]}" for name, times in of_peers.items()
        )
        yield f"JSON to typed columns in a new process, with the local engine: {beside_peers}"
    if "matrix" in document:
        slow = min(document["matrix"], key=lambda entry: float(entry["ratio"]))
        yield f"{slow['workload']}: {slow['ratio']} times as fast, the least of {len(document['matrix'])} workloads"
    if "floor" in document:
        floor = document["floor"]
        yield (
            f"{floor['rows']:,} rows: {floor['ratios']['vs_spark_tuned']} times as fast as Spark's connector, "
            f"{floor['times_bare_parts']} times the processor time of fetching, decoding and writing alone"
        )
    if "far" in document:
        away = document["far"]["ratios"]["far"]
        yield (
            f"through {document['far']['round_trip_ms']} ms: {away['vs_spark_tuned']} times as fast as Spark's "
            f"connector, {away['vs_local']} of the local rate"
        )
    for case in document.get("store", {}).get("cases", []):
        if case["case"].endswith(" ms"):
            yield f"{case['case']}: {case['ratio']} of the rate to a disk, {case['requests']} requests a run"
    if "day" in document:
        first, last = (document["day"]["stages"][stage] for stage in (0, 1))
        yield (
            f"{document['day']['runs']:,} runs of a minute: {first['files']:,} files, after `kseg maintain` "
            f"{last['files']:,}, {last['bytes_in_files']['of_64_mb']:.0%} of the bytes in files of 64 MB"
        )
    if "scaling" in document:
        widest, beside, many = (document["scaling"][what][-1] for what in ("partitions", "planning", "tables"))
        yield (
            f"a plan over {widest['partitions']:,} partitions takes {widest['plan']['seconds']} s; "
            f"its rules, beside {beside['reserved_ranges']:,} ranges of other runs, {beside['incremental_seconds']} s; "
            f"{many['tables']:,} tables land in {many['again']['phases']['land']:.1f} s; "
            f"two workers land {document['scaling']['workers']['two_over_one']} times as fast as one"
        )
    if "files" in document:
        times = [ratio["java_null"] for ratio in document["files"]["ratios"]]
        yield f"files {min(times)} to {max(times)} times as fast as DumpLogSegments, which compiles as it goes"

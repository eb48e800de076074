"""`kseg bench`: how fast, beside Spark's own connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

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
    "spark",
    "typed",
    "matrix",
    "memory",
    "files",
    "scaling",
)


@click.command(cls=KsegCommand, epilog="Example:  kseg bench --quick --section files --json")
@click.option("--quick", is_flag=True, help="Fewer records and rounds: minutes become seconds, figures become rough.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    type=click.Choice(SECTIONS),
    help="Measure only this; repeatable.  [default: all]",
)
@common_options
def bench(invocation: Invocation, quick: bool, sections: tuple[str, ...]) -> Result:
    """Measure how fast records and payloads are decoded, produced, read from log files, and landed from Kafka in Delta.

    Compared in turn, on the same broker and the same machine: Spark's own connector, Kafka's DumpLogSegments, other
    producers, and bare decompression; shows medians and ratios.
    """

    from kseg.jobs.bench.efforts import FULL, QUICK
    from kseg.jobs.bench.measuring import measure

    document = measure(QUICK if quick else FULL, sections or SECTIONS, invocation.progress)
    return Result(document, "; ".join(_headlines(document)) or "measured")


def _headlines(document: Mapping[str, Any]) -> Iterator[str]:
    if "ratios" in document:
        ratios = document["ratios"]
        unit = "as fast as Spark's connector, tuned"
        yield f"to Delta {ratios[TO_DELTA]}, to noop {ratios[TO_NOOP]} times {unit}"
    for form, ratios in document.get("typed", {}).get("ratios", {}).items():
        beside = ratios.get("typed_vs_spark_decoded")
        against = f"{beside} times as fast as Spark's from_{form}, " if beside is not None else ""
        yield f"typed rows of {form}: {against}{ratios['typed_vs_ours_raw']} times as fast as the same topic as bytes"
    if "matrix" in document:
        slow = min(document["matrix"], key=lambda entry: float(entry["ratio"]))
        yield f"{slow['workload']}: {slow['ratio']} times as fast, the least of {len(document['matrix'])} workloads"
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

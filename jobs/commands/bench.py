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

SECTIONS: Final = ("decode", "payload", "produce", "cold", "spark", "memory", "files", "scaling")


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

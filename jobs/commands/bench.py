"""`kseg bench`: how fast, beside Spark's own connector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobs.commands.running import Result, common_options, execute

TO_DELTA = "kafka_to_delta_vs_spark_tuned"
TO_NOOP = "kafka_to_noop_vs_spark_tuned"

if TYPE_CHECKING:
    from etl.progress import Progress


@click.command(epilog="Example:  kseg bench --quick --json")
@click.option("--quick", is_flag=True, help="Fewer records and rounds: minutes become seconds, figures become rough.")
@common_options
def bench(quick: bool, as_json: bool, debug: bool) -> None:
    """Measure the decoder by codec, producing, and the whole way from Kafka to Delta beside Spark's own connector.

    Both sides run in turn on the same broker and the same machine; medians and ratios are told.
    """

    def work(progress: Progress) -> Result:
        from jobs.bench.measuring import measure

        document = measure(quick=quick, progress=progress)
        ratios = document["ratios"]
        told = "as fast as Spark's connector, tuned"
        headline = f"to Delta {ratios[TO_DELTA]}, to noop {ratios[TO_NOOP]} times {told}"
        return Result(document, headline)

    execute(work, as_json=as_json, debug=debug)

"""The demo: a real Kafka, a topic with hard cases, two runs of a job, and an independent reader that checks the table;
then Avro orders by a real Schema Registry, with a schema change, dead letters and a redrive, checked likewise.

Everything it leaves lies in ``demo-output/``: the job files, the Delta tables, the ledgers, and the broker's files.
Broker and registry are gone at the end, also after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kseg.etl.errors import KsegError
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import use_java
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.demo import show, typed_orders
from kseg.jobs.demo.group import DemoPartition, partition_states
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.jobs.demo.runner import RunFailed, ingest, redrive, write_job, write_orders_job
from kseg.jobs.demo.typed_orders import Verified
from kseg.jobs.demo.verify import RowComparison, compare, read_topic
from kseg.jobs.invocation.failures import TerminatedError
from kseg.jobs.invocation.stopping import stoppable
from kseg.jobs.registry.process import EmbeddedRegistry
from kseg.jobs.setup import fetch_jars

GROUP = "demo-etl"
ROUNDS = 2

Advance = Callable[[int], None]


@dataclass
class DemoTotals:
    """The text of the demo's last line."""

    rows: int = 0
    aborted: int = 0
    control: int = 0
    runs: int = 0
    ends: dict[int, int] = field(default_factory=dict)

    def add(self, report: Mapping[str, Any]) -> None:
        """Count one run's report in."""
        counts = report["counts"]
        self.rows += counts["records"]
        self.aborted += counts["aborted"]
        self.control += counts["control"]
        self.runs += 1
        for found in report["ranges"]:
            self.ends[found["partition"]] = max(self.ends.get(found["partition"], 0), found["end"])


@click.command()
@click.option("--dir", "directory", default="demo-output", show_default=True, type=click.Path(path_type=Path))
@click.option("--scale", default=1.0, show_default=True, help="Times as many records.")
def main(directory: Path, scale: float) -> None:
    """Run a real job on a real Kafka, from nothing to a verified Delta table."""
    console = Console(highlight=False)
    try:
        with stoppable():
            run(directory, scale, console)
    except (KeyboardInterrupt, TerminatedError) as error:
        console.print("demo: interrupted; nothing runs any more")
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 143)
    except (KsegError, RunFailed) as error:
        remedy = getattr(error, "remedy", None)
        console.print(f"demo: FAILED {error}" + (f"\n{remedy}" if remedy else ""), markup=False)
        sys.exit(1)


def run(directory: Path, scale: float, console: Console) -> None:
    """The whole demo. Raises KsegError, RunFailed; exits with 1 where table and topic differ."""
    began = time.monotonic()
    use_java()
    fetch_jars(jars.KAFKA)
    fetch_jars(jars.APICURIO)
    job = _fresh(directory) / "demo.yaml"
    totals = DemoTotals()
    with _bars(console) as bars:
        started = bars.spin("Starting Kafka")
        kafka = EmbeddedKafka(directory / "kafka")
        with kafka:
            bars.done(started, f"Kafka {kafka.version} on {kafka.bootstrap_servers}")
            with HardTopic(kafka.bootstrap_servers, scale=scale) as topic:
                topic.create()
                write_job(job, bootstrap_servers=kafka.bootstrap_servers, topic=topic.name, group=GROUP)
                for number in range(1, ROUNDS + 1):
                    advance = bars.count(f"Round {number}: producing", topic.round_size)
                    written = topic.write_round(advance)
                    bars.pause()
                    console.print(show.written(number, written))
                    report = ingest(job)
                    totals.add(report)
                    show.run(console, number, report)
                    bars.resume()
                states = partition_states(kafka.bootstrap_servers, GROUP, topic.name, topic.partitions)
                table, comparison = _verify(kafka.bootstrap_servers, topic.name, directory, totals, bars)
            verified = _orders(kafka.bootstrap_servers, directory, scale, console, bars)
    show.first_rows(console, table)
    show.group(console, GROUP, states)
    show.held_back(console, report)
    _finish(console, directory, totals, states, comparison, verified, time.monotonic() - began)


def _verify(servers: str, topic: str, directory: Path, totals: DemoTotals, bars: Bars) -> tuple[Any, RowComparison]:
    table = _table(directory / "lake" / topic)
    advance = bars.count("Verifying with librdkafka", totals.rows)
    return table, compare(read_topic(servers, topic, totals.ends, advance), table)


def _table(place: Path) -> Any:
    from deltalake import DeltaTable
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    path = str(place.absolute())
    # Arrow's own file system: through delta-rs's, which is Python, its threads may abort the process as it ends.
    files = SubTreeFileSystem(path, LocalFileSystem())
    return DeltaTable(path).to_pyarrow_table(filesystem=files)


def _orders(servers: str, directory: Path, scale: float, console: Console, bars: Bars) -> Verified:
    """The second topic: two runs, a redrive, and its verification."""
    job = directory / "orders.yaml"
    started = bars.spin("Starting a Schema Registry")
    with EmbeddedRegistry(directory / "registry", light=True) as registry:
        bars.done(started, f"Apicurio Registry on {registry.url}")
        given: dict[str, Any] = {"bootstrap_servers": servers, "registry": registry.url, "topic": typed_orders.TOPIC}
        write_orders_job(job, expect=True, **given)
        count = max(1_000, int(typed_orders.ORDERS * scale))
        orders = typed_orders.Orders(servers, registry.url, count)
        orders.create()
        for number in range(1, ROUNDS + 1):
            advance = bars.count(f"Orders {number}: producing", count)
            written = orders.write_round(advance)
            bars.pause()
            report = ingest(job)
            show.orders(console, number, written, report)
            bars.resume()
        bars.pause()
        write_orders_job(job, expect=False, **given)
        show.redriven(console, redrive(job))
        bars.resume()
        spun = bars.spin("Verifying with librdkafka and fastavro")
        tables = (
            _table(directory / "lake" / name) for name in (typed_orders.TOPIC, f"{typed_orders.TOPIC}_dead_letters")
        )
        verified = typed_orders.verify(servers, registry.url, *tables)
        bars.done(spun, f"{verified.rows:,} typed orders verified with librdkafka and fastavro")
        return verified


def _finish(
    console: Console,
    directory: Path,
    totals: DemoTotals,
    states: list[DemoPartition],
    comparison: RowComparison,
    orders: Verified,
    seconds: float,
) -> None:
    faults = [*comparison.faults, *orders.faults]
    faults += [
        f"partition {state.partition}: the group is at {state.committed}, the ranges end at {end}"
        for state in states
        if state.committed != (end := totals.ends.get(state.partition, 0))
    ]
    if comparison.verified != totals.rows:
        faults.append(f"{totals.rows} rows were landed, {comparison.verified} verified")
    for fault in faults:
        console.print(f"demo: {fault}", markup=False, soft_wrap=True)
    places = f"the table is in {directory / 'lake'}, the job in {directory / 'demo.yaml'}, "
    places += f"the stopped broker's files in {directory / 'kafka' / 'node-1' / 'data'}"
    console.print(f"{seconds:.0f} s in all; {places}", style="dim", markup=False, soft_wrap=True)
    counts = f"rows={totals.rows} aborted={totals.aborted} control={totals.control} runs={totals.runs}"
    typed = f"orders={orders.rows} dead={orders.dead}"
    console.print(
        f"demo: {'FAILED' if faults else 'OK'} {counts} verified={comparison.verified} {typed}", soft_wrap=True
    )
    if faults:
        sys.exit(1)


def _fresh(directory: Path) -> Path:
    """The output directory without an earlier demo's results; what else lies there stays."""
    for name in ("lake", "kafka", "registry"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("demo.yaml", "orders.yaml"):
        (directory / name).unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


class Bars:
    """The demo's progress bars; they pause while a run shows its own."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def spin(self, text: str) -> Any:
        return self._progress.add_task(text, total=None)

    def done(self, task: Any, text: str) -> None:
        self._progress.update(task, description=text, total=1, completed=1)

    def count(self, text: str, total: int) -> Advance:
        task = self._progress.add_task(text, total=total)
        return lambda amount: self._progress.advance(task, amount)

    def pause(self) -> None:
        self._progress.stop()
        for task in list(self._progress.task_ids):
            self._progress.remove_task(task)

    def resume(self) -> None:
        self._progress.start()


@contextmanager
def _bars(console: Console) -> Iterator[Bars]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield Bars(progress)

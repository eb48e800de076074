"""A number in a property is what the file says; elsewhere one that YAML readers disagree about is a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import Diagnostic

Load = Callable[..., Job]
Faults = Callable[..., list[Diagnostic]]

NUMBERS = ("027", "010", "3.10", "0x1F", "0b11", "1_0", "1e3", "1.0e+3", "+5", "-0", ".5", "007.50", ".inf", "500")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_in_a_property_is_what_the_file_says(load: Load, number: str) -> None:
    kafka = f"kafka: {{bootstrap.servers: 'a:1', client: {{id: {number}}}, client.rack: [{number}, x]}}"
    job = load(
        "version: 1\nname: orders\nsource:\n  topics: [orders]\n"
        f"  segments: {{paths: [./logs], options: {{x.mode: {number}}}}}\n"
        f"sink: {{path: ./orders}}\nledger: ./ledger\ngroup: g\n{kafka}\n"
        f"spark: {{conf: {{spark.hadoop.fs.permissions.umask-mode: {number}, spark.on: on, spark.off: FALSE}}}}\n"
    )
    assert job.kafka is not None
    assert job.source.segments is not None
    assert (job.kafka["client.id"], job.kafka["client.rack"]) == (number, f"{number},x")
    assert job.source.segments.options == {"x.mode": number}
    conf = {"spark.hadoop.fs.permissions.umask-mode": number, "spark.on": "on", "spark.off": "FALSE"}
    assert job.spark.conf == conf
    assert load_job(job.pinned()).spark.conf == conf


@pytest.mark.parametrize("number", ["0100", "-010", "0x64", "0b110", "1_000"])
@pytest.mark.parametrize(
    ("section", "path"),
    [
        ("source: {topics: [orders], max_records_per_task: N}", "source.max_records_per_task"),
        ("source: {assign: {orders: [N]}}", "source.assign.orders[0]"),
        ("sink: {path: ./x, dead_letters: {max: N}}", "sink.dead_letters.max"),
        ("run: {max_records: N}", "run.max_records"),
        ("airflow: {pool: p, pool_slots: N}", "airflow.pool_slots"),
    ],
)
def test_a_whole_number_that_yaml_reads_as_another_one_is_a_fault(
    faults: Faults, section: str, path: str, number: str
) -> None:
    [fault] = [fault for fault in faults(f"version: 1\n{section.replace('N', number)}\n") if fault.path == path]
    assert "leading zero" in fault.message
    assert fault.remedy is not None
    assert "decimal digits" in fault.remedy
    assert fault.line == 2


def test_a_partition_that_yaml_reads_as_another_one_is_a_fault(faults: Faults) -> None:
    found = faults("version: 1\nsource: {topics: [t], starting_offsets: {t: {010: 5, 1: 0_7}}}\n")
    paths = {fault.path for fault in found if "leading zero" in fault.message}
    assert paths == {"source.starting_offsets.t.010", "source.starting_offsets.t.1"}

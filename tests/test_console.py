"""README.md, tutorials and some guides, followed: their commands run on a real Kafka, and print what the pages show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from console import Command, Reader, commands, missing_line, steps
from kafkas import PATIENCE
from kseg.jobs.broker import detached
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.jobs.registry import detached as detached_registry

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
GUIDES = [ROOT / "docs" / "guides" / f"{name}.md" for name in ("evolution", "protobuf")]
#: tests/airflow/test_first_steps.py follows it, in Airflow's environment.
WITH_AIRFLOW = ROOT / "docs" / "tutorials" / "airflow.md"


@pytest.fixture
def orders(kafka_of: Any) -> Iterator[str]:
    """The Kafka that README.md's reader has: its address, with some orders in it."""
    with EmbeddedKafka(light=True, start_timeout=PATIENCE) as broker:
        servers = kafka_of(broker).bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(PATIENCE)
        producer = Producer({"bootstrap.servers": servers})
        for number in range(6000):
            day = f"2026-01-{number % 28 + 1:02d}T12:00:00Z"
            order = {"id": 1000 + number, "customer": "ann", "amount": 9.5, "created_at": day, "items": []}
            producer.produce("orders", json.dumps(order).encode())
        assert producer.flush(PATIENCE) == 0
        yield servers


@pytest.fixture
def reader_of(tmp_path: Path) -> Iterator[Any]:
    """reader_of(replaced): a reader in an empty folder."""
    readers: list[Reader] = []

    def made(replaced: dict[str, str]) -> Reader:
        readers.append(Reader(tmp_path, replaced))
        return readers[-1]

    yield made
    for reader in readers:
        reader.close()
    if (tmp_path / "kafka").exists():  # of a tutorial that failed before it stopped its broker
        detached.stop(tmp_path / "kafka")
    if (tmp_path / "registry").exists():
        detached_registry.stop(tmp_path / "registry")


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_readme_run(orders: str, reader_of: Any) -> None:
    reader_of({"localhost:9092": orders}).follow((ROOT / "README.md").read_text())


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page", [page for page in [*TUTORIALS, *GUIDES] if page != WITH_AIRFLOW], ids=lambda page: page.stem
)
def test_a_tutorial_runs(page: Path, reader_of: Any) -> None:
    reader_of({}).follow(page.read_text())


def test_every_tutorial_has_something_to_do() -> None:
    assert len(TUTORIALS) > 2
    for page in [ROOT / "README.md", *TUTORIALS, *GUIDES]:
        assert page == WITH_AIRFLOW or sum(isinstance(step, Command) for step in steps(page.read_text())) > 3


def test_commands_go_on_after_a_backslash_and_output_is_below_them() -> None:
    block = "$ one \\\n    --more\n  shown\n$ two   # exit 3\n"
    assert list(commands(block)) == [Command("one \\\n    --more", ("  shown",)), Command("two   # exit 3", ())]
    assert [command.exit_code for command in commands(block)] == [0, 3]


@pytest.mark.parametrize(
    ("shown", "missing"),
    [((), None), (("b  2",), None), (("a …", "c"), None), (("c", "a 1"), "a 1"), (("b",), "b")],
)
def test_shown_lines_are_found_in_order(shown: tuple[str, ...], missing: str | None) -> None:
    assert missing_line(shown, "a 1\nb 2\nc\n") == missing


def test_a_command_that_ends_otherwise_fails_the_test(reader_of: Any) -> None:
    reader = reader_of({})
    with pytest.raises(AssertionError, match="exit 3"):
        reader.follow("```console\n$ (exit 3)\n```\n")
    with pytest.raises(AssertionError, match="the page shows 'two'"):
        reader.follow("```console\n$ echo one\ntwo\n```\n")
    reader.follow('```text title="x"\nold\n```\n```console\n$ sed s/old/new/ x\nn…w\n$ (exit 3)  # exit 3\n```\n')

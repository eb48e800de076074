"""README.md, tutorials and some guides, followed: their commands run on a real Kafka, and print what the pages show.

README.md's commands are processes that start anew, in the full scale those of all pages. Else other pages' are forked
from one that has everything imported, and work on the tests' JVM (`harness/forked_commands.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import light_java
from console import Command, Reader, commands, missing_line, steps
from kseg.etl.spark.cache import DELTA, jar_folder
from kseg.jobs.broker import detached
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.registry import detached as detached_registry
from skips import FULL, full_scale_only

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
GUIDES = [ROOT / "docs" / "guides" / f"{name}.md" for name in ("evolution", "protobuf")]
#: tests/airflow/test_first_steps.py follows it, in Airflow's environment.
WITH_AIRFLOW = ROOT / "docs" / "tutorials" / "airflow.md"


def another_port() -> dict[str, str]:
    """Pages start a Kafka at its usual port, which may be in use here."""
    (port,) = free_ports(1)
    return {"9092": str(port)}


@pytest.fixture
def reader_of(tmp_path: Path) -> Iterator[Any]:
    """reader_of(replaced, programs): a reader in an empty folder. With programs of the tests' own, what they start has
    light JVMs."""
    readers: list[Reader] = []

    def made(replaced: dict[str, str], programs: Path | None = None) -> Reader:
        readers.append(Reader(tmp_path, replaced, programs, None if programs is None or FULL else light_java.JAVA))
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
def test_the_commands_of_the_readme_run(reader_of: Any) -> None:
    reader_of(another_port()).follow((ROOT / "README.md").read_text())


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "page", [page for page in [*TUTORIALS, *GUIDES] if page != WITH_AIRFLOW], ids=lambda page: page.stem
)
def test_a_tutorial_runs(page: Path, reader_of: Any, kseg_folder: Path) -> None:
    reader_of(another_port(), kseg_folder).follow(page.read_text())


#: What stands in a reader's topic before they read on.
RECORDS = """```console
$ for n in $(seq 20); do echo "{\\"id\\": $n, \\"amount\\": 0.5}"; done | kseg produce orders --bootstrap localhost:9092
```
"""


@pytest.mark.broker
@pytest.mark.spark  # its commands start none, but share the folder of programs with those that do
@pytest.mark.timeout(1800)
def test_the_guide_to_topics_runs(reader_of: Any, kseg_folder: Path, kafka: Any) -> None:
    reader = reader_of({"localhost:9092": kafka.bootstrap_servers, "orders": kafka.topic()}, kseg_folder)
    for page in (RECORDS, (ROOT / "docs" / "guides" / "topics.md").read_text()):
        reader.follow(page)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@full_scale_only
def test_the_guide_to_newest_rows_runs(reader_of: Any, kseg_folder: Path) -> None:
    delta = ",".join(map(str, sorted(jar_folder(DELTA).glob("*.jar"))))
    here = {"--packages io.delta:delta-spark_4.2_2.13:4.4.0": f"--jars {delta} --conf spark.sql.shuffle.partitions=2"}
    reader_of(here, kseg_folder).follow((ROOT / "docs" / "guides" / "newest-per-key.md").read_text())


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

"""`import kseg`: it loads nothing, its table of names is right; the examples of docs/reference/python-api.md run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import kseg
from kseg.etl.config.load import job_from_document

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python-api.md"
FUNCTIONS = {"load_job", "run", "backfill", "plan", "status", "verify", "read", "write_kafka"}


def test_the_import_alone_loads_nothing() -> None:
    script = (
        "import __future__, importlib, sys\n"
        "before = set(sys.modules)\n"
        "import kseg\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "dir(kseg), kseg.__all__\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["kseg", "kseg"]


def test_errors_load_no_spark() -> None:
    script = "import sys, kseg; kseg.Refused, kseg.NullProgress; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)


def test_all_lists_of_names_agree() -> None:
    typed: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(kseg.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kseg."):
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name}: type checkers take it for a private name"
                typed[alias.name] = node.module or ""
    assert typed == kseg._MODULES
    assert sorted(kseg.__all__) == sorted(typed)
    assert set(typed) | {"__version__"} <= set(dir(kseg))
    for name, module in typed.items():
        assert getattr(kseg, name).__module__ == module
    assert kseg.__version__ == version("kafka-segment-etl")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kseg.no_such_name


def test_the_page_names_everything() -> None:
    text = PAGE.read_text()
    assert [name for name in kseg.__all__ if not re.search(rf"\b{name}\b", text)] == []


JOB: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": {"bootstrap.servers": "${SERVERS}", "security": {"protocol": "SSL"}},
    "source": {"topics": ["orders"]},
    "sink": {"path": "./lake"},
    "group": "orders-etl",
    "ledger": "./ledger",
}


def test_a_job_from_a_mapping_is_that_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.yaml").write_text(yaml.safe_dump(JOB))
    env = {"SERVERS": "a:1"}
    of_file, of_mapping = kseg.load_job("orders.yaml", env=env), kseg.load_job(JOB, env=env)
    assert of_file.pinned() == of_mapping.pinned()
    assert of_file.config_hash == of_mapping.config_hash
    assert of_mapping.client_config().bootstrap_servers == (("a", 1),)
    assert job_from_document(JOB, env=env).name == "orders"


def test_overrides_are_merged_into_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"source": {"max_records_per_task": 7}, "name": "other", "group": None}
    job = kseg.load_job(JOB, env={"SERVERS": "a:1"}, client_properties={"client.id": "me"}, **given)
    assert (job.name, job.group, job.source.max_records_per_task) == ("other", None, 7)
    assert job.source.topics == ("orders",)
    assert job.kafka_properties()["client.id"] == "me"
    assert JOB["source"] == {"topics": ["orders"]}
    on_server = kseg.load_job(JOB, env={"SERVERS": "a:1"}, spark={"remote": "sc://host:15002"})
    assert on_server.spark.remote == "sc://host:15002"
    assert on_server.config_hash == kseg.load_job(JOB, env={"SERVERS": "a:1"}).config_hash
    with pytest.raises(kseg.ConfigurationError) as caught:
        kseg.load_job(JOB, env={"SERVERS": "a:1"}, sink={"pth": "x"}, nonsense=1)
    assert {fault.path for fault in caught.value.faults} == {"sink.pth", "nonsense"}


def test_times_have_a_time_zone() -> None:
    naive = datetime(2026, 1, 1)
    with pytest.raises(kseg.ConfigurationError):
        kseg.read(None, topics=["orders"], starting_timestamp=naive)  # type: ignore[arg-type]
    with pytest.raises(kseg.ConfigurationError):
        kseg.backfill(None, from_=naive, to=naive)  # type: ignore[arg-type]


@pytest.mark.broker
@pytest.mark.spark
def test_the_examples_of_the_page(kafka: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word by word, but for the broker's address, the topics' names and the folder of log files."""
    monkeypatch.chdir(tmp_path)
    topic, copy = kafka.topic(1, {"retention.ms": "-1"}, prefix="orders"), kafka.topic(1, prefix="copy")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number, day in enumerate((1, 1, 1, 3)):
        at = datetime(2026, 1, day, 12, number, tzinfo=UTC)
        producer.produce(topic, b"v%d" % number, key=b"k", timestamp=int(at.timestamp() * 1000))
        producer.flush()
    (log_dir,) = kafka.log_dirs
    here = {
        "localhost:9092": kafka.bootstrap_servers,
        '"orders"': f'"{topic}"',
        "[orders]": f"[{topic}]",
        '"orders-copy"': f'"{copy}"',
        "/var/lib/kafka/data": str(log_dir),
        "orders-etl": f"{topic}-etl",
        "orders-export": f"{topic}-export",
    }
    text = PAGE.read_text()
    for named, actual in here.items():
        assert named in text
        text = text.replace(named, actual)
    # The job's own name is no topic.
    text = text.replace(f'"name": "{topic}"', '"name": "orders"')
    blocks = re.findall(r"^```(yaml|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (job_file,) = (code for kind, code in blocks if kind == "yaml")
    (tmp_path / "orders.yaml").write_text(job_file)
    names: dict[str, Any] = {"spark": spark, "__name__": "page"}
    source = "\n".join(code for kind, code in blocks if kind == "python")
    exec(compile(source, str(PAGE), "exec"), names)

    assert sum(r.end - r.start for r in names["planned"].ranges) == 4
    assert names["report"].status == "done"
    assert [table.rows for table in names["report"].tables] == [4]
    assert names["same"].config_hash == names["job"].config_hash
    assert (names["again"].status, names["day"].status) == ("done", "nothing-to-do")
    assert names["interval"].status in ("done", "nothing-to-do")
    assert (names["status"].lag, names["verified"].ok) == (0, True)
    assert (names["rows"].count(), names["files"].count()) == (3, 3)
    assert (names["written"].rows, names["written"].already_done) == (3, False)
    called = set(re.findall(r"kseg\.(\w+)\(", source))
    assert called >= FUNCTIONS
    of_page = kseg.run(names["job"], progress=names["Phases"]())
    assert of_page.status == "nothing-to-do"

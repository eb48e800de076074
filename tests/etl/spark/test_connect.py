"""Jobs and sources on a real Spark Connect server.

Clients are processes of their own: Connect's session and one with a JVM do not go together in one.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from connect_server import ConnectServer
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.range_result import RangeResult
from kseg.etl.spark.connect import _packed, retries
from kseg.etl.spark.connect_probe import digest
from kseg.etl.spark.range_result_files import RangeResultFiles
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.transform.needed_modules import modules_needed, references_of
from skips import full_scale_only

STEPS = """
import pyarrow as pa
from connect_words import upper

def shout(batch):
    return batch.append_column("loud", upper(batch.column("value")))

def tidy(rows):
    return rows.where("loud <> 'V1'")
"""
WORDS = """
import pyarrow as pa
import pyarrow.compute as pc

def upper(column):
    return pc.utf8_upper(pc.cast(column, pa.string()))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


def write(servers: str, topic: str, values: list[bytes], *, abort: bool = False) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, partition=number % 2, value=value)
    producer.flush(60)  # what has not been sent yet an abort would only drop
    producer.abort_transaction(60) if abort else producer.commit_transaction(60)


@pytest.fixture
def home(kafka: Any, await_markers: Callable[[str, str], None], tmp_path: Path) -> Callable[..., Path]:
    """home(**sections): a job of its own on a topic with 20 committed records and 6 aborted ones; its file."""

    def home(**sections: Any) -> Path:
        topic = kafka.topic(partitions=2)
        write(kafka.bootstrap_servers, topic, [b"v%d" % n for n in range(20)])
        write(kafka.bootstrap_servers, topic, [b"aborted"] * 6, abort=True)
        await_markers(kafka.bootstrap_servers, topic)
        document = {
            "version": 1,
            "name": topic,
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
            "source": {"topics": [topic]},
            "sink": {"path": str(tmp_path / "lake")},
            "group": f"{topic}-etl",
            "ledger": str(tmp_path / "ledger"),
            **sections,
        }
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(document))
        (tmp_path / "connect_steps.py").write_text(STEPS)
        (tmp_path / "connect_words.py").write_text(WORDS)
        return file

    return home


def kseg(*words: str, path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(path)])), **environ}
    command = [sys.executable, "-m", "kseg.jobs.cli", *words, "--json"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)


def told(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


CHILD = """
import os, signal, sys
from kseg.etl.config.load import load_job
from kseg.etl.run.pipeline import run_ingest
file, url, at = sys.argv[1:]
def observe(step):
    if step.endswith(at):
        os.kill(os.getpid(), signal.SIGKILL)
run_ingest(load_job(file).on_remote(url), take_over=True, observe=observe)
"""


@pytest.mark.broker
@pytest.mark.spark
@full_scale_only
def test_a_client_that_is_killed_and_rows_that_are_verified(server: ConnectServer, home: Any, tmp_path: Path) -> None:
    """Killed before its commit and after it: the next one takes the run up, and every record stands there once."""
    file = home()
    for step in (":before", ":committed"):
        child = [sys.executable, "-c", CHILD, str(file), server.url, f"lake{step}"]
        assert subprocess.run(child, timeout=500, check=False).returncode == -9
    report = told(kseg("ingest", str(file), "--take-over", path=tmp_path, SPARK_REMOTE=server.url))
    assert (report["status"], report["counts"]["records"]) == ("done", 20)
    assert report["group"]["offsets"]
    assert DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().num_rows == 20
    verdict = told(kseg("verify", str(file), "--remote", server.url, path=tmp_path))
    assert (verdict["ok"], verdict["tables"][0]["rows"]) == (True, 20)


@pytest.mark.broker
@pytest.mark.spark
@full_scale_only
def test_decoded_rows_that_are_routed(server: ConnectServer, home: Any, tmp_path: Path) -> None:
    """The client is killed when one of the two tables has its rows."""
    routes = {"v3": {"path": str(tmp_path / "one")}, "*": {"path": str(tmp_path / "rest")}}
    decode = {"value": {"format": "string", "as": "word"}}
    file = home(decode=decode, sink={"route_by": "value.word", "routes": routes})
    child = [sys.executable, "-c", CHILD, str(file), server.url, "one:committed"]
    assert subprocess.run(child, timeout=500, check=False).returncode == -9
    report = told(kseg("ingest", str(file), "--take-over", "--remote", server.url, path=tmp_path))
    assert (report["status"], report["counts"]["records"]) == ("done", 20)
    landed = {name: DeltaTable(str(tmp_path / name)).to_pyarrow_table()["word"].to_pylist() for name in ("one", "rest")}
    assert landed["one"] == ["v3"]
    assert sorted(landed["rest"]) == sorted(f"v{n}" for n in range(20) if n != 3)
    assert told(kseg("verify", str(file), "--remote", server.url, path=tmp_path))["ok"]


HOLD = """
import pathlib, time

def hold(batch):
    folder = pathlib.Path({folder!r})
    if batch.num_rows:  # an empty one asks for the columns, in the client
        (folder / "reading").touch()
    while batch.num_rows and not (folder / "go").exists():
        time.sleep(0.05)
    return batch
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_server_that_is_killed_while_its_tasks_read_a_job_with_all_kinds_of_steps(
    server: ConnectServer, home: Any, tmp_path: Path
) -> None:
    """The command ends and says so; on the server that comes after it the run is taken up, and each record lands once.
    Results travel through files here, and the user's modules are sent, with what they import."""
    (tmp_path / "connect_hold.py").write_text(HOLD.format(folder=str(tmp_path)))
    steps = [
        {"arrow": "connect_hold:hold"},
        {"arrow": "connect_steps:shout"},
        {"sql": "SELECT *, length(loud) AS n FROM __rows__"},
        {"sql": "SELECT *, n + 1 AS m FROM __rows__"},
        {"python": "connect_steps:tidy"},
    ]
    file = home(transform=steps, run={"deadline": "1s"})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(kseg, "ingest", str(file), "--remote", server.url, path=tmp_path)
        try:
            while not (tmp_path / "reading").exists():
                assert not run.done(), run.result()
                time.sleep(0.05)
        finally:
            server.kill()
        away = told(run.result(), code=4)
    server.start()
    assert (away["error"]["kind"], away["error"]["retriable"]) == ("RetriableFailure", True)
    assert "the Spark Connect server" in away["error"]["message"]
    (tmp_path / "go").touch()
    report = told(kseg("ingest", str(file), "--remote", server.url, path=tmp_path))
    counts = report["counts"]
    assert report["status"] == "done"
    assert (counts["records"], counts["aborted"], counts["rows_in"], counts["rows_out"]) == (20, 6, 20, 19)
    rows = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().to_pylist()
    assert sorted(row["loud"] for row in rows) == sorted(f"V{n}" for n in range(20) if n != 1)
    assert {row["m"] for row in rows} == {3, 4}
    assert not (tmp_path / "lake" / "_kseg_outcomes").exists()


@pytest.mark.broker
@pytest.mark.spark
@full_scale_only
def test_backfills_and_recoveries(server: ConnectServer, kafka: Any, home: Any, tmp_path: Path) -> None:
    file = home()
    topic = load_job(file).source.topics[0]
    asked = ["backfill", str(file), "--from", f"{topic}:0:0", "--to", f"{topic}:0:5", "--remote", server.url]
    for status in ("done", "nothing-to-do"):  # the second one tells of the first
        report = told(kseg(*asked, path=tmp_path))
        assert (report["status"], report["counts"]["records"]) == (status, 5)
    assert DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()["offset"].to_pylist() == list(range(5))
    recovered = str(tmp_path / "recovered")
    where = ["--to", recovered, "--topics", topic, "--remote", server.url]
    told(kseg("recover", str(kafka.log_dirs[0]), *where, path=tmp_path))
    assert DeltaTable(recovered).to_pyarrow_table().num_rows == 20


@pytest.mark.broker
@pytest.mark.spark
@full_scale_only
def test_a_table_that_the_server_maintains(server: ConnectServer, home: Any, tmp_path: Path) -> None:
    """VACUUM asked for a SparkContext, which a client of Spark Connect does not have."""
    sink = {"path": str(tmp_path / "lake"), "cluster_by": ["offset"], "single_driver": True}
    file = home(sink=sink, spark={"remote": server.url})
    told(kseg("ingest", str(file), path=tmp_path))
    (orphan := tmp_path / "lake" / "orphan.parquet").write_bytes(b"12345")
    os.utime(orphan, (0, 0))
    report = told(kseg("maintain", str(file), "--optimize", "--vacuum", "7d", path=tmp_path))
    assert [table["by"] for table in report["tables"]] == ["spark"]
    assert not orphan.exists()


REFUSED = """
import sys
from kseg.etl.spark import connect
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError

class Later:
    version_info = (3, 99)

opened, equip = [], connect.equip
connect.equip = lambda session, job: (opened.append(session), equip(session, job))
connect.sys = Later
try:
    connect.open_remote(load_job(sys.argv[1]).on_remote(sys.argv[2]))
except ConfigurationError as error:
    print(error)
print("stopped:", [session.is_stopped for session in opened])
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_session_that_is_refused_is_given_up(server: ConnectServer, home: Any) -> None:
    """A session that nobody stops keeps its state at the server until that forgets it, after an hour."""
    child = [sys.executable, "-c", REFUSED, str(home()), server.url]
    done = subprocess.run(child, capture_output=True, text=True, timeout=300, check=False)
    assert "run Python 3." in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "stopped: [True]"


def test_requests_are_sent_again_within_the_deadline() -> None:
    assert [retries(deadline) for deadline in (0.01, 1, 5, 3600)] == [0, 2, 4, 6]


CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from kseg.etl.kafka_writer.transactional import write_kafka
url, servers, topic, target, folder, register = sys.argv[1:]
spark = SparkSession.builder.remote(url).create()
if register == "register":
    from kseg.etl.spark.connect import send_packages
    from kseg.etl.spark_format.datasource import KsegDataSource
    send_packages(spark)
    spark.dataSource.register(KsegDataSource)
options = {"kafka.bootstrap.servers": servers, "kafka.isolation.level": "read_committed", "subscribe": topic}
rows = spark.read.format("kseg").options(**options).load()
told = {"read": rows.count()}
rows.select("key", "value").write.format("kseg").options(**{"kafka.bootstrap.servers": servers, "topic": target}) \\
    .mode("append").save()
told["written"] = spark.read.format("kseg").options(**{**options, "subscribe": target}).load().count()
stream = spark.readStream.format("kseg").options(**options, startingOffsets="earliest").load().writeStream
query = stream.format("delta").option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
for attempt in range(10):
    try:
        assert query.start(folder + "/stream").awaitTermination(300)
        break
    except Exception as error:  # Spark gives a source's process ten seconds to start, also where a machine is busy
        if "failed to connect back" not in str(error) or attempt == 9:
            raise
told["streamed"] = spark.read.format("delta").load(folder + "/stream").count()
try:
    write_kafka(rows, transactional_id="t", topic=target, options={"bootstrap.servers": servers})
except Exception as error:
    told["refused"] = str(error)
spark.stop()
print(json.dumps(told))
"""


def client(server: ConnectServer, kafka: Any, topic: str, folder: Path, how: str) -> dict[str, Any]:
    words = [server.url, kafka.bootstrap_servers, topic, kafka.topic(), str(folder), how]
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, *words], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.broker
@pytest.mark.spark
@full_scale_only
def test_sources_and_sinks(server: ConnectServer, kafka: Any, home: Any, tmp_path: Path) -> None:
    topic = load_job(home()).source.topics[0]
    found = client(server, kafka, topic, tmp_path, "register")
    assert "does not show whether a stage ran twice" in found.pop("refused")
    assert found == {"read": 20, "written": 20, "streamed": 20}


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@full_scale_only
def test_a_server_without_our_packages_that_is_killed(kafka: Any, home: Any, tmp_path: Path) -> None:
    """It is sent what it lacks; its death is a failure that may pass, and the run is taken up on the next one."""
    python = _bare_python(tmp_path / "bare")
    with ConnectServer(tmp_path / "server", python=python) as server:
        file = home(run={"lease": "5s", "deadline": "1s"})
        server.kill()
        away = told(kseg("ingest", str(file), "--remote", server.url, path=tmp_path), code=4)
        assert "Spark Connect server" in away["error"]["message"]
        server.start()
        report = told(kseg("ingest", str(file), "--remote", server.url, path=tmp_path))
        assert (report["status"], report["counts"]["records"]) == ("done", 20)


def _bare_python(folder: Path) -> Path:
    """A Python with all that we are built on, and nothing of ours: a folder named in a .pth brings none of its own."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (ours,) = (path for path in map(Path, sys.path) if path.name == "site-packages" and (path / "pyspark").is_dir())
    (site / "all-but-ours.pth").write_text(str(ours))
    return folder / "bin" / "python3"


# -- without a server


def document(**spark: str) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "/lake"},
        "group": "g",
        "ledger": "/ledger",
        "spark": spark,
    }


def test_where_the_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg.jobs.invocation.job import with_remote

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_REMOTE", "sc://env:1/;token=secret-token")
    in_file, silent = (job_from_document(document(**given)) for given in ({"remote": "sc://file:1"}, {}))
    assert with_remote(in_file, None).spark.remote == "sc://file:1"
    assert with_remote(silent, None).spark.remote == "sc://env:1/;token=secret-token"
    assert with_remote(silent, None).config_hash == silent.config_hash
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert with_remote(silent, None).spark.remote is None
    for wrong in ("spark://host:7077", "sc://host:1/;token=x"):
        with pytest.raises(ConfigurationError):
            job_from_document(document(remote=wrong))


def test_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "connect_steps.py").write_text(STEPS)
    (tmp_path / "connect_words.py").write_text(WORDS)
    monkeypatch.syspath_prepend(str(tmp_path))
    functions = ["connect_steps:shout", "json:loads", "kseg.etl.tasks.writing:drop", "pyarrow.compute:cast"]
    job = job_from_document(document() | {"transform": [{"arrow": function} for function in functions]})
    assert [module.name for module in modules_needed(references_of(job))] == ["connect_steps", "connect_words"]
    names = zipfile.ZipFile(io.BytesIO(_packed(("kseg.segment_reader",)))).namelist()
    assert {"kseg/__init__.py", "kseg/segment_reader/decode/range_decoder.py"} <= set(names)
    assert digest(("kseg.segment_reader",)) != digest(("kseg.client",))
    assert digest(("no_such_package",)) is None
    assert digest(("no_such_package.part",)) is None
    (tmp_path / "connect_parent" / "part").mkdir(parents=True)
    for file in ("connect_parent/__init__.py", "connect_parent/part/__init__.py"):
        (tmp_path / file).touch()
    assert digest(("connect_parent.part",)) is not None
    assert "connect_parent" not in sys.modules, "a worker would look for parts of it there, not in what it is sent"


def test_outcomes_told_through_files(tmp_path: Path) -> None:
    told = RangeResultFiles(TableLocation.of(tmp_path), "run-1")
    range_result = RangeResult(index=0, topic="t", partition=0, start=0, end=3, data=3)
    assert told.value == {}
    told.add({(0, 7): range_result})
    told.add({(1, 8): range_result})
    assert told.value == {(0, 7): range_result, (1, 8): range_result}
    assert RangeResultFiles(TableLocation.of(tmp_path), "run-1").value == {}, "another pass of the run"
    told.clear()
    assert not (tmp_path / "_kseg_outcomes").exists()

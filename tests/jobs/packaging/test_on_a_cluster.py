"""What `kseg package` packs, on a real standalone cluster whose workers have nothing of ours installed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import site
import subprocess
import sys
import threading
import urllib.request
import venv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kseg.jobs.bench.standalone import SMALL_JVM, StandaloneSpark, spark_home
from skips import full_scale_only

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROWS = 3000
SMALL = (
    "spark.driver.host=127.0.0.1",
    "spark.executor.memory=1g",
    "spark.databricks.delta.snapshotPartitions=2",
    f"spark.executor.extraJavaOptions={' '.join(SMALL_JVM)}",
)
OURS = ("kseg", "pyspark_kseg")
# The job's own packages have names that ours had once, and its step imports another one of them.
MINE = """
import os

import pyarrow as pa

from jobs.words import loud


def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
    body = pa.array([loud(value.as_py().decode()) for value in batch.column("value")], pa.string())
    prefix = pa.array([os.path.realpath(os.sys.prefix)] * batch.num_rows, pa.string())
    return batch.append_column("body", body).append_column("prefix", prefix)
"""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two Pythons for executors: `bare` has no packages, `packages` those that we require but none of ours."""
    found = {}
    for name in ("bare", "packages"):
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, symlinks=True)
        found[name] = folder / "bin" / "python3"
    (target,) = (found["packages"].parents[1] / "lib").glob("python*/site-packages")
    for path in Path(site.getsitepackages()[0]).iterdir():
        ours = path.name in OURS or "kafka_segment_etl" in path.name or path.suffix in (".pth", ".egg-link")
        if not ours:
            (target / path.name).symlink_to(path)
    return found


@pytest.fixture(scope="module")
def cluster(pythons: dict[str, Path], secure_kafka: Any) -> Iterator[StandaloneSpark]:
    env = {"BOB_PASSWORD": secure_kafka.bob, "SPARK_LAUNCHER_OPTS": " ".join(SMALL_JVM)}
    with StandaloneSpark(workers=1, cores=2, memory="1g", python=pythons["bare"], env=env) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(secure_kafka: Any) -> str:
    from confluent_kafka import Producer

    name: str = secure_kafka.topic(2)
    producer = Producer({"bootstrap.servers": secure_kafka.bootstrap_servers, "compression.type": "zstd"})
    for number in range(ROWS):
        producer.produce(name, key=b"k%d" % number, value=b"v%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def job_file(secure_kafka: Any, topic: str, tmp_path: Path) -> Path:
    own = {"etl/mine.py": MINE, "jobs/words.py": "def loud(text):\n    return text.upper()\n"}
    for name, text in (own | {"etl/__init__.py": "", "jobs/__init__.py": ""}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"""
version: 1
name: orders
kafka: {{bootstrap.servers: "{secure_kafka.bootstrap_servers}"}}
source: {{topics: [{topic}], max_records_per_task: 1000}}
transform: [{{arrow: "etl.mine:shout"}}]
sink: {{path: ./lake/orders}}
group: {tmp_path.name}
ledger: ./lake/_kseg_ledger
"""
    )
    return file


Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def submit(cluster: StandaloneSpark, tmp_path: Path) -> Submit:
    """Run a spark-submit line that `kseg package` gave, on the cluster."""

    def run(line: Sequence[str], *arguments: str, python: Path | None = None) -> subprocess.CompletedProcess[str]:
        assert line[:3] == ["spark-submit", "--master", "spark://HOST:7077"]
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url, *line[3:]]
        for setting in SMALL:
            command[3:3] = ["--conf", setting]
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        env |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        if python is not None:
            env["PYSPARK_PYTHON"] = str(python)
        return subprocess.run(
            [*command, *arguments], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=1500, check=False
        )

    return run


def package(job_file: Path, *options: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "kseg.jobs.cli",
        "package",
        "--out",
        str(job_file.parent / "dist"),
        "--json",
        *options,
    ]
    told = subprocess.run([*command, "--job", str(job_file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    document: dict[str, Any] = json.loads(told.stdout)
    return document


def instead(line: Sequence[str], *words: str) -> list[str]:
    """The line that submits a job, with another command of `kseg`."""
    return [*line[:-2], *words]


def landed_whole(job_file: Path, prefix: Path) -> None:
    """All rows are there, transformed by the job's own module, in the executors' Python."""
    rows = rows_of(job_file)
    assert sorted(rows["body"].to_pylist()) == sorted(f"V{number}" for number in range(ROWS))
    assert {Path(found) for found in rows["prefix"].to_pylist()} == {prefix}


def table_of(job_file: Path) -> Path:
    return job_file.parent / "lake" / "orders"


def rows_of(job_file: Path) -> Any:
    return pa.table(DeltaTable(table_of(job_file)).scan(["body", "prefix"]))


SECURE = """
kafka:
  bootstrap.servers: {servers}
  security.protocol: SASL_SSL
  ssl.truststore.location: {trust}
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: bob
  sasl.password: ${{{variable}}}
spark:
  executor_secrets: resolved
  conf: {{spark.eventLog.enabled: true, spark.eventLog.compress: false, spark.eventLog.dir: "{events}"}}
"""


class Watch:
    """Everything that the UI of a running application tells, as pages and by its REST API."""

    PAGES = ("environment/", "jobs/", "stages/", "executors/", "executors/threadDump/?executorId=driver", "SQL/")

    def __init__(self, cluster: StandaloneSpark) -> None:
        self.cluster = cluster
        self.seen: dict[str, str] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(1):
            for app in json.loads(self._get(f"{self.cluster.ui}/json/") or '{"activeapps": []}')["activeapps"]:
                master = self._get(f"{self.cluster.ui}/app/?appId={app['id']}")
                found = re.search(r'href="(http://[^"]+)"[^>]*>Application Detail UI', master)
                if found:
                    for page in self.PAGES:
                        self._get(f"{found[1]}/{page}")
                    self._get(f"{found[1]}/api/v1/applications/{app['id']}/environment")

    def _get(self, url: str) -> str:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                text: str = answer.read().decode()
        except (OSError, HTTPException):  # an application that ends takes its pages along, in the midst of an answer
            return ""
        self.seen[url] = text
        return text


def files_in(folder: Path) -> dict[str, str]:
    """What stands in a folder's files, but for those that an executor removes meanwhile: it ends after its driver."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found[f"{place}/{name}"] = (Path(place) / name).read_bytes().decode("latin-1")
    return found


def secured(job_file: Path, secure_kafka: Any, variable: str) -> None:
    lines = job_file.read_text().splitlines()
    (job_file.parent / "events").mkdir()
    secure = SECURE.format(
        servers=secure_kafka.servers("SECURE"),
        trust=secure_kafka.authority.pem,
        variable=variable,
        events=(job_file.parent / "events").as_uri(),
    )
    job_file.write_text("\n".join(line for line in lines if not line.startswith("kafka:")) + secure)


def test_py_files_are_enough_and_executors_look_up_the_password_that_stands_nowhere(
    secure_kafka: Any,
    job_file: Path,
    cluster: StandaloneSpark,
    pythons: dict[str, Path],
    submit: Submit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = pythons["packages"]
    for module in OURS:
        alone = subprocess.run([python, "-Ic", f"import numba, {module}"], capture_output=True, text=True, check=False)
        assert f"No module named '{module}'" in alone.stderr
    monkeypatch.setenv("BOB_PASSWORD", secure_kafka.bob)
    secured(job_file, secure_kafka, "BOB_PASSWORD")
    line = package(job_file)["spark_submit"]["client"]
    with Watch(cluster) as watch:
        done = submit([*line, "--json", "--debug", "--trace"], python=python)
    assert done.returncode == 0, done.stdout[-3000:]
    # spark-submit joins a Python driver's two streams; the document is its last line.
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "done"
    landed_whole(job_file, python.parents[1].resolve())

    pages = [url for url in watch.seen if "/environment" in url]
    assert any("spark.executor.memory" in watch.seen[url] for url in pages), f"seen: {sorted(watch.seen)}"
    places = watch.seen | {"output": done.stdout + done.stderr}
    for folder in (cluster.directory, job_file.parent):
        places |= files_in(folder)
    assert any("SparkListenerJobStart" in text for name, text in places.items() if "events" in name)
    assert any("/stderr" in name for name in places)
    assert [name for name, text in places.items() if secure_kafka.bob in text] == []


@full_scale_only
def test_what_kseg_exits_with_is_what_spark_submit_exits_with(job_file: Path, submit: Submit) -> None:
    line = package(job_file)["spark_submit"]["client"]
    wrong = job_file.with_name("wrong.yaml")
    wrong.write_text(job_file.read_text() + "nonsense: true\n")
    run_files = {name: job_file.with_name(f"{name}.json") for name in ("wrong", "refused")}
    asked = {
        "refused": instead(line, "verify", str(job_file), "--run-file", str(run_files["refused"])),  # has no ledger yet
        "wrong": instead(line, "ingest", str(wrong), "--run-file", str(run_files["wrong"])),
    }
    with ThreadPoolExecutor() as pool:
        done = dict(zip(asked, pool.map(submit, asked.values()), strict=True))
    expected = {"refused": 3, "wrong": 2}
    told = {name: json.loads(run_files[name].read_text()) for name in asked}
    for name in asked:
        assert done[name].returncode == told[name]["exit_code"] == expected[name], done[name].stdout[-2000:]
    assert told["refused"]["result"]["error"]["code"] == "ledger-missing"


READ = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
if "registered" in sys.argv:
    from pyspark_kseg import DefaultSource
    spark.dataSource.register(DefaultSource)
rows = spark.read.format("kseg").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2]).load()
print("read", rows.select("partition", "offset", "value").distinct().count())
"""


@full_scale_only
@pytest.mark.parametrize("packed", ["archive", "py-files"])
def test_the_data_source_is_read_from_with_what_was_packed(
    secure_kafka: Any, topic: str, job_file: Path, pythons: dict[str, Path], submit: Submit, packed: str
) -> None:
    script = job_file.with_name("read.py")
    script.write_text(READ)
    by_archive = packed == "archive"
    line = package(job_file, *(["--archive"] if by_archive else []))["spark_submit"]["client"]
    words = [str(script), secure_kafka.bootstrap_servers, topic, *([] if by_archive else ["registered"])]
    done = submit([*line[:-3], *words], python=None if by_archive else pythons["packages"])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"read {ROWS}" in done.stdout


@full_scale_only
def test_an_archive_is_enough_for_workers_with_a_bare_python_and_verify_tells_what_differs(
    job_file: Path, cluster: StandaloneSpark, pythons: dict[str, Path], submit: Submit
) -> None:
    alone = subprocess.run([pythons["bare"], "-Ic", "import pyarrow"], capture_output=True, text=True, check=False)
    assert "No module named 'pyarrow'" in alone.stderr
    line = package(job_file, "--archive")["spark_submit"]["client"]
    done = submit([*line, "--json"])
    assert done.returncode == 0, done.stdout[-3000:]
    (prefix,) = {Path(found) for found in rows_of(job_file)["prefix"].to_pylist()}
    assert any(prefix.is_relative_to(folder.resolve()) for folder in cluster.work_dirs)
    landed_whole(job_file, prefix)

    done = submit(instead(line, "verify", str(job_file), "--json", "--spark"))
    assert done.returncode == 0, done.stdout[-3000:]
    (told,) = json.loads(done.stdout.splitlines()[-1])["tables"]
    assert (told["compared"], told["rows"], told["findings"]) == ("addresses", ROWS, 0)

    DeltaTable(str(table_of(job_file))).delete("partition = 1 AND offset = 5")
    run_file = job_file.with_name("verify.json")
    done = submit(instead(line, "verify", str(job_file), "--json", "--spark", "--run-file", str(run_file)))
    assert done.returncode == 1, done.stdout[-3000:]
    assert json.loads(run_file.read_text())["exit_code"] == 1
    (finding,) = json.loads(done.stdout.splitlines()[-1])["findings"]
    assert (finding["kind"], finding["partition"], finding["offset"]) == ("gap", 1, 5)

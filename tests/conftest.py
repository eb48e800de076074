"""What all tests share: a real Kafka, a real Spark, and how much is tried.

``KSEG_TEST_SCALE=full`` (``make test-full``) runs the full counts; unset, the reduced ones.
"""

from __future__ import annotations

import gc
import os
import pwd
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings

import comparisons as comparisons_module
import leaks
import log_files as log_files_module
import scheduling
import shared_jvm
import skips
from kafkas import PATIENCE, GuardedKafka, SecureKafka, SharedReleases, TestKafka, WhileUsed
from kseg.etl.spark import jvm
from kseg.etl.spark.session import LOCAL_DEFAULTS
from kseg.jobs.broker import jars
from kseg.jobs.broker.errors import JarsUnavailable
from kseg.jobs.broker.java import use_java
from kseg.jobs.broker.process import EmbeddedKafka
from memory_s3 import MemoryS3, serve_memory_s3
from s3 import s3_server
from skips import FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from registries import SharedRegistry

T = TypeVar("T")

_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("reduced", max_examples=50, derandomize=True, deadline=None, suppress_health_check=_slow)
settings.register_profile("full", max_examples=1000, deadline=None, suppress_health_check=_slow)
settings.load_profile("full" if FULL else "reduced")

# A shell without job control starts `make test &` with Ctrl-C ignored, which processes of tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As the brokers, so every Spark that a test starts: compiled lightly, a short life takes half of the processor's time.
# And what `kseg` does not start itself takes its classes from the archive, too. Each is started by another JVM, which
# says how.
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(jvm.light_options()))
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The thousands of tests that are collected live to the end: the garbage collector need not go through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes each takes a file when it has done one (`harness/scheduling.py`): long ones come first."""
    told = getattr(config, "workerinput", None)
    if told is None:
        return
    demands = scheduling.demands(items, config.rootpath)
    items.sort(key=lambda item: -demands[item.path].seconds)
    if told["workerid"] == "gw0":
        by_name = {item.nodeid.partition("::")[0]: demands[item.path] for item in items}
        scheduling.write_demands(told["testrunuid"], by_name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go where what they ask for runs already."""
    return scheduling.ByNeeds(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--protocol-table", action="store_true", help="print what has been held against Kafka, API by API")
    parser.addoption("--record-seconds", action="store_true", help="write how long files take to harness/seconds.json")


def pytest_configure(config: pytest.Config) -> None:
    """Let `harness/comparisons.py`, `harness/skips.py` and `harness/leaks.py` watch the run."""
    watching = comparisons_module.Comparisons()
    watching.listen()
    config.pluginmanager.register(watching, "comparisons")
    skips.register(config)
    leaks.register(config)
    if config.getoption("numprocesses", None):
        config.pluginmanager.register(scheduling.Failures(config), "failures")
    if config.getoption("record_seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(scheduling.Recorder(config.rootpath), "seconds")


@pytest.fixture(scope="session", autouse=True)
def _logs_of_failed_commands(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands that tests let fail write no logs into the user's cache, which tests share for its jars."""
    os.environ["KSEG_LOGS"] = str(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="session", autouse=True)
def _few_races(scale: Callable[[int, int], int]) -> Iterator[None]:
    """Whoever makes a ledger races for 100 keys in its store, which here is one for all: `test_conditional_put.py` does
    so in full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kseg.etl.ledger.conditional_put.RACES", scale(10, 100))
        yield


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with neither $HOME nor an entry in passwd; temporary files are in `tmp_path`."""

    def unknown(_: object) -> NoReturn:
        raise KeyError("uid not found")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="session")
def comparisons(pytestconfig: pytest.Config) -> Any:
    """Where tests tell what they have held against Kafka: see `harness/comparisons.py`."""
    return pytestconfig.pluginmanager.get_plugin("comparisons")


@pytest.fixture(scope="session")
def log_files() -> Any:
    """Log directories without a broker, and storage that counts: see `harness/log_files.py`."""
    return log_files_module


@pytest.fixture(scope="session")
def scale() -> Callable[[T, T], T]:
    """``scale(reduced, full)`` returns the one that this run is for."""
    return lambda reduced, full: full if FULL else reduced


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_process: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real S3 server, named by the environment (`harness/s3.py`): `folder` is bucket "logs", `asked` the requests."""
    for name, value in s3_process.environment.items():
        monkeypatch.setenv(name, value)
    s3_process.forget()
    return s3_process


@pytest.fixture
def memory_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryS3]:
    """An S3 server in memory, named by the environment, whose conditional PUTs a test may spoil: `conditional`."""
    with serve_memory_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


#: Many tests write records with timestamps of long ago, which retention would take away at its first look, in the
#: middle of a test.
KEPT_FOR_GOOD = {"log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def kafka() -> Iterator[TestKafka]:
    """A real single-node Kafka: ``bootstrap_servers``, ``log_dirs``, ``topic(partitions, config)``."""
    with EmbeddedKafka(light=True, start_timeout=PATIENCE, config=KEPT_FOR_GOOD) as broker:
        yield TestKafka(broker)


@pytest.fixture(scope="session")
def kafka_of() -> Callable[[EmbeddedKafka], TestKafka]:
    """kafka_of(broker): the same for a broker that a test has started itself."""
    return TestKafka


@pytest.fixture(scope="session")
def await_markers() -> Callable[[str, str], None]:
    """await_markers(bootstrap_servers, topic): until no transaction is open in the topic. A producer is told of the end
    before the markers are written, and meanwhile read_committed ends in front of them."""

    def wait(servers: str, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        common = {"bootstrap.servers": servers, "group.id": "awaits-markers", "log_level": 0}
        stable, latest = (
            Consumer(common | {"isolation.level": f"read_{what}"}) for what in ("committed", "uncommitted")
        )
        deadline = time.monotonic() + 120
        for number in latest.list_topics(topic, timeout=60).topics[topic].partitions:
            place = TopicPartition(topic, number)
            while stable.get_watermark_offsets(place, 60) != latest.get_watermark_offsets(place, 60):
                assert time.monotonic() < deadline, f"a transaction stays open in {place}"
                time.sleep(0.05)
        stable.close()
        latest.close()

    return wait


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A real single-node Kafka with TLS and SASL listeners."""
    kafka = SecureKafka(tmp_path_factory.mktemp("secure"))
    with kafka.broker:
        yield kafka


@pytest.fixture(scope="session")
def guarded_kafka() -> Iterator[GuardedKafka]:
    """A real single-node Kafka with an authorizer."""
    kafka = GuardedKafka()
    with kafka.broker:
        yield kafka


@contextmanager
def _three_nodes() -> Iterator[TestKafka]:
    config = KEPT_FOR_GOOD | {
        "broker.rack": "rack-{node}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "log.dirs": "{directory}/data,{directory}/data-2",
        # A dead broker is noticed soon, and one that a busy machine keeps waiting is not taken for dead.
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "500",
        # Lower than ours, so that a request can be too large.
        "socket.request.max.bytes": "20000000",
        # A group may want its dead members noticed soon, too; none has to: a busy machine's members are late, not dead.
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
        # No leader moves unless a test moves it.
        "auto.leader.rebalance.enable": "false",
    }
    with EmbeddedKafka(nodes=3, heap="256m", light=True, start_timeout=PATIENCE, config=config) as brokers:
        yield TestKafka(brokers)
        for node in brokers.pids:  # a clean stop of all three would wait for the quorum that is not there any more
            brokers.kill(node)


@contextmanager
def _other_releases() -> Iterator[SharedReleases]:
    releases = SharedReleases(most=5)
    yield releases
    releases.stop()


#: By the fixture that tests ask for them by.
WHILE_USED: dict[str, WhileUsed[Any]] = {"kafka3": WhileUsed(_three_nodes), "kafka_release": WhileUsed(_other_releases)}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Servers that no test has asked for in the last minute are stopped."""
    for fixture, servers in WHILE_USED.items():
        servers.before_a_test(fixture in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def _three() -> Iterator[WhileUsed[TestKafka]]:
    yield WHILE_USED["kafka3"]
    WHILE_USED["kafka3"].stop()


@pytest.fixture
def kafka3(_three: WhileUsed[TestKafka]) -> Iterator[TestKafka]:
    """Three real nodes, for all tests that need more than one: racks "rack-1" … "rack-3", two log folders each.

    A node that a test kills or stops (``kafka3.broker.kill(2)``) is started again after it.
    """
    kafka = _three()
    yield kafka
    for node in {1, 2, 3} - set(kafka.broker.pids):
        kafka.broker.restart(node)


@pytest.fixture(scope="session")
def kafka_release() -> Iterator[Callable[[str], TestKafka]]:
    """``kafka_release("0.10.2.2")``: a node of another release (`harness/releases.py`), shared like ``kafka``.

    Five at most run at a time: asking for another stops the one that was not asked for the longest, with its data. So
    ask again in each test rather than keep what was given.
    """

    def ask(version: str) -> TestKafka:
        try:
            releases: SharedReleases = WHILE_USED["kafka_release"]()
            return releases(version)
        except JarsUnavailable as error:
            pytest.skip(str(error))

    yield ask
    WHILE_USED["kafka_release"].stop()


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SharedRegistry]:
    """A real Schema Registry: `url`, `client`. A test's subjects have names that no other test uses."""
    from registries import shared_registry  # Confluent's client takes half a second to import

    with shared_registry() as registry:
        yield registry


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark session with Delta; its workers run this interpreter and find this project's packages."""
    from pyspark.sql import SparkSession

    use_java()
    # Read when the session starts; the setting spark.pyspark.python counts for spark-submit only.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.master": "local[2]",
        "spark.app.name": "tests",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": jars.class_path(jars.DELTA).replace(os.pathsep, ","),
        "spark.driver.memory": "2g",
        # As in the sessions that we start ourselves: else each worker that Spark forks imports for a second.
        "spark.python.daemon.module": LOCAL_DEFAULTS["spark.python.daemon.module"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists a table's files in as many tasks as this says, which are 10,000 by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # Tests have few rows and many statements: to generate and compile code for each of them takes longer than to
        # interpret it. The sessions that kseg starts itself, in processes of their own, run as Spark does by default.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # A statement's plan as text, and where in Python each of its expressions was made, are for people who look on.
        "spark.sql.ui.explainMode": "simple",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        # Hash tables and sorts of a task take their memory by pages, which in a heap of this size are tens of megabytes
        # large: for a hundred rows the heap filled, and was collected whole every dozen statements.
        "spark.buffer.pageSize": "1m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dderby.system.home={folder}", "-Xms1g", "-Xmn320m", *jvm.light_options())
        ),
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kseg_folder(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, scale: Callable[[bool, bool], bool]
) -> Iterator[Path]:
    """A folder for PATH with the program `kseg`. In the full scale it is the installed one; else its processes are
    forked, and share the tests' JVM (`harness/forked_commands.py`)."""
    if scale(False, True):
        yield Path(sys.executable).parent
        return
    from children import Children
    from forked_commands import ForkedCommands

    folder = tmp_path_factory.mktemp("commands")
    children = Children(folder, shared_jvm.gateway(spark))
    commands = ForkedCommands(children, folder)
    yield commands.path
    commands.close()
    children.close()

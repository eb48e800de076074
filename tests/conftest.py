"""What all tests share: a real Kafka, a real Spark, and how much is tried.

``KSEG_TEST_SCALE=full`` (``make test-full``) runs the full counts; unset, the reduced ones.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from hypothesis import HealthCheck, settings

from etl import jvm
from jobs.broker import EmbeddedKafka, JarsUnavailable, Listener, jars
from jobs.broker.certificates import Authority, Issued
from jobs.broker.java import use_java
from jobs.broker.listeners import SCRAM, login_module
from jobs.broker.releases import OtherKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

FULL = os.environ.get("KSEG_TEST_SCALE") == "full"
ROOT = Path(__file__).parent.parent

_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("reduced", max_examples=50, derandomize=True, deadline=None, suppress_health_check=_slow)
settings.register_profile("full", max_examples=1000, deadline=None, suppress_health_check=_slow)
settings.load_profile("full" if FULL else "reduced")

# As the brokers, so every Spark that a test starts: compiled lightly, a short life takes half of the processor's time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(jvm.LIGHT))


#: About how many seconds of a processor a test takes that asks for this fixture; one that is marked as slow takes 60.
COSTS = {"spark": 2, "kafka3": 2, "kafka": 0.3, "kafka_release": 0.3, "secure_kafka": 0.3, "guarded_kafka": 0.3}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes, each takes the next file when it has done one (`--dist loadfile --no-loadscope-reorder`):
    long files come first, since a long one at the end would leave the other processes idle."""
    if not hasattr(config, "workerinput"):
        return
    costs: dict[Path, float] = defaultdict(float)
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        asked = max((cost for name, cost in COSTS.items() if name in fixtures), default=0.02)
        costs[item.path] += 60 if item.get_closest_marker("slow") else asked
    items.sort(key=lambda item: -costs[item.path])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--protocol-table", action="store_true", help="print what has been held against Kafka, API by API")


def pytest_configure(config: pytest.Config) -> None:
    """Let `comparisons.py` watch the run."""
    comparisons = _module("comparisons").Comparisons()
    comparisons.listen()
    config.pluginmanager.register(comparisons, "comparisons")


def _module(name: str) -> Any:
    """A module beside this file: under importlib mode it cannot be imported by its name."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def comparisons(pytestconfig: pytest.Config) -> Any:
    """Where tests tell what they have held against Kafka: see `comparisons.py`."""
    return pytestconfig.pluginmanager.get_plugin("comparisons")


@pytest.fixture(scope="session")
def log_files() -> Any:
    """Log directories without a broker, and storage that counts: see `log_files.py`."""
    return _module("log_files")


@pytest.fixture(scope="session")
def scale() -> Callable[[T, T], T]:
    """``scale(reduced, full)`` returns the one that this run is for."""
    return lambda reduced, full: full if FULL else reduced


class TestKafka:
    """The tests' shared broker: one node with every default of the release, started when it is first asked for."""

    __test__ = False

    def __init__(self, broker: EmbeddedKafka | OtherKafka) -> None:
        self.broker = broker
        self.version = broker.version
        self._numbers = itertools.count(1)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return self.broker.log_dirs

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None, *, prefix: str = "topic") -> str:
        """Create a topic with a name that no other test has, and wait until its leaders answer; returns the name."""
        name = f"{prefix}-{os.getpid()}-{next(self._numbers)}"
        if isinstance(self.broker, OtherKafka) and self.broker.zookeeper_port is not None:
            self.broker.create_topic(name, partitions, config, timeout=120)
        else:
            self._create(name, partitions, config)
        return name

    def _create(self, name: str, partitions: int, config: Mapping[str, str] | None) -> None:
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        for created in admin.create_topics([new], operation_timeout=30).values():
            created.result(timeout=60)
        deadline = time.monotonic() + 60
        for number in range(partitions):
            place = TopicPartition(name, number)
            while True:
                try:
                    # A broker may be told that it leads a moment after the topic is there for all others.
                    admin.list_offsets({place: OffsetSpec.latest()}, request_timeout=10)[place].result(timeout=20)
                    break
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)


def _beside(name: str) -> Any:
    """A module of this folder. Under importlib mode it cannot be imported by its name."""
    spec = importlib.util.spec_from_file_location(f"kseg_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with _beside("s3").s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3(s3_process: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A real S3 server, named by the environment: `folder` is bucket "logs", `asked` what it was asked (`s3.py`)."""
    for name, value in s3_process.environment.items():
        monkeypatch.setenv(name, value)
    s3_process.forget()
    return s3_process


@pytest.fixture(scope="session")
def kafka() -> Iterator[TestKafka]:
    """A real single-node Kafka: ``bootstrap_servers``, ``log_dirs``, ``topic(partitions, config)``."""
    with EmbeddedKafka(light=True) as broker:
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


class SecureKafka(TestKafka):
    """A broker with a listener for each way of being secure. Files of its authority lie in `folder`.

    TLS, MTLS, MTLS12    TLS; with a client certificate wanted; the same in TLS 1.2 alone
    EXPIRED, STRANGE     TLS with a certificate that has expired; that is for another host
    PLAINSASL            SASL without TLS: PLAIN (alice) and SCRAM-SHA-256 (bob)
    SECURE               SASL inside of TLS: PLAIN, both SCRAMs
    SHORT                SCRAM-SHA-512 whose sessions end after 3 s
    OAUTH, UNSIGNED      OAUTHBEARER: tokens signed by `jwt`; without a signature
    """

    __test__ = False
    alice, bob = "alice-hunter2", "bob-hunter2"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.client = self.authority.issue("client")
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwks = folder / "jwks.json"
        jwks.write_text(json.dumps({"keys": [self._jwk()]}))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"
        super().__init__(
            EmbeddedKafka(
                light=True,
                listeners=self._listeners(jwks),
                scram={"bob": self.bob},
                config={"delegation.token.secret.key": "a key for tests"},
                jvm=[allowed],
            )
        )

    def servers(self, listener: str, host: str = "localhost") -> str:
        return self.broker.servers_of(listener).replace("127.0.0.1", host)

    def properties(self, listener: str) -> dict[str, str]:
        """What reaches a listener: trust where it has TLS, and bob's password where it has SCRAM."""
        tls, short = listener in ("TLS", "MTLS", "MTLS12", "SECURE"), listener == "SHORT"
        sasl = listener in ("PLAINSASL", "SECURE", "SHORT")
        protocol = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
        found = {"bootstrap.servers": self.servers(listener), "security.protocol": protocol}
        if tls:
            found["ssl.truststore.location"] = str(self.authority.pem)
        if listener.startswith("MTLS"):
            found["ssl.keystore.location"] = str(self.client.pem)
        if sasl:
            found["sasl.mechanism"] = "SCRAM-SHA-512" if short else "SCRAM-SHA-256"
            found |= {"sasl.username": "bob", "sasl.password": self.bob}
        return found

    def jwt(self, subject: str, *, lifetime: float = 60, **claims: object) -> str:
        """A signed token that the OAUTH listener takes."""
        now = time.time()
        body = {"sub": subject, "iat": now, "exp": now + lifetime, "aud": "kafka", "scope": ["kafka"]} | claims
        parts = [_base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "tests"}, body)]
        signed = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _base64url(signed)])

    def _jwk(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        n, e = (_base64url(value.to_bytes(size, "big")) for value, size in ((numbers.n, 256), (numbers.e, 3)))
        return {"kty": "RSA", "kid": "tests", "alg": "RS256", "use": "sig", "n": n, "e": e}

    def _listeners(self, jwks: Path) -> list[Listener]:
        names = ["localhost", "127.0.0.1"]
        own = _keystore(self.authority.issue("broker", names=names))
        mutual = own | {"ssl.client.auth": "required", "ssl.truststore.type": "PEM"}
        mutual["ssl.truststore.location"] = str(self.authority.pem)
        plain = {"plain.sasl.jaas.config": login_module("PlainLoginModule", user_alice=self.alice)}
        scram = {f"{name.lower()}.sasl.jaas.config": login_module("ScramLoginModule") for name in SCRAM}
        bearer = login_module("OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="kafka")
        validator = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        oauth = {"sasl.enabled.mechanisms": "OAUTHBEARER", "oauthbearer.sasl.jaas.config": bearer}
        signed = oauth | {
            "oauthbearer.sasl.server.callback.handler.class": validator,
            "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        every = {"sasl.enabled.mechanisms": ",".join(["PLAIN", *SCRAM])}
        return [
            Listener("TLS", "SSL", own),
            Listener("MTLS", "SSL", mutual),
            Listener("MTLS12", "SSL", mutual | {"ssl.enabled.protocols": "TLSv1.2"}),
            Listener("EXPIRED", "SSL", _keystore(self.authority.issue("expired", names=names, expired=True))),
            Listener("STRANGE", "SSL", _keystore(self.authority.issue("strange", names=["broker.example.com"]))),
            Listener("PLAINSASL", "SASL_PLAINTEXT", plain | scram | {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}),
            Listener("SECURE", "SASL_SSL", own | plain | scram | every),
            Listener(
                "SHORT",
                "SASL_PLAINTEXT",
                scram | {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "connections.max.reauth.ms": "3000"},
            ),
            Listener("OAUTH", "SASL_PLAINTEXT", signed | {"connections.max.reauth.ms": "60000"}),
            Listener("UNSIGNED", "SASL_PLAINTEXT", oauth),
        ]


def _keystore(issued: Issued) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(issued.pem)}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A real single-node Kafka with TLS and SASL listeners."""
    kafka = SecureKafka(tmp_path_factory.mktemp("secure"))
    with kafka.broker:
        yield kafka


class GuardedKafka(TestKafka):
    """A broker that allows nobody anything: user "etl" gets what a test gives it, over listener USERS (SASL/PLAIN).

    Whoever comes over PLAINTEXT (`bootstrap_servers`), and user "admin", may do everything.
    """

    def __init__(self) -> None:
        users = {"sasl.enabled.mechanisms": "PLAIN"}
        users["plain.sasl.jaas.config"] = login_module("PlainLoginModule", user_etl="etl-pw", user_admin="admin-pw")
        super().__init__(
            EmbeddedKafka(
                light=True,
                listeners=[Listener("USERS", "SASL_PLAINTEXT", users)],
                config={
                    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                    "super.users": "User:ANONYMOUS;User:admin",
                    "delegation.token.secret.key": "a key for tests",
                },
            )
        )

    def properties(self, user: str = "etl") -> dict[str, str]:
        """Client properties of a user."""
        return {
            "bootstrap.servers": self.broker.servers_of("USERS"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-pw",
        }


@pytest.fixture(scope="session")
def guarded_kafka() -> Iterator[GuardedKafka]:
    """A real single-node Kafka with an authorizer."""
    kafka = GuardedKafka()
    with kafka.broker:
        yield kafka


@pytest.fixture(scope="session")
def _three() -> Iterator[TestKafka]:
    config = {
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
    }
    with EmbeddedKafka(nodes=3, heap="256m", light=True, config=config) as brokers:
        yield TestKafka(brokers)
        for node in brokers.pids:  # a clean stop of all three would wait for the quorum that is not there any more
            brokers.kill(node)


@pytest.fixture
def kafka3(_three: TestKafka) -> Iterator[TestKafka]:
    """Three real nodes, for all tests that need more than one: racks "rack-1" … "rack-3", two log folders each.

    A node that a test kills or stops (``kafka3.broker.kill(2)``) is started again after it.
    """
    yield _three
    for node in {1, 2, 3} - set(_three.broker.pids):
        _three.broker.restart(node)


@pytest.fixture(scope="session")
def kafka_release() -> Iterator[Callable[[str], TestKafka]]:
    """``kafka_release("0.10.2.2")``: a node of another release (`jobs.broker.releases`), shared like ``kafka``.

    Two at most run at a time: asking for a third stops the one that was not asked for the longest, with its data. So
    ask again in each test rather than keep what was given.
    """
    running: dict[str, TestKafka] = {}

    def ask(version: str) -> TestKafka:
        if version not in running:
            while len(running) > 1:
                running.pop(next(iter(running))).broker.stop()
            try:
                started = TestKafka(OtherKafka(version).start())
            except JarsUnavailable as error:
                pytest.skip(str(error))
        else:
            started = running.pop(version)
        running[version] = started
        return started

    yield ask
    for release in running.values():
        release.broker.stop()


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
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join((f"-Dderby.system.home={folder}", *jvm.options())),
        "spark.executorEnv.PYTHONPATH": str(ROOT),
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()

"""Brokers as tests see them: a plain one, one with a listener for each way of being secure, one that allows nothing."""

from __future__ import annotations

import base64
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kseg.jobs.broker.certificates import Authority, Issued
from kseg.jobs.broker.listeners import SCRAM, Listener, login_module
from kseg.jobs.broker.probe import partition_leaders
from kseg.jobs.broker.process import EmbeddedKafka
from releases import OtherKafka

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

#: Seconds that a broker has to start: beside others that start too, on a machine with two processors.
PATIENCE = 300.0

T = TypeVar("T")


class WhileUsed(Generic[T]):
    """Servers that all tests share, and that take a processor's time also when nobody asks for them: three nodes a
    tenth of it. They run from when they are first asked for until tests have passed for a while that do not.

    make: what starts and stops them. idle: seconds between the last test that asks for them and one before which they
    are stopped.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[T]], idle: float = 60.0) -> None:
        self._make = make
        self._idle = idle
        self._running: list[T] = []
        self._open = ExitStack()
        self._asked = 0.0

    def __call__(self) -> T:
        """Those that run; they are started if none do. Counts as asking for them: a test that runs may ask for a
        fixture by its name."""
        self._asked = time.monotonic()
        if not self._running:
            self._running.append(self._open.enter_context(self._make()))
        return self._running[0]

    def before_a_test(self, asks: bool) -> None:
        """To be told of each test before its fixtures are made. asks: whether it asks for them."""
        now = time.monotonic()
        if asks:
            self._asked = now
        elif now - self._asked > self._idle:
            self.stop()

    def stop(self) -> None:
        """Stop them, if they run."""
        self._running.clear()
        self._open.close()


class TestKafka:
    """The tests' shared broker: one node that keeps records for good, started when it is first asked for."""

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

    @cached_property
    def _admin(self) -> AdminClient:
        """One for all topics: a new one connects for longer than a broker takes to make a topic."""
        from confluent_kafka.admin import AdminClient

        # A node that was away is asked again at once, and nobody is told that it was.
        patient = {"reconnect.backoff.max.ms": 200, "log_level": 0}
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, **patient})

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None, *, prefix: str = "topic") -> str:
        """Create a topic with a name that no other test has; returns it when leaders answer and all brokers know."""
        name = f"{prefix}-{os.getpid()}-{next(self._numbers)}"
        if isinstance(self.broker, OtherKafka) and self.broker.zookeeper_port is not None:
            self.broker.create_topic(name, partitions, config, timeout=120)
        else:
            self._create(name, partitions, config)
        return name

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until the broker, which hears of it after the controller, lists it no more."""
        self._admin.delete_topics([name], operation_timeout=60)[name].result(60)
        deadline = time.monotonic() + 60
        while name in self._admin.list_topics(timeout=60).topics:
            assert time.monotonic() < deadline, f"{name} is still listed"
            time.sleep(0.05)

    def make_anew(self, name: str, partitions: int = 1) -> None:
        """Delete a topic and create another one of its name; what is written afterwards is written to the new one."""
        self.delete(name)
        self._create(name, partitions, None)

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions, and wait until all leaders answer: before, a producer knows fewer."""
        from confluent_kafka.cimpl import NewPartitions

        self._admin.create_partitions([NewPartitions(name, total)], operation_timeout=60)[name].result(60)
        self._await_leaders(name, total)

    def _create(self, name: str, partitions: int, config: Mapping[str, str] | None) -> None:
        from confluent_kafka.cimpl import NewTopic

        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        for created in self._admin.create_topics([new], operation_timeout=30).values():
            created.result(timeout=60)
        self._await_leaders(name, partitions)

    def _await_leaders(self, name: str, partitions: int) -> None:
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        deadline = time.monotonic() + 60
        for number in range(partitions):
            place = TopicPartition(name, number)
            while True:
                try:
                    # A broker may be told that it leads a moment after the topic is there for all others.
                    self._admin.list_offsets({place: OffsetSpec.latest()}, request_timeout=10)[place].result(timeout=20)
                    break
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
                    # librdkafka remembers for a minute that it has not found a topic or its leaders.
                    self.__dict__.pop("_admin", None)
                    time.sleep(0.05)
        running = self.broker.pids
        for node in self.broker.nodes if isinstance(self.broker, EmbeddedKafka) and len(running) > 1 else ():
            while node.id in running and len(partition_leaders(node.port, name)) < partitions:
                assert time.monotonic() < deadline, f"broker {node.id} never hears of {name}"
                time.sleep(0.05)


class SharedReleases:
    """Nodes of other releases, each started when it is first asked for: `releases("0.10.2.2")`.

    most: so many run at a time; one more stops the one that was not asked for the longest, with its data.
    """

    def __init__(self, most: int, start: Callable[[str], TestKafka] | None = None) -> None:
        self._most = most
        self._start = start or (lambda version: TestKafka(OtherKafka(version).start()))
        self._running: dict[str, TestKafka] = {}

    def __call__(self, version: str) -> TestKafka:
        """Raises JarsUnavailable."""
        found = self._running.pop(version, None)
        while found is None and len(self._running) >= self._most:
            self._running.pop(next(iter(self._running))).broker.stop()
        self._running[version] = found or self._start(version)
        return self._running[version]

    def stop(self) -> None:
        for release in self._running.values():
            release.broker.stop()
        self._running.clear()


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
                start_timeout=PATIENCE,
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
                start_timeout=PATIENCE,
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

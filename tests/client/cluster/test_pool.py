"""Which broker, and which address of its name, the next connection is opened to after a failure."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client import (
    LATEST,
    BrokerUnavailable,
    ClientConfig,
    ManyReader,
    PartitionReader,
    TopicPartition,
    list_offsets,
)
from kseg.client.cluster.metadata import Broker, ClusterMetadata
from kseg.client.cluster.pool import ConnectionPool
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.fetch import FetchRequest, ListOffsetsRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.retry import Deadline
from kseg.client.wire import transport

TP = TopicPartition("t", 0)

Listen = Callable[[int, str], None]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """`listen(port, how)` accepts connections at 127.0.0.2: "silent" says nothing, "closing" closes them at once."""
    listeners: list[socket.socket] = []
    accepted: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(port: int, how: str) -> None:
        listener = socket.create_server(("127.0.0.2", port))
        listeners.append(listener)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stream, _ = listener.accept()
                    accepted.append(stream)
                    if how == "closing":
                        stream.close()

        threads.append(threading.Thread(target=accept, daemon=True))
        threads[-1].start()

    yield start
    for listener in listeners:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)
    for stream in accepted:
        stream.close()


@pytest.fixture
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafka.test` resolves to 127.0.0.2 and 127.0.0.1, in this order."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, **options: Any) -> Any:
        if host != "kafka.test":
            return real(host, port, **options)
        if options["flags"] & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.rule(25)
@pytest.mark.parametrize("how", ["silent", "closing"])
@pytest.mark.usefixtures("two_addresses")
def test_an_address_that_accepts_and_serves_nothing_is_followed_by_the_next(
    fake: Any, connect: Any, listen: Listen, how: str
):
    """TCP connects, so the loop over a name's addresses ends; ApiVersions fails after it (KIP-302)."""
    listen(fake.port, how)
    fake.brokers = [(1, "kafka.test", fake.port)]
    cluster = connect(f"kafka.test:{fake.port}", request_timeout_ms=500, default_api_timeout_ms=30_000)
    assert cluster.metadata([]).cluster_id == "fake"
    fake.drop_connections()
    assert cluster.metadata([], refresh=True).cluster_id == "fake"


@pytest.mark.usefixtures("two_addresses")
def test_an_address_that_was_served_is_connected_to_again(fake: Any, connect: Any, monkeypatch: pytest.MonkeyPatch):
    """The other one may drop packets: brokers that close idle connections would cost a timeout each time."""
    dialled: list[str] = []
    dial = transport._dial

    def noting(info: Any, *rest: Any) -> socket.socket:
        dialled.append(info[4][0])
        return dial(info, *rest)

    monkeypatch.setattr(transport, "_dial", noting)
    fake.brokers = [(1, "kafka.test", fake.port)]
    cluster = connect(f"kafka.test:{fake.port}", retry_backoff_ms=1)
    for _ in range(3):
        cluster.metadata([], refresh=True)
        fake.drop_connections()
    assert dialled == ["127.0.0.2", *["127.0.0.1"] * 3]


def ask_for_an_offset(cluster: Any) -> None:
    list_offsets(cluster, {TP: LATEST}, isolation_level="read_committed")


def read_with_one_reader(cluster: Any) -> None:
    with PartitionReader(cluster, TP, isolation_level="read_committed", max_wait_ms=10) as reader:
        reader.request(0)
        reader.response()


def read_with_many(cluster: Any) -> None:
    with ManyReader(cluster, isolation_level="read_committed", max_wait_ms=10) as reader:
        reader.add(TP, 0)
        while not (results := reader.poll()):
            pass
    assert not isinstance(results[0][1], Exception)


@pytest.mark.parametrize("do", [ask_for_an_offset, read_with_one_reader, read_with_many])
def test_a_broker_that_did_not_answer_is_asked_after_the_others(fakes: Any, connect: Any, do: Callable[[Any], None]):
    """The only open connection is the hung broker's: a second timeout there would use up the operation's time."""
    brokers = fakes.cluster(3)
    brokers.add_topic("t", [1])
    brokers.on(ListOffsetsRequest, fakes.answers.list_offsets())
    brokers.on(FetchRequest, fakes.answers.fetch())
    cluster = connect(brokers[1].bootstrap_servers, request_timeout_ms=500, default_api_timeout_ms=30_000)
    cluster.metadata(["t"])

    hung_since: list[int] = []

    def hangs(_: Any) -> Any:
        """The system accepts for the broker, which answers nothing, as after a SIGSTOP."""
        for request in (ApiVersionsRequest, MetadataRequest, ListOffsetsRequest, FetchRequest):
            brokers[1].on(request, lambda _: fakes.SILENT)
        brokers.move_leader("t", 0, 2)
        hung_since.append(len(brokers[1].seen))
        return fakes.SILENT

    brokers[1].on(ListOffsetsRequest, hangs)
    brokers[1].on(FetchRequest, hangs)
    do(cluster)
    cluster.metadata([], refresh=True)
    assert brokers[1].seen[hung_since[0] :] == []


def test_a_broker_that_serves_again_is_preferred_again(fakes: Any):
    fake = fakes.start()
    config = ClientConfig.from_properties({"bootstrap.servers": fake.bootstrap_servers}, client_id="kseg-tests")
    first, second = Broker(1, fake.host, fake.port), Broker(2, "broker2.test", 9092)
    pool = ConnectionPool(config)
    connection = pool.shared(first, Deadline.after(30), "main")
    assert pool.in_order([second, first]) == [first, second]
    fake.drop_connections()
    with pytest.raises(BrokerUnavailable):
        connection.call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(30))
    assert pool.in_order([first, second]) == [second, first]
    pool.shared(first, Deadline.after(30), "main")
    assert pool.in_order([second, first]) == [first, second]
    pool.close()


def test_a_bootstrap_connection_takes_the_place_of_one_that_broke(fakes: Any):
    fake = fakes.start()
    config = ClientConfig.from_properties({"bootstrap.servers": fake.bootstrap_servers}, client_id="kseg-tests")
    broker = Broker(1, fake.host, fake.port)
    pool = ConnectionPool(config)
    pool.shared(broker, Deadline.after(30), "main").close()
    bootstrap = pool.bootstrap(fake.host, fake.port, Deadline.after(30))
    pool.adopt(bootstrap, ClusterMetadata(None, -1, {1: broker}, {}))
    assert pool.shared(broker, Deadline.after(30), "main") is bootstrap
    pool.close()


def test_any_broker_is_one_that_does_not_throttle_the_client(fakes: Any, connect: Any):
    """As Java's leastLoadedNode: what any broker can answer does not wait for one that wants to hear nothing now."""
    three = fakes.cluster(3)

    def throttled(seen: Any) -> Any:
        answer = three[2].metadata(seen)
        answer.throttle_time_ms = 30_000
        return answer

    three[2].on(MetadataRequest, throttled)
    cluster = connect(three[2].bootstrap_servers)
    cluster.metadata([])  # which leaves an open connection to broker 2 alone
    began = time.monotonic()
    for _ in range(5):
        cluster.metadata([], refresh=True)
        cluster.any_connection(Deadline.after(20)).call(MetadataRequest(topics=[]), 12, deadline=Deadline.after(20))
    assert time.monotonic() - began < 15
    assert three.requests(MetadataRequest)[2] == 1

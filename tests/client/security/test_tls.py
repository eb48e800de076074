"""TLS with a real broker, and with peers that are none."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.client import AuthenticationFailed, ClientConfig, Cluster, KafkaError, PartitionReader, TopicPartition
from kseg.client.errors import BrokerUnavailable, ProtocolFault, RequestTimedOut
from kseg.client.protocol.messages.connection import ApiVersionsRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.retry import Deadline
from kseg.client.security.secret import Secret
from kseg.client.security.stores import Store
from kseg.client.security.tls import TlsConfig, openssl_name
from kseg.client.wire.broker import BrokerConnection, Endpoint
from kseg.client.wire.transport import Transport
from kseg.jobs.broker.certificates import PASSWORD, Authority
from kseg.segment_reader.decode.next_offset import next_offset

needs_broker = pytest.mark.broker


def brokers(properties: dict[str, str]) -> list[int]:
    with Cluster(ClientConfig.from_properties(properties, client_id="tls")) as cluster:
        return list(cluster.metadata([]).brokers)


def refusal(properties: dict[str, str]) -> KafkaError:
    """The error, which must come at once and not only after all tries."""
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        brokers(properties)
    assert time.monotonic() - started < 50  # by default, tries go on for a minute
    assert not caught.value.retriable
    assert caught.value.broker
    return caught.value


@needs_broker
class TestRealBroker:
    @pytest.mark.rule(8)
    @pytest.mark.parametrize("listener", ["TLS", "MTLS", "MTLS12"])
    def test_it_answers_over_tls(self, secure_kafka: Any, listener: str):
        assert brokers(secure_kafka.properties(listener)) == [1]

    def test_a_pkcs12_identity_serves_as_well(self, secure_kafka: Any):
        store = {"ssl.keystore.location": str(secure_kafka.client.pkcs12), "ssl.keystore.password": PASSWORD}
        assert brokers(secure_kafka.properties("MTLS") | store) == [1]

    def test_large_answers_come_whole(self, secure_kafka: Any):
        from confluent_kafka import Producer

        topic = secure_kafka.topic()
        producer = Producer({"bootstrap.servers": secure_kafka.bootstrap_servers})
        for number in range(40):
            producer.produce(topic, value=bytes([number]) * 200_000, partition=0)
        assert producer.flush(60) == 0
        config = ClientConfig.from_properties(secure_kafka.properties("TLS"), client_id="tls")
        offset = size = 0
        with Cluster(config) as cluster, _reader(cluster, topic) as reader:
            while offset < 40:
                reader.request(offset)
                records = reader.response().records
                offset, size = next_offset(records, offset), size + len(records)
        assert size > 8_000_000

    def test_a_ca_that_is_not_trusted(self, secure_kafka: Any):
        wrong = {"ssl.truststore.location": str(secure_kafka.stranger.pem)}
        error = refusal(secure_kafka.properties("TLS") | wrong)
        assert isinstance(error, AuthenticationFailed)
        assert "not trusted" in str(error)
        assert "ssl.truststore.location" in str(error)

    def test_the_machines_own_trust_is_the_default(self, secure_kafka: Any):
        properties = secure_kafka.properties("TLS")
        del properties["ssl.truststore.location"]
        assert "not trusted" in str(refusal(properties))

    def test_a_certificate_that_has_expired(self, secure_kafka: Any):
        expired = {"bootstrap.servers": secure_kafka.servers("EXPIRED")}
        error = refusal(secure_kafka.properties("TLS") | expired)
        assert isinstance(error, AuthenticationFailed)
        assert "expired" in str(error)

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_a_certificate_for_another_host(self, secure_kafka: Any, host: str):
        strange = secure_kafka.properties("TLS") | {"bootstrap.servers": secure_kafka.servers("STRANGE", host)}
        error = refusal(strange)
        assert isinstance(error, AuthenticationFailed)
        assert f"not for {host}" in str(error)
        assert brokers(strange | {"ssl.endpoint.identification.algorithm": ""}) == [1]

    @pytest.mark.rule(82)
    @pytest.mark.parametrize("listener", ["MTLS", "MTLS12"])
    def test_a_missing_client_certificate(self, secure_kafka: Any, listener: str):
        properties = secure_kafka.properties(listener)
        del properties["ssl.keystore.location"]
        error = refusal(properties)
        assert isinstance(error, AuthenticationFailed)
        assert "requires a client certificate" in str(error)

    @pytest.mark.parametrize("listener", ["MTLS", "MTLS12"])
    def test_a_client_certificate_of_another_authority(self, secure_kafka: Any, listener: str):
        other = {"ssl.keystore.location": str(secure_kafka.stranger.issue("mallory").pem)}
        error = refusal(secure_kafka.properties(listener) | other)
        assert isinstance(error, AuthenticationFailed)
        assert "rejects our client certificate" in str(error)

    def test_no_version_in_common(self, secure_kafka: Any):
        error = refusal(secure_kafka.properties("MTLS12") | {"ssl.enabled.protocols": "TLSv1.3"})
        assert "no TLS version in common" in str(error)

    def test_no_cipher_in_common(self, secure_kafka: Any):
        rsa_alone = {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}  # the broker's key is no RSA key
        assert "no cipher suite in common" in str(refusal(secure_kafka.properties("TLS") | rsa_alone))
        fits = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
        assert brokers(secure_kafka.properties("TLS") | fits) == [1]

    def test_tls_to_a_plaintext_listener(self, secure_kafka: Any):
        error = refusal(secure_kafka.properties("TLS") | {"bootstrap.servers": secure_kafka.bootstrap_servers})
        assert isinstance(error, AuthenticationFailed)
        assert "not a TLS listener" in str(error)
        assert "security.protocol" in str(error)

    def test_plain_text_to_a_tls_listener(self, secure_kafka: Any):
        error = refusal({"bootstrap.servers": secure_kafka.servers("TLS")})
        assert isinstance(error, ProtocolFault)
        assert "TLS listener" in str(error)
        assert "security.protocol" in str(error)

    def test_files_that_cannot_be_read_are_told_before_connecting(self, secure_kafka: Any):
        missing = {"ssl.truststore.location": "/no/such/ca.pem"}
        with pytest.raises(KafkaError, match=r"ssl\.truststore\.location: cannot read /no/such/ca\.pem"):
            brokers(secure_kafka.properties("TLS") | missing)

    def test_pipelined_answers_come_in_order(self, secure_kafka: Any):
        host, port = secure_kafka.servers("TLS").split(":")
        config = ClientConfig.from_properties(secure_kafka.properties("TLS"), client_id="tls")
        deadline = Deadline.after(20)
        with BrokerConnection.open(Endpoint(host, int(port)), config, deadline=deadline) as connection:
            for _ in range(50):
                connection.send(MetadataRequest(topics=[]), 12, deadline=deadline)
                connection.send(ApiVersionsRequest(), 0, deadline=deadline)
            for _ in range(50):
                assert connection.receive(deadline=deadline).brokers
                assert connection.receive(deadline=deadline).api_keys


def _reader(cluster: Cluster, topic: str) -> PartitionReader:
    return PartitionReader(cluster, TopicPartition(topic, 0), isolation_level="read_committed")


Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(handle)` listens, hands each connection to `handle` in a thread, and gives the port."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(handle: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def one(stream: socket.socket) -> None:
            with stream, contextlib.suppress(OSError):
                handle(stream)

        def accept() -> None:
            while True:
                try:
                    stream, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=one, args=(stream,), daemon=True))
                threads[-1].start()

        threads.append(threading.Thread(target=accept, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("server", names=["localhost", "127.0.0.1"]).pem)
    return context


@pytest.fixture
def tls(authority: Authority) -> TlsConfig:
    return TlsConfig(truststore=Store("truststore", location=str(authority.pem)))


def dial(port: int, tls: TlsConfig, *, host: str = "localhost", seconds: float = 30.0, each: float = 10.0) -> Transport:
    deadline = Deadline.after(seconds)
    return Transport.connect(host, port, label=f"{host}:{port}", deadline=deadline, address_timeout=each, tls=tls)


def test_a_peer_that_never_shakes_hands_ends_with_its_timeout(serve: Serve, tls: TlsConfig):
    release = threading.Event()
    port = serve(lambda stream: release.wait(30) and None)
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="did not respond in time"):
        dial(port, tls, host="127.0.0.1", each=0.3)
    assert time.monotonic() - started < 20
    release.set()


def test_a_peer_that_closes_during_the_handshake_may_come_back(serve: Serve, tls: TlsConfig):
    with pytest.raises(BrokerUnavailable) as caught:
        dial(serve(lambda stream: None), tls)
    assert caught.value.retriable


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", bytes(range(64))])
def test_a_peer_that_speaks_something_else_is_no_tls(serve: Serve, tls: TlsConfig, words: bytes):
    def answer(stream: socket.socket) -> None:
        stream.recv(4096)
        stream.sendall(words)
        stream.recv(4096)

    with pytest.raises(AuthenticationFailed, match="does not use TLS") as caught:
        dial(serve(answer), tls)
    assert not caught.value.retriable


def test_the_name_that_was_dialled_is_sent_and_compared(
    serve: Serve, tls: TlsConfig, server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
):
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: real(host.rstrip("."), *rest, **more))
    names: list[str | None] = []
    server.sni_callback = lambda stream, name, context: names.append(name)

    def answer(stream: socket.socket) -> None:
        with server.wrap_socket(stream, server_side=True) as encrypted:
            encrypted.recv(1)

    port = serve(answer)
    for host in ("localhost", "localhost.", "127.0.0.1"):
        dial(port, tls, host=host).close()
    server.sni_callback = None
    assert names == ["localhost", "localhost", None]


def test_bytes_that_were_decrypted_already_are_known_of(serve: Serve, tls: TlsConfig, server: ssl.SSLContext):
    release = threading.Event()

    def answer(stream: socket.socket) -> None:
        with server.wrap_socket(stream, server_side=True) as encrypted:
            encrypted.sendall(b"onetwo")  # one record
            release.wait(30)

    transport = dial(serve(answer), tls)
    target = memoryview(bytearray(3))
    assert transport.receive_into(target, Deadline.after(5)) == 3
    assert transport.pending, "the socket itself has nothing to read any more"
    assert transport.receive_now(target) == 3
    assert bytes(target) == b"two"
    assert not transport.pending
    assert transport.receive_now(target) == 0
    release.set()
    transport.close()


def test_deadlines_hold_inside_of_tls(serve: Serve, tls: TlsConfig, server: ssl.SSLContext):
    release = threading.Event()

    def silent(stream: socket.socket) -> None:
        with server.wrap_socket(stream, server_side=True):
            release.wait(30)

    transport = dial(serve(silent), tls)
    started = time.monotonic()
    with pytest.raises(RequestTimedOut, match="did not respond in time"):
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(0.2))
    with pytest.raises(RequestTimedOut, match="does not accept more bytes"):
        transport.send(bytes(64_000_000), Deadline.after(0.3))
    assert time.monotonic() - started < 20
    release.set()
    transport.close()


def test_a_slow_reader_does_not_stretch_the_deadline(serve: Serve, tls: TlsConfig, server: ssl.SSLContext):
    done = threading.Event()

    def dripping(stream: socket.socket) -> None:
        with server.wrap_socket(stream, server_side=True) as encrypted:
            while not done.wait(0.05) and encrypted.recv(16384):
                pass

    transport = dial(serve(dripping), tls)
    started = time.monotonic()
    with pytest.raises(RequestTimedOut):
        transport.send(bytes(64_000_000), Deadline.after(0.5))
    assert time.monotonic() - started < 20
    done.set()
    transport.close()


def test_a_cut_stream_is_a_broken_connection(serve: Serve, tls: TlsConfig, server: ssl.SSLContext):
    def cut(stream: socket.socket) -> None:
        encrypted = server.wrap_socket(stream, server_side=True)
        encrypted.recv(4)
        socket.socket(fileno=encrypted.detach()).close()

    transport = dial(serve(cut), tls)
    transport.send(b"ping", Deadline.after(30))
    with pytest.raises(BrokerUnavailable) as caught:
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(30))
    assert caught.value.retriable
    transport.close()


def test_bytes_that_are_no_record_break_the_connection(serve: Serve, tls: TlsConfig, server: ssl.SSLContext):
    def garble(stream: socket.socket) -> None:
        encrypted = server.wrap_socket(stream, server_side=True)
        encrypted.recv(4)
        with socket.socket(fileno=encrypted.detach()) as bare:
            bare.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))

    transport = dial(serve(garble), tls)
    transport.send(b"ping", Deadline.after(30))
    with pytest.raises((BrokerUnavailable, AuthenticationFailed)):
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(30))
    transport.close()


def answered_once(server: ssl.SSLContext, stream: socket.socket, then: bytes | None) -> None:
    """A TLS peer that answers one message, then sends these bytes, or (None) an alert about bytes that were garbled."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = server.wrap_bio(incoming, outgoing, server_side=True)

    def until_done(step: Callable[[], Any]) -> None:
        while True:
            try:
                step()
                return
            except ssl.SSLWantReadError:
                stream.sendall(outgoing.read())
                incoming.write(stream.recv(65536))
            finally:
                stream.sendall(outgoing.read())

    until_done(peer.do_handshake)
    until_done(lambda: peer.read(4))
    until_done(lambda: peer.write(b"pong"))
    if then is None:
        incoming.write(b"\x17\x03\x03\x00\x20" + bytes(32))
        with contextlib.suppress(ssl.SSLError):
            until_done(lambda: peer.read(4))
    else:
        stream.sendall(then)


@pytest.mark.parametrize(
    "then",
    [b"\x17\x03\x03\x00\x20" + bytes(32), b"HTTP/1.1 502 Bad Gateway\r\n\r\n", None],
    ids=["a garbled record", "plain text", "an alert"],
)
def test_an_error_in_the_middle_of_a_stream_is_a_broken_connection(
    serve: Serve, tls: TlsConfig, server: ssl.SSLContext, then: bytes | None
):
    """Certificates, versions and passwords were accepted before: connecting again may help."""
    transport = dial(serve(lambda stream: answered_once(server, stream, then)), tls)
    transport.send(b"ping", Deadline.after(30))
    assert transport.receive_into(memoryview(bytearray(4)), Deadline.after(30)) == 4
    with pytest.raises(BrokerUnavailable) as caught:
        transport.receive_into(memoryview(bytearray(4)), Deadline.after(30))
    assert "the TLS stream" in str(caught.value)
    transport.close()


def test_the_key_of_an_identity_never_lies_on_a_disk(authority: Authority, tmp_path: Path, monkeypatch: Any):
    if not Path("/proc/self/fd").exists():
        pytest.skip("only where files may lie in memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    issued = authority.issue("someone")
    store = Store("keystore", location=str(issued.pkcs12), password=Secret(PASSWORD))
    loaded: list[tuple[str, str]] = []

    load = ssl.SSLContext.load_cert_chain

    def note(self: ssl.SSLContext, certfile: str, **options: Any) -> None:
        assert b"PRIVATE KEY" in Path(certfile).read_bytes()
        loaded.append((certfile, str(Path(certfile).readlink())))
        load(self, certfile, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", note)
    TlsConfig(keystore=store).context()
    [(path, target)] = loaded
    assert target.startswith("/memfd:")
    assert not Path(path).exists() or str(Path(path).readlink()) != target, "closed as soon as it is loaded"


@pytest.mark.rule(8)
@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_javas_suite_names_are_openssls(suite: str, name: str):
    assert openssl_name(suite) == name
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(name)
    assert name in {cipher["name"] for cipher in context.get_ciphers()}

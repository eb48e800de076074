"""Truststores and keystores, as files and as text; what cannot be used is told by property, and never quoted."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from kseg.client.errors import ConfigError
from kseg.client.security.secret import Secret
from kseg.client.security.stores import Store
from kseg.client.security.tls import TlsConfig
from kseg.jobs.broker.certificates import PASSWORD, Authority, Issued
from kseg.jobs.broker.java import find_java


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "authority")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("client")


def trusting(**store: object) -> TlsConfig:
    return TlsConfig(truststore=Store("truststore", **store))  # type: ignore[arg-type]


def identified(**store: object) -> TlsConfig:
    return TlsConfig(keystore=Store("keystore", **store))  # type: ignore[arg-type]


def keytool(*arguments: str) -> None:
    tool = Path(find_java().home) / "bin" / "keytool"
    if not tool.exists():
        pytest.skip("this Java has no keytool")
    subprocess.run([tool, *arguments], check=True, capture_output=True, timeout=300)


def fault_of(tls: TlsConfig) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        tls.context()
    (fault,) = caught.value.faults
    return fault.key, f"{fault.message} {fault.remedy}"


def names(tls: TlsConfig) -> list[str]:
    return [dict(part[0] for part in found["subject"])["commonName"] for found in tls.context().get_ca_certs()]  # type: ignore[misc,index]


def test_a_pem_truststore_trusts_what_it_holds_and_nothing_else(authority: Authority):
    assert names(trusting(location=str(authority.pem), type="PEM")) == ["authority"]
    assert names(trusting(location=str(authority.pem))) == ["authority"]
    assert names(trusting(certificates=authority.pem.read_text())) == ["authority"]


@pytest.mark.parametrize("type_", ["PKCS12", "JKS", None])
def test_javas_own_pkcs12_truststore_is_read(authority: Authority, folder: Path, type_: str | None):
    store = folder / f"trust-{type_}.p12"
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.pem), "-keystore", str(store),
        "-storetype", "PKCS12", "-storepass", PASSWORD,
    )  # fmt: skip
    assert names(trusting(location=str(store), type=type_, password=Secret(PASSWORD))) == ["authority"]


def test_a_jks_store_is_refused_with_the_command_that_converts_it(authority: Authority, folder: Path):
    store = folder / "trust.jks"
    keytool(
        "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.pem), "-keystore", str(store),
        "-storetype", "JKS", "-storepass", PASSWORD,
    )  # fmt: skip
    key, told = fault_of(trusting(location=str(store), password=Secret(PASSWORD)))
    assert key == "ssl.truststore.location"
    assert "keytool -importkeystore" in told
    assert "PKCS12" in told


def client_name(tls: TlsConfig, authority: Authority, server: Issued) -> str:
    """The name in the certificate that a server sees, which asks for one of this authority."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(server.pem)
    theirs.load_verify_locations(authority.pem)
    theirs.verify_mode = ssl.CERT_REQUIRED
    ours = replace(tls, truststore=Store("truststore", location=str(authority.pem))).context()
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server, server_hostname="localhost")
    peer = theirs.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, peer, client, peer):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = peer.getpeercert()
    assert certificate is not None
    return dict(part[0] for part in certificate["subject"])["commonName"]  # type: ignore[misc]


def test_a_keystore_gives_key_and_chain(authority: Authority, issued: Issued):
    server = authority.issue("broker", names=["localhost"])
    text = issued.pem.read_text()
    for tls in (
        identified(location=str(issued.pem)),
        identified(location=str(issued.pkcs12), type="PKCS12", password=Secret(PASSWORD)),
        identified(certificates=text[text.index("-----BEGIN CERT") :], key=Secret(text)),
    ):
        assert client_name(tls, authority, server) == "client"
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        client_name(TlsConfig(), authority, server)


def test_an_encrypted_key_needs_its_password(issued: Issued, folder: Path):
    key = issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    file = folder / "encrypted.pem"
    file.write_bytes(key + issued.pem.read_bytes()[issued.pem.read_bytes().index(b"-----BEGIN CERT") :])
    identified(location=str(file), key_password=Secret("hunter2")).context()
    assert fault_of(identified(location=str(file)))[0] == "ssl.key.password"
    key_, told = fault_of(identified(location=str(file), key_password=Secret("wrong-hunter")))
    assert key_ == "ssl.keystore.location"
    assert "ssl.key.password" in told
    assert "hunter" not in told


def test_a_wrong_store_password_is_told_without_it(issued: Issued):
    key, told = fault_of(identified(location=str(issued.pkcs12), password=Secret("hunter2")))
    assert key == "ssl.keystore.location"
    assert "ssl.keystore.password is wrong" in told
    assert "hunter2" not in told
    assert "ssl.keystore.password is missing" in fault_of(identified(location=str(issued.pkcs12)))[1]


def test_faults_of_both_stores_are_told_at_once(folder: Path):
    tls = replace(trusting(location=str(folder / "no.pem")), keystore=Store("keystore", location=str(folder)))
    with pytest.raises(ConfigError) as caught:
        tls.context()
    assert [fault.key for fault in caught.value.faults] == ["ssl.truststore.location", "ssl.keystore.location"]
    assert "No such file" in str(caught.value)


def test_what_is_no_store_is_refused(authority: Authority, issued: Issued, folder: Path):
    other = authority.issue("other")
    garbage = folder / "garbage"
    garbage.write_bytes(b"hunter2")
    assert "neither PEM nor PKCS12" in fault_of(trusting(location=str(garbage)))[1]
    assert "ssl.truststore.type says PKCS12" in fault_of(trusting(location=str(authority.pem), type="PKCS12"))[1]
    assert "no private key" in fault_of(identified(location=str(authority.pem)))[1]
    assert fault_of(trusting(location=str(authority.pem), password=Secret("x")))[0] == "ssl.truststore.password"
    text = issued.pem.read_text()
    others = other.pem.read_text()
    mixed = identified(certificates=others[others.index("-----BEGIN CERT") :], key=Secret(text))
    assert "do not belong together" in fault_of(mixed)[1]
    key_alone = Secret("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----")
    key, told = fault_of(identified(certificates=text, key=key_alone))
    assert key == "ssl.keystore.key"
    assert "hunter2" not in told


def test_a_renewed_certificate_is_taken_up(authority: Authority, folder: Path):
    file = folder / "renewed.pem"
    file.write_bytes(authority.pem.read_bytes())
    tls = trusting(location=str(file))
    first = tls.context()
    assert tls.context() is first
    file.write_bytes(authority.pem.read_bytes() * 2)
    assert tls.context() is not first


@pytest.mark.parametrize("broken", [b"", b"-----BEGIN PRIVATE KEY-----\n", None], ids=["empty", "half", "gone"])
def test_a_store_that_is_being_written_does_not_fail_a_client_that_has_read_it(
    authority: Authority, folder: Path, caplog: pytest.LogCaptureFixture, broken: bytes | None
):
    file = folder / f"rewritten-{broken}.pem"
    file.write_bytes(authority.issue("before", names=["localhost"]).pem.read_bytes())
    tls = identified(location=str(file))
    first = tls.context()
    file.unlink()
    if broken is not None:
        file.write_bytes(broken)
    assert tls.context() is first
    assert "ssl.keystore.location" in caplog.text
    file.write_bytes(authority.issue("after, a longer name", names=["localhost"]).pem.read_bytes())
    assert tls.context() is not first

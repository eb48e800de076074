"""GSSAPI with a live KDC and a real broker, where the optional extra and MIT Kerberos' server are installed.

The exchange itself is tested against a scripted peer in test_authenticate.py, everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kseg.client import AuthenticationFailed, ClientConfig, Cluster
from kseg.client.protocol.messages.security import CreateDelegationTokenRequest
from kseg.client.wire.trace import TRAFFIC
from kseg.jobs.broker.listeners import Listener
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.process import EmbeddedKafka

pytestmark = pytest.mark.broker
IN_ITS_PART = "make test-full PART=kerberos"
pytest.importorskip("gssapi", reason=f"gssapi is not installed: {IN_ITS_PART}")

TOOLS = {name: shutil.which(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local")}
if not all(TOOLS.values()):
    pytest.skip(f"MIT Kerberos' KDC is not installed: {IN_ITS_PART}", allow_module_level=True)

SERVICE = "kafka/127.0.0.1"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A realm TEST.LOCAL with a KDC; gives the folder with krb5.conf, kafka.keytab and etl.keytab."""
    folder = tmp_path_factory.mktemp("realm")
    (port,) = free_ports(1)
    (folder / "krb5.conf").write_text(
        "[libdefaults]\n default_realm = TEST.LOCAL\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
        " rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f"[realms]\n TEST.LOCAL = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_ports = {port}\n kdc_tcp_ports = {port}\n[realms]\n TEST.LOCAL = {{\n"
        f"  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n  max_life = 1h\n }}\n"
        f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
    )
    env = os.environ | {"KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}

    def run(tool: str, *arguments: str) -> None:
        subprocess.run([str(TOOLS[tool]), *arguments], env=env, check=True, capture_output=True, timeout=300)

    run("kdb5_util", "create", "-s", "-P", "master", "-r", "TEST.LOCAL")
    for principal in (SERVICE, "etl"):
        run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        run("kadmin.local", "-q", f"ktadd -k {folder}/{principal.partition('/')[0]}.keytab {principal}")
    kdc = subprocess.Popen([str(TOOLS["krb5kdc"]), "-n"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(folder / "krb5.conf"))
        yield folder
    kdc.terminate()
    kdc.wait(20)


@pytest.fixture(scope="module")
def kerberos_kafka(realm: Path) -> Iterator[EmbeddedKafka]:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "gssapi.sasl.jaas.config": f'{module} keyTab="{realm}/kafka.keytab" principal="{SERVICE}@TEST.LOCAL";',
        "connections.max.reauth.ms": "3000",
    }
    with EmbeddedKafka(
        light=True,
        listeners=[Listener("KERBEROS", "SASL_PLAINTEXT", settings)],
        config={"sasl.kerberos.service.name": "kafka", "delegation.token.secret.key": "a key for tests"},
        jvm=[f"-Djava.security.krb5.conf={realm}/krb5.conf"],
    ) as kafka:
        yield kafka


def config(kafka: EmbeddedKafka, realm: Path, keytab: str | None, **more: str) -> ClientConfig:
    properties = {
        "bootstrap.servers": kafka.servers_of("KERBEROS"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
    }
    if keytab:
        options = f'useKeyTab=true keyTab="{realm}/{keytab}.keytab" principal="etl@TEST.LOCAL"'
        properties["sasl.jaas.config"] = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    return ClientConfig.from_properties(properties | more, client_id="kerberos")


def test_a_keytab_with_another_principals_key(kerberos_kafka: EmbeddedKafka, realm: Path):
    cluster = Cluster(config(kerberos_kafka, realm, "kafka"))
    with pytest.raises(AuthenticationFailed, match="klist") as caught:
        cluster.metadata([])
    assert caught.value.broker
    assert not caught.value.retriable


def test_a_keytab_logs_in_and_goes_on_when_the_session_ends(kerberos_kafka: EmbeddedKafka, realm: Path):
    with Cluster(config(kerberos_kafka, realm, "etl")) as cluster:
        answer = cluster.send(CreateDelegationTokenRequest(max_lifetime_ms=60_000))
        assert (answer.error_code, answer.principal_name) == (0, "etl")
        until = time.monotonic() + 5
        while time.monotonic() < until:
            assert cluster.metadata([], refresh=True).brokers
            time.sleep(0.2)
    at = kerberos_kafka.servers_of("KERBEROS")
    sent = {api: t.requests for (broker, api, _), t in TRAFFIC.snapshot().items() if f"1 ({at})" == broker}
    assert sent["SaslHandshake"] >= 1, "on the connection that was there"


def test_without_tickets(kerberos_kafka: EmbeddedKafka, realm: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm}/none")
    cluster = Cluster(config(kerberos_kafka, realm, None))
    with pytest.raises(AuthenticationFailed, match="credentials") as caught:
        cluster.metadata([])
    assert caught.value.broker


def test_a_service_that_the_kdc_does_not_know(kerberos_kafka: EmbeddedKafka, realm: Path):
    cluster = Cluster(config(kerberos_kafka, realm, "etl", **{"sasl.kerberos.service.name": "nobody"}))
    with pytest.raises(AuthenticationFailed, match="nobody/127"):
        cluster.metadata([])

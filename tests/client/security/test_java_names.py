"""Every `ssl.*` and `sasl.*` name of the Java client is taken, or refused with a word on why; none is just unknown."""

from __future__ import annotations

import re
import zipfile

import pytest

from kseg.client import ClientConfig, ConfigError
from kseg.client.security.config import NAMES
from kseg.jobs.broker import jars

#: Names that only this client has.
OURS = {"sasl.username", "sasl.password", "sasl.oauthbearer.token.callback"}
#: Settings of brokers, which stand in the same Java classes.
BROKERS = {"ssl.client.auth"}


@pytest.fixture(scope="module")
def java_names() -> set[str]:
    folder = jars.ensure(jars.KAFKA)
    (jar,) = folder.glob("kafka-clients-*.jar")
    found: set[str] = set()
    with zipfile.ZipFile(jar) as archive:
        for name in ("SslConfigs", "SaslConfigs"):
            text = archive.read(f"org/apache/kafka/common/config/{name}.class")
            # A constant of a class file: tag 1, its length, its text.
            found |= {
                match[2].decode()
                for match in re.finditer(rb"\x01(\x00.)((?:ssl|sasl)\.[a-z.]+)(?=[\x01-\x12])", text, re.DOTALL)
                if int.from_bytes(match[1], "big") == len(match[2])
            }
    return found


def test_the_names_are_read_from_the_jar(java_names: set[str]):
    assert {"ssl.truststore.location", "sasl.mechanism", "sasl.login.retry.backoff.max.ms"} <= java_names
    assert len(java_names) > 50


def test_each_of_javas_names_is_known(java_names: set[str]):
    unknown = []
    for name in sorted(java_names - NAMES):
        with pytest.raises(ConfigError) as caught:
            ClientConfig.from_properties({"bootstrap.servers": "a:1", name: "x"}, client_id="c")
        (fault,) = caught.value.faults
        if fault.message == "unknown property":
            unknown.append(name)
    assert unknown == []


def test_no_name_is_invented(java_names: set[str]):
    assert NAMES - java_names - OURS - BROKERS == {"security.protocol"}

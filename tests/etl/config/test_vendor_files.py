"""Configurations as vendors give them: what the guide makes of them is taken, and what is wrong is one error each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.client.security.endpoint import ClientCredentials
from kseg.client.security.tokens import Callback
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import Diagnostic

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "connecting.md").read_text()
FILES = dict(re.findall(r'```yaml title="(.*?)"\n(.*?)```', GUIDE, re.DOTALL))
OAUTH = "org.apache.kafka.common.security.oauthbearer."
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def guides_job(tmp_path: Path) -> Callable[[str], Job]:
    """The job of a file in the guide."""

    def load(name: str) -> Job:
        file = tmp_path / name
        file.write_text(FILES[name])
        secrets = {
            key: "etl" if key.endswith("_KEY") else "etl:hunter2" for key in re.findall(r"\$\{(\w+)\}", FILES[name])
        }
        return load_job(file, env=secrets)

    return load


@pytest.mark.parametrize("name", FILES)
def test_each_file_of_the_guide_is_taken(guides_job: Callable[[str], Job], name: str) -> None:
    config = guides_job(name).client_config()
    assert config.security.protocol in ("SSL", "SASL_SSL")
    assert "hunter2" not in repr(config)


def test_the_guide_has_a_file_for_each_vendor() -> None:
    assert {"confluent-cloud.yaml", "msk-iam.yaml", "event-hubs.yaml", "aiven.yaml", "oauth.yaml"} <= FILES.keys()


def test_the_guides_logins_are_those_that_it_says(guides_job: Callable[[str], Job]) -> None:
    def sasl(name: str) -> Any:
        return guides_job(name).client_config().security.sasl

    assert sasl("msk-iam.yaml").tokens == Callback("kseg.client.security.msk:token")
    assert sasl("event-hubs.yaml").username == "$ConnectionString"
    assert dict(sasl("confluent-cloud-oauth.yaml").extensions) == {
        "logicalCluster": "lkc-abcde",
        "identityPoolId": "pool-abcde",
    }
    assert isinstance(sasl("oauth.yaml").tokens, ClientCredentials)
    assert guides_job("confluent-cloud.yaml").registry_config().basic is not None


#: What vendors' pages show for a client: the properties, and all that is wrong with them here, by name.
VENDORS: dict[str, tuple[str, dict[str, str]]] = {
    "Confluent Cloud, Java": (
        f"""
        bootstrap.servers: pkc-abcde.us-east-1.aws.confluent.cloud:9092
        security.protocol: SASL_SSL
        sasl.jaas.config: {PLAIN} username='${{KEY}}' password='${{SECRET}}';
        sasl.mechanism: PLAIN
        client.dns.lookup: use_all_dns_ips
        session.timeout.ms: 45000
        acks: all
        schema.registry.url: https://psrc-abcde.us-east-1.aws.confluent.cloud
        basic.auth.credentials.source: USER_INFO
        basic.auth.user.info: ${{BOTH}}
        """,
        {
            "session.timeout.ms": "remove it",
            "acks": "remove it",
            "schema.registry.url": "like basic.auth.credentials.source, basic.auth.user.info — move it to the job "
            "file's section `registry`",
        },
    ),
    "Confluent Cloud, Python": (
        """
        bootstrap.servers: pkc-abcde.us-east-1.aws.confluent.cloud:9092
        security.protocol: SASL_SSL
        sasl.mechanisms: PLAIN
        sasl.username: ${KEY}
        sasl.password: ${SECRET}
        """,
        {"sasl.mechanisms": "use sasl.mechanism"},
    ),
    "Confluent Cloud, OAuth in Java before 4.0": (
        f"""
        bootstrap.servers: pkc-abcde.us-east-1.aws.confluent.cloud:9092
        security.protocol: SASL_SSL
        sasl.mechanism: OAUTHBEARER
        sasl.oauthbearer.token.endpoint.url: https://login.example.com/token
        sasl.login.callback.handler.class: {OAUTH}secured.OAuthBearerLoginCallbackHandler
        sasl.jaas.config: {OAUTH}OAuthBearerLoginModule required clientId='a' clientSecret='${{SECRET}}' scope='b'
          extension_logicalCluster='lkc-1' extension_identityPoolId='pool-1';
        """,
        {},
    ),
    "Confluent Cloud, OAuth in Python": (
        """
        bootstrap.servers: pkc-abcde.us-east-1.aws.confluent.cloud:9092
        security.protocol: SASL_SSL
        sasl.mechanisms: OAUTHBEARER
        sasl.oauthbearer.method: OIDC
        sasl.oauthbearer.client.id: a
        sasl.oauthbearer.client.secret: ${SECRET}
        sasl.oauthbearer.token.endpoint.url: https://login.example.com/token
        sasl.oauthbearer.extensions: logicalCluster=lkc-1,identityPoolId=pool-1
        """,
        {
            "sasl.mechanisms": "use sasl.mechanism",
            "sasl.oauthbearer.method": "remove it",
            "sasl.oauthbearer.client.id": "use sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.secret": "use sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.extensions": "extension_NAME",
        },
    ),
    "MSK, IAM in Java": (
        """
        bootstrap.servers: b-1.lake.kafka.eu-west-1.amazonaws.com:9098
        security.protocol: SASL_SSL
        sasl.mechanism: AWS_MSK_IAM
        sasl.jaas.config: software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="etl";
        sasl.client.callback.handler.class: software.amazon.msk.auth.iam.IAMClientCallbackHandler
        """,
        {"sasl.mechanism": "sasl.oauthbearer.token.callback to kseg.client.security.msk:token"},
    ),
    "MSK, IAM by OAuth in Java": (
        f"""
        bootstrap.servers: b-1.lake.kafka.eu-west-1.amazonaws.com:9098
        security.protocol: SASL_SSL
        sasl.mechanism: OAUTHBEARER
        sasl.jaas.config: {OAUTH}OAuthBearerLoginModule required;
        sasl.login.callback.handler.class: software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
        """,
        {"sasl.login.callback.handler.class": "kafka-segment-etl[msk]"},
    ),
    "Event Hubs": (
        f"""
        bootstrap.servers: lake.servicebus.windows.net:9093
        security.protocol: SASL_SSL
        sasl.mechanism: PLAIN
        sasl.jaas.config: {PLAIN} username="$ConnectionString" password="${{SECRET}}";
        request.timeout.ms: 60000
        connections.max.idle.ms: 180000
        metadata.max.age.ms: 180000
        """,
        {},
    ),
    "Event Hubs, as copied": (
        f"""
        bootstrap.servers: lake.servicebus.windows.net:9093
        security.protocol: SASL_SSL
        sasl.mechanism: PLAIN
        sasl.jaas.config: {PLAIN} username="$ConnectionString" password="Endpoint=sb://lake;SharedAccessKey=abc=";
        """,
        {"sasl.jaas.config": "is a secret in plain text"},
    ),
    "Aiven, Java": (
        """
        bootstrap.servers: lake.aivencloud.com:12345
        security.protocol: SSL
        ssl.protocol: TLS
        ssl.key.password: ${SECRET}
        ssl.keystore.location: client.keystore.p12
        ssl.keystore.password: ${SECRET}
        ssl.keystore.type: PKCS12
        ssl.truststore.location: client.truststore.jks
        ssl.truststore.password: ${SECRET}
        ssl.truststore.type: JKS
        """,
        {},
    ),
    "Aiven, Python": (
        """
        metadata.broker.list: lake.aivencloud.com:12345
        security.protocol: ssl
        ssl.ca.location: ca.pem
        ssl.certificate.location: service.cert
        ssl.key.location: service.key
        fetch.message.max.bytes: 1000000
        """,
        {
            "metadata.broker.list": "use bootstrap.servers",
            "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type=PEM",
            "ssl.certificate.location": "as is ssl.key.location — put the key and the certificates into one PEM file",
            "fetch.message.max.bytes": "use max.partition.fetch.bytes",
        },
    ),
    "Strimzi, OAuth": (
        f"""
        bootstrap.servers: kafka-bootstrap:9093
        security.protocol: SASL_SSL
        sasl.mechanism: OAUTHBEARER
        sasl.login.callback.handler.class: io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler
        sasl.jaas.config: {OAUTH}OAuthBearerLoginModule required oauth.client.id="a" oauth.client.secret="${{SECRET}}"
          oauth.token.endpoint.uri="https://keycloak/realms/lake/protocol/openid-connect/token";
        """,
        {"sasl.login.callback.handler.class": "oauth.token.endpoint.uri is the property"},
    ),
    "no mechanism": (
        f"""
        bootstrap.servers: a:9093
        security.protocol: SASL_SSL
        sasl.jaas.config: {PLAIN} username='${{KEY}}' password='${{SECRET}}';
        """,
        {"sasl.mechanism": "set it to PLAIN"},
    ),
    "no protocol": (
        """
        bootstrap.servers: a:9093
        sasl.mechanism: PLAIN
        sasl.username: ${KEY}
        sasl.password: ${SECRET}
        """,
        {"security.protocol": "set it to SASL_SSL"},
    ),
    "a misspelt option": (
        f"""
        bootstrap.servers: a:9093
        security.protocol: SASL_SSL
        sasl.mechanism: PLAIN
        sasl.jaas.config: {PLAIN} username='${{KEY}}' password='${{SECRET}}' serviceName="kafka";
        """,
        {"sasl.jaas.config": "option serviceName is not one of PlainLoginModule — supported: username, password"},
    ),
}
ENV = {"KEY": "etl", "SECRET": "hunter2", "BOTH": "etl:hunter2"}


@pytest.mark.parametrize(("properties", "expected"), VENDORS.values(), ids=VENDORS)
def test_each_mistake_in_a_vendors_file_is_one_error_with_its_remedy(
    job_file: Callable[..., Path], faults: Callable[..., list[Diagnostic]], properties: str, expected: dict[str, str]
) -> None:
    section = yaml.safe_load(properties)
    if not expected:
        assert load_job(job_file({"kafka": section}), env=ENV).client_config()
        return
    found = {fault.path: f"{fault.message} — {fault.remedy}" for fault in faults({"kafka": section}, ENV)}
    assert found.keys() == {f"kafka.{name}" for name in expected}, found
    for name, told in expected.items():
        assert told in found[f"kafka.{name}"]
    assert "hunter2" not in str(found)


def test_a_registrys_properties_by_confluents_names_are_one_error(faults: Callable[..., list[Diagnostic]]) -> None:
    section = {
        "schema.registry.url": "https://sr",
        "basic.auth.credentials.source": "USER_INFO",
        "schema.registry.basic.auth.user.info": "${BOTH}",
    }
    (fault,) = faults({"registry": section}, ENV)
    assert fault.path == "registry.schema.registry.url"
    assert "write url, basic.auth.user.info" in fault.remedy


def test_an_option_of_a_login_is_named_by_its_number_where_the_text_is_one_reference(
    faults: Callable[..., list[Diagnostic]],
) -> None:
    section = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "${JAAS}",
    }
    text = 'PlainLoginModule required username="u" password="a"hunter2="b";'
    (fault,) = faults({"kafka": section}, {"JAAS": text})
    assert "option 3 is not one of PlainLoginModule" in fault.message
    assert "hunter2" not in str(fault)

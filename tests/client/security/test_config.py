"""`security.protocol`, `ssl.*` and `sasl.*` by Java's names: every fault at once, and no secret told."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client import ClientConfig, ConfigError
from kseg.client.security import Secret, SecurityConfig
from kseg.client.security.config import NAMES
from kseg.client.security.endpoint import ClientCredentials
from kseg.client.security.kerberos import KerberosConfig
from kseg.client.security.tokens import Callback, TokenFile, Unsecured

JAAS = "org.apache.kafka.common.security."
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
URL = "sasl.oauthbearer.token.endpoint.url"
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def security(properties: dict[str, str]) -> SecurityConfig:
    return ClientConfig.from_properties({"bootstrap.servers": "a:1"} | properties, client_id="c").security


def faults(properties: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        security(properties)
    assert "hunter2" not in f"{caught.value} {caught.value!r} {pickle.loads(pickle.dumps(caught.value))!r}"
    return {fault.key: f"{fault.message} ({fault.remedy})" for fault in caught.value.faults}


def test_plaintext_is_the_default():
    assert security({}) == SecurityConfig("PLAINTEXT", None, None)


@pytest.mark.parametrize(
    ("protocol", "tls", "sasl"),
    [("PLAINTEXT", False, False), ("ssl", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_the_protocol_says_what_there_is(protocol: str, tls: bool, sasl: bool):
    user = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"} if sasl else {}
    found = security({"security.protocol": protocol} | user)
    assert (found.tls is not None, found.sasl is not None) == (tls, sasl)
    assert found.protocol == protocol.upper()


def test_host_names_are_verified_unless_that_is_turned_off():
    assert security({"security.protocol": "SSL"}).tls.verify_host_name
    off = security({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    assert not off.tls.verify_host_name


def test_stores_are_taken_as_they_are_named():
    tls = security(
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": "ca.p12",
            "ssl.truststore.type": "pkcs12",
            "ssl.truststore.password": " hunter2 ",
            "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
            "ssl.keystore.certificate.chain": PEM,
            "ssl.key.password": "hunter2",
        }
    ).tls
    assert (tls.truststore.location, tls.truststore.type) == ("ca.p12", "PKCS12")
    assert tls.truststore.password == Secret(" hunter2 "), "as Java, a password keeps its blanks"
    assert tls.keystore.key_password == Secret("hunter2")


def test_a_property_without_effect_is_a_fault():
    told = faults({"ssl.truststore.location": "x", "sasl.mechanism": "PLAIN"})
    assert set(told) == {"security.protocol"}, "one mistake is one fault"
    assert "PLAINTEXT, its default" in told["security.protocol"]
    assert "ssl.truststore.location and sasl.mechanism have no effect" in told["security.protocol"]
    told = faults({"security.protocol": "SSL", "sasl.username": "u"})
    assert set(told) == {"security.protocol"}
    assert "set it to SASL_SSL" in told["security.protocol"]
    told = faults(PLAIN | {"sasl.username": "u", "sasl.password": "p", URL: "https://h/t"})
    assert set(told) == {"sasl.mechanism"}
    assert f"is PLAIN: {URL} has no effect" in told["sasl.mechanism"]


@pytest.mark.parametrize(
    ("login", "fitting"),
    [
        ({"sasl.username": "u", "sasl.password": "p"}, "PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({"sasl.jaas.config": f'{JAAS}plain.PlainLoginModule required username="u" password="p";'}, "PLAIN"),
        ({"sasl.jaas.config": "ScramLoginModule required username=u password=p;"}, "SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({URL: "https://h/t", "sasl.oauthbearer.scope": "s"}, "OAUTHBEARER"),
        ({"sasl.jaas.config": "OAuthBearerLoginModule required clientId=a clientSecret=b;"}, "OAUTHBEARER"),
    ],
)
def test_a_login_without_its_mechanism_is_one_fault_that_says_which_fits(login: dict[str, str], fitting: str):
    told = faults({"security.protocol": "SASL_SSL"} | login)
    assert set(told) == {"sasl.mechanism"}
    assert told["sasl.mechanism"].startswith("is GSSAPI, its default")
    assert told["sasl.mechanism"].endswith(f"(set it to {fitting})")


def test_all_faults_come_at_once_and_no_secret_is_told():
    told = faults(
        {
            "security.protocol": "SASL_SSL",
            "ssl.enabled.protocols": "TLSv1.1,SSLv3",
            "ssl.endpoint.identification.algorithm": "ldaps",
            "ssl.truststore.type": "BKS",
            "ssl.truststore.location": "x",
            "ssl.truststore.certificates": "hunter2",
            "ssl.keystore.password": "hunter2",
            "ssl.keystore.key": "hunter2",
            "ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA",
            "ssl.ca.location": "x",
            "ssl.provider": "x",
            "ssl.nonsense": "hunter2",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.mechanisms": "NTLM",
            "fetch.max.bytes": "many",
        }
    )
    assert {
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.ca.location",
        "ssl.provider",
        "ssl.nonsense",
        "sasl.password",
        "sasl.mechanisms",
        "fetch.max.bytes",
    } == set(told)
    assert "ssl.truststore.location" in told["ssl.ca.location"]


@pytest.mark.parametrize(
    ("suites", "protocols"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ("TLSv1.2",)),
        ("ECDHE-ECDSA-CHACHA20-POLY1305, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", ("TLSv1.2",)),
        ("TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256", ("TLSv1.3",)),
        ("", ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_cipher_suites_are_javas_names_and_leave_protocols_out(suites: str, protocols: tuple[str, ...]):
    tls = security({"security.protocol": "SSL", "ssl.cipher.suites": suites}).tls
    assert tls.protocols == protocols
    context = tls.context()
    assert context.maximum_version.name == protocols[-1].replace(".", "_")
    named = {cipher["name"] for cipher in context.get_ciphers()} if suites else set()
    if suites.startswith("TLS_ECDHE_RSA_WITH_AES_256"):
        assert {name for name in named if not name.startswith("TLS_")} == {"ECDHE-RSA-AES256-GCM-SHA384"}


def test_a_choice_among_the_suites_of_tls_13_is_refused():
    told = faults({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"})
    assert "only be enabled all together" in told["ssl.cipher.suites"]
    tls = security({"security.protocol": "SSL", "ssl.protocol": "TLSv1.2"}).tls
    assert tls.protocols == ("TLSv1.2",)
    assert "TLSv1.2" in faults({"security.protocol": "SSL", "ssl.protocol": "SSLv3"})["ssl.protocol"]


@pytest.mark.parametrize(
    ("mechanism", "module", "token"),
    [
        ("PLAIN", "plain.PlainLoginModule", False),
        ("SCRAM-SHA-256", "scram.ScramLoginModule", False),
        ("scram-sha-512", "scram.ScramLoginModule", True),
    ],
)
def test_javas_login_module_and_librdkafkas_names_mean_the_same(mechanism: str, module: str, token: bool):
    base = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    more = ' tokenauth="true"' if token else ""
    jaas = security(base | {"sasl.jaas.config": f'{JAAS}{module} required username="u" password="hunter2"{more};'}).sasl
    assert (jaas.username, jaas.password, jaas.token_auth) == ("u", Secret("hunter2"), token)
    if not token:
        assert security(base | {"sasl.username": "u", "sasl.password": "hunter2"}).sasl == jaas


@pytest.mark.parametrize(
    ("properties", "key", "told"),
    [
        ({}, "sasl.username", "is missing"),
        ({"sasl.username": "u"}, "sasl.password", "is missing"),
        ({"sasl.jaas.config": "hunter2"}, "sasl.jaas.config", "control flag"),
        ({"sasl.jaas.config": "ScramLoginModule required a=hunter2;"}, "sasl.jaas.config", "another login module"),
        ({"sasl.jaas.config": "PlainLoginModule required username=u;"}, "sasl.jaas.config", "has no password"),
        (
            {"sasl.jaas.config": "PlainLoginModule required username=u password=hunter2 hunter2=x;"},
            "sasl.jaas.config",
            "option 3 is not one of PlainLoginModule",
        ),
        (
            {"sasl.jaas.config": "PlainLoginModule required username=u password=hunter2;", "sasl.password": "hunter2"},
            "sasl.password",
            "combined with sasl.jaas.config",
        ),
        ({"sasl.mechanism": "NTLM"}, "sasl.mechanism", "one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.kerberos.service.name", "is missing"),
    ],
)
def test_what_a_login_lacks_is_told(properties: dict[str, str], key: str, told: str):
    assert told in faults(PLAIN | properties)[key]


def oauth_source(properties: dict[str, str]) -> Any:
    return security(OAUTH | properties).sasl.tokens


def test_tokens_come_from_an_endpoint_by_properties_or_by_the_login_module():
    by_properties = oauth_source(
        {
            URL: "https://login.test/token",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
            "sasl.oauthbearer.scope": "kafka",
        }
    )
    module = f'{JAAS}oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="hunter2" scope="kafka"'
    by_module = oauth_source({URL: "https://login.test/token", "sasl.jaas.config": f"{module};"})
    assert by_properties == by_module == ClientCredentials("https://login.test/token", "me", Secret("hunter2"), "kafka")
    full = security(
        OAUTH
        | {
            URL: "https://login.test/token",
            "sasl.jaas.config": f'{module} extension_cluster="x" ssl.truststore.location="/ca.pem";',
            "sasl.login.connect.timeout.ms": "7",
            "sasl.login.retry.backoff.max.ms": "9",
            "sasl.login.refresh.window.factor": "0.9",
        }
    ).sasl
    assert full.extensions == (("cluster", "x"),)
    assert full.refresh_window == 0.9
    assert isinstance(full.tokens, ClientCredentials)
    assert (full.tokens.connect_timeout_ms, full.tokens.retry_backoff_max_ms) == (7, 9)
    assert full.tokens.tls.truststore.location == "/ca.pem"


def test_tokens_come_from_a_file_a_function_or_nowhere():
    assert oauth_source({URL: "file:///run/secrets/token"}) == TokenFile("/run/secrets/token")
    assert oauth_source({"sasl.oauthbearer.token.callback": "my.module:token"}) == Callback("my.module:token")
    jaas = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice" unsecuredLoginExtension_a="b";'
    assert oauth_source({"sasl.jaas.config": jaas}) == Unsecured((("sub", "alice"),))


@pytest.mark.parametrize(
    ("properties", "key", "told"),
    [
        ({}, URL, "no source"),
        ({URL: "https://h/t", "sasl.oauthbearer.token.callback": "a:b"}, URL, "more than one"),
        ({URL: "ftp://h/t"}, URL, "not a URL"),
        ({URL: "https://[h/t"}, URL, "not a URL"),
        ({URL: "https://h:port/t"}, URL, "not a URL"),
        ({URL: "https://h:0/t"}, URL, "not a URL"),
        ({URL: "https://me:hunter2@h/t"}, URL, "not a URL"),
        ({URL: "https://h/t"}, "sasl.oauthbearer.client.credentials.client.secret", "is missing"),
        ({"sasl.oauthbearer.token.callback": "no function"}, "sasl.oauthbearer.token.callback", "module:function"),
        ({"sasl.login.callback.handler.class": "a.B"}, "sasl.login.callback.handler.class", "token.callback"),
        ({"sasl.oauthbearer.jwt.retriever.class": "a.B"}, "sasl.oauthbearer.jwt.retriever.class", "token.callback"),
        ({"sasl.login.retry.backoff.ms": "hunter2", URL: "https://h/t"}, "sasl.login.retry.backoff.ms", "milliseconds"),
        (
            {"sasl.jaas.config": "OAuthBearerLoginModule required unsecuredLoginNumberClaim_a=hunter2;"},
            "sasl.jaas.config",
            "unsecuredLogin",
        ),
    ],
)
def test_what_a_token_source_lacks_is_told(properties: dict[str, str], key: str, told: str):
    assert told in faults(OAUTH | properties)[key]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.login.callback.handler.class", f"{JAAS}oauthbearer.OAuthBearerLoginCallbackHandler"),
        ("sasl.login.callback.handler.class", f"{JAAS}oauthbearer.secured.OAuthBearerLoginCallbackHandler"),
        ("sasl.oauthbearer.jwt.retriever.class", f"{JAAS}oauthbearer.ClientCredentialsJwtRetriever"),
    ],
)
def test_javas_own_classes_for_logins_change_nothing(name: str, value: str):
    login = OAUTH | {URL: "file:///run/token"}
    assert security(login | {name: value}) == security(login)
    assert set(faults(OAUTH | {name: value})) == {URL}, "where the tokens come from is still missing"
    assert set(faults(OAUTH | {name: value.replace("org.apache", "com.example")})) == {name}


def test_kerberos_takes_the_options_of_krb5loginmodule():
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        'keyTab="/etc/k.keytab" principal="me@REALM";'
    )
    properties = {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": jaas}
    assert security(properties).sasl.kerberos == KerberosConfig("kafka", "me@REALM", "/etc/k.keytab")
    told = faults(properties | {"sasl.jaas.config": "Krb5LoginModule required useKeyTab=true renewTGT=true;"})
    assert "keyTab" in told["sasl.jaas.config"]


def test_no_repr_shows_a_secret_and_it_travels_to_workers():
    for properties in (
        PLAIN | {"sasl.username": "u", "sasl.password": "hunter2"},
        PLAIN | {"sasl.jaas.config": 'PlainLoginModule required username="u" password="hunter2";'},
        OAUTH
        | {URL: "https://h", "sasl.jaas.config": "OAuthBearerLoginModule required clientId=a clientSecret=hunter2;"},
        {
            "security.protocol": "SSL",
            "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----hunter2",
            "ssl.keystore.certificate.chain": PEM,
            "ssl.key.password": "hunter2",
            "ssl.truststore.location": "x",
            "ssl.truststore.password": "hunter2",
        },
    ):
        config = ClientConfig.from_properties({"bootstrap.servers": "a:1"} | properties, client_id="c")
        copy = pickle.loads(pickle.dumps(config))
        assert copy == config
        assert "hunter2" not in f"{config!r} {config} {copy!r} {config.security.sasl}"


SECRETS = sorted(name for name in NAMES if name.endswith(("password", "secret", "jaas.config", "keystore.key")))
WORDS = [
    "PlainLoginModule required ",
    "username=",
    '"',
    ";",
    "\\",
    "-----BEGIN PRIVATE KEY-----",
    "https://",
    " ",
    "\x00",
]
hostile = st.lists(st.sampled_from(WORDS) | st.text(max_size=5)).map(lambda parts: "".join([*parts, "hunter2", *parts]))


@given(
    st.sampled_from(["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"]),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"]),
    st.dictionaries(st.sampled_from(SECRETS), hostile),
    st.dictionaries(st.sampled_from(sorted(NAMES - set(SECRETS))), st.text(max_size=20)),
)
def test_whatever_is_written_is_taken_or_refused_without_telling_a_secret(
    protocol: str, mechanism: str, secrets: dict[str, str], others: dict[str, str]
):
    properties = {"security.protocol": protocol, "sasl.mechanism": mechanism} | secrets | others
    try:
        shown = repr(security(properties))
    except ConfigError as error:
        shown = f"{error} {error!r}"
    if "username" not in "".join(secrets.values()):  # a user's name is shown
        assert "hunter2" not in shown


def test_the_names_of_secrets_are_all_there():
    assert len(SECRETS) == 7

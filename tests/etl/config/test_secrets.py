"""A secret is used and never shown: not in a repr, not in a fault, not in the pinned copy, not in the hash's input."""

from __future__ import annotations

import json
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.config.secrets import SecretProperties, sounds_secret, stands_in_clear
from kseg.etl.errors import ConfigurationError

Load = Callable[..., Job]

# Long enough not to stand in a text by chance, and full of what escaping would change.
secrets = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=30).map(
    lambda text: f"s3cr3t-{text}-t3rc3s"
)
TRUSTED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def told(error: ConfigurationError) -> str:
    """Everything that a failed load may print."""
    return "\n".join(
        [str(error), repr(error), json.dumps(error.to_json()), *traceback.format_exception(error), repr(error.__dict__)]
    )


def shown(job: Job) -> str:
    """Everything that a loaded job may print."""
    pinned = json.dumps(job.pinned(), ensure_ascii=False)
    properties = [repr(job.kafka_properties()), str(job.spark_conf()), f"{job.kafka_properties()}"]
    return "\n".join([repr(job), str(job), pinned, job.model_dump_json(), str(job.model_dump()), *properties])


def leaks(secret: str, text: str) -> bool:
    """Whether the secret's heart stands in the text, as it is or escaped."""
    return "s3cr3t-" in text or secret in text or json.dumps(secret)[1:-1] in text


@given(secret=secrets)
@TRUSTED
def test_a_secret_from_the_environment_is_resolved_and_never_shown(load: Load, secret: str) -> None:
    changes = {
        "kafka/client.id": "${SECRET}",
        "spark/conf": {"spark.x.password": "${SECRET}", "spark.y": "a${SECRET}b"},
    }
    job = load(changes, {"SECRET": secret})
    assert job.kafka_properties()["client.id"] == secret
    assert job.spark_conf() == {"spark.x.password": secret, "spark.y": f"a{secret}b"}
    assert not leaks(secret, shown(job))
    assert job.pinned()["kafka"]["client.id"] == "${SECRET}"
    back = job_from_document(job.pinned(), env={"SECRET": secret})
    assert dict(back.spark_conf()) == dict(job.spark_conf())


@given(secret=secrets)
@TRUSTED
def test_a_secret_from_a_file_is_resolved_and_never_shown(job_file: Callable[..., Path], secret: str) -> None:
    file = job_file({"kafka/client.id": "${file:token.txt}"})
    (file.parent / "token.txt").write_text(secret + "\n")
    job = load_job(file, env={})
    assert job.kafka_properties()["client.id"] == secret
    assert not leaks(secret, shown(job))
    assert job.pinned()["kafka"]["client.id"] == f"${{file:{file.parent}/token.txt}}"


PROPERTIES = [
    "bootstrap.servers", "security.protocol", "fetch.max.bytes", "sasl.jaas.config", "no.such.key", "ssl.key.password",
]  # fmt: skip


@given(secret=secrets, key=st.sampled_from(PROPERTIES))
@TRUSTED
def test_no_fault_shows_what_a_reference_stood_for(job_file: Callable[..., Path], secret: str, key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_job(job_file({f"kafka/{key}": "${SECRET}", "colour": 1}), env={"SECRET": secret})
    assert any(key in f"{fault.path} {fault.message}" for fault in caught.value.faults)
    assert not leaks(secret, told(caught.value))


LITERAL_KEYS = [
    "kafka/ssl.key.password", "kafka/sasl.jaas.config", "kafka/ssl.keystore.key", "spark/conf/spark.x.secret",
]  # fmt: skip


@given(secret=secrets, key=st.sampled_from(LITERAL_KEYS))
@TRUSTED
def test_a_secret_written_out_is_a_fault_that_does_not_repeat_it(
    job_file: Callable[..., Path], secret: str, key: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_job(job_file({key: secret.replace("${", "")}), env={})
    assert "is a secret in plain text" in told(caught.value)
    assert not leaks(secret, told(caught.value))


@pytest.mark.parametrize(
    "value", ["*s3cr3t-x", "!s3cr3t-x y", "[s3cr3t-x", "'s3cr3t-x", "@s3cr3t-x", "{s3cr3t-x: ]", "{s3cr3t-x}"]
)
def test_a_secret_that_breaks_the_yaml_is_not_repeated(job_file: Callable[..., Path], value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_job(job_file(f"kafka:\n  ssl.key.password: {value}\n"))
    assert not leaks("s3cr3t-x", told(caught.value))


def test_a_secret_file_that_is_no_text_is_told_without_its_bytes(job_file: Callable[..., Path]) -> None:
    file = job_file({"kafka/client.id": "${file:bin}"})
    (file.parent / "bin").write_bytes(b"s3cr3t-\xff")
    with pytest.raises(ConfigurationError) as caught:
        load_job(file, env={})
    assert "is not UTF-8 text" in told(caught.value)
    assert not leaks("s3cr3t-", told(caught.value))


def test_properties_show_what_is_no_secret() -> None:
    properties = SecretProperties({"a": "1", "b": "hush"}, frozenset({"b"}))
    assert repr(properties) == "SecretProperties({'a': '1', 'b': '***'})"
    back = pickle.loads(pickle.dumps(properties))
    assert (dict(back), back.hidden) == ({"a": "1", "b": "hush"}, {"b"})


def test_a_pickled_job_still_connects(load: Load) -> None:
    job = pickle.loads(pickle.dumps(load({"kafka/client.id": "${ID}"}, {"ID": "x"})))
    assert job.kafka_properties()["client.id"] == "x"


def test_references_resolve_anew_in_a_pinned_job(load: Load) -> None:
    pinned = load({"kafka/client.id": "${ID}"}, {"ID": "x"}).pinned()
    assert job_from_document(pinned, env={"ID": "y"}).kafka_properties()["client.id"] == "y"
    with pytest.raises(ConfigurationError, match="ID is not set"):
        job_from_document(pinned, env={})


@pytest.mark.parametrize(
    "key",
    [
        "ssl.key.password", "ssl.keystore.password", "ssl.keystore.key", "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase",
        "spark.authenticate.secret", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net", "spark.hadoop.fs.s3a.session.token",
        "spark.kubernetes.authenticate.oauthToken", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD",
        "azure_storage_access_key", "azure_storage_master_key", "azure_storage_sas_key", "connection_string",
        "spark.hadoop.fs.azure.sas.box.me.blob.core.windows.net", "aws_sse_customer_key_base64",
        "spark.hadoop.fs.s3a.encryption.key", "spark.hadoop.fs.s3a.bucket.x.server-side-encryption.key",
        "spark.hadoop.fs.azure.encryption.encoded.client-provided-key",
    ],
)  # fmt: skip
def test_names_that_hold_secrets(key: str) -> None:
    assert sounds_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "bootstrap.servers", "ssl.keystore.location", "ssl.truststore.type", "sasl.oauthbearer.token.endpoint.url",
        "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.fs.s3a.access.key.id", "LAKE", "key.deserializer",
        "spark.kubernetes.authenticate.submission.oauthTokenFile", "ssl.keystore.password.file",
        "spark.hadoop.fs.s3a.access.key", "aws_access_key_id", "spark.hadoop.fs.azure.local.sas.key.mode",
        "parquet.encryption.key.material.store.internally", "spark.hadoop.fs.azure.sas.expiry.period",
    ],
)  # fmt: skip
def test_names_that_do_not(key: str) -> None:
    assert not sounds_secret(key)


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("${PW}", False),
        ("${file:/pw}", False),
        ("", False),
        ("hush", True),
        ("pre${PW}", True),
        ("$${PW}", True),
    ],
)
def test_one_reference_is_not_a_secret_in_clear(text: str, clear: bool) -> None:
    assert stands_in_clear("ssl.key.password", text) is clear


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("SGVscCwgSSdtIHRyYXBwZWQgaW4gYSBrZXkgZmFjdG9yeSE=", True),
        ("${KEY}", False),
        ("arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab", False),
        ("1234abcd-12ab-34cd-56ef-1234567890ab", False),
        ("alias/lake", False),
    ],
)
def test_the_name_of_a_key_in_kms_is_not_a_secret_in_clear(text: str, clear: bool) -> None:
    """Of SSE-C the property holds the key, of SSE-KMS it names one."""
    assert stands_in_clear("spark.hadoop.fs.s3a.encryption.key", text) is clear


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ('m required username="u" password="${PW}";', False),
        ("m required username='u' password='${PW}';", False),
        ("${file:/jaas}", False),
        ('m required username="u" password="hush";', True),
        ('m required username="${U}" password="hush";', True),
        ("m required username=${U} password=hush;", True),
        ("m required username=u password=${PW};", False),
        ('com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="u";', False),
        ('Krb5LoginModule required password="hush";', True),
        ('NotKrb5LoginModule required keyTab="hush";', True),
    ],
)
def test_a_login_module_may_hold_references(text: str, clear: bool) -> None:
    assert stands_in_clear("sasl.jaas.config", text) is clear


@pytest.mark.parametrize(
    ("text", "clear"),
    [
        ("${BOTH}", False),
        ("${file:/both}", False),
        ("${KEY}:${SECRET}", False),
        ("${file:/key}:${file:/secret}", False),
        ("key:${SECRET}", False),
        ("key:secret", True),
        ("${KEY}:secret", True),
        ("key:se${CRET}", True),
        ("key:secret:${SECRET}", True),
        ("${KEY}:$${SECRET}", True),
        ("secret", True),
        (":${SECRET}", True),
    ],
)
@pytest.mark.parametrize("key", ["basic.auth.user.info", "schema.registry.basic.auth.user.info"])
def test_a_user_may_stand_before_the_reference_to_its_password(key: str, text: str, clear: bool) -> None:
    assert stands_in_clear(key, text) is clear


def test_the_environment_is_not_kept(load: Load) -> None:
    job: Any = load({}, {"UNRELATED": "s3cr3t-x"})
    assert b"s3cr3t-x" not in pickle.dumps(job)

"""KSEG_UNTRUSTED_JOBS=1: what an operator has refused in job files of people who may not run programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config import untrusted
from kseg.etl.config.load import load_job
from kseg.etl.config.untrusted import Restrictions, sql_problems
from kseg.etl.errors import ConfigurationError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job files are untrusted; this is where they may read and write."""
    monkeypatch.setenv(untrusted.VARIABLE, "1")
    monkeypatch.setenv(untrusted.ROOT, str(tmp_path / "lake"))
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def document(root: Path, **changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "localhost:9092"},
        "source": {"topics": ["orders"]},
        "sink": {"path": f"{root}/orders"},
        "ledger": f"{root}/ledger",
        **changes,
    }


def refused(job: dict[str, Any]) -> set[str]:
    """The paths in the file of what is refused."""
    with pytest.raises(ConfigurationError) as caught:
        load_job(job, env={})
    return {fault.path for fault in caught.value.faults}


def test_a_job_that_stays_within_its_root_is_loaded(root: Path) -> None:
    sql = [{"sql": "SELECT *, upper(CAST(key AS STRING)) AS k FROM __rows__ WHERE value IS NOT NULL"}]
    assert load_job(document(root, transform=sql), env={}).ledger == f"{root}/ledger"


@pytest.mark.parametrize("step", ["arrow", "python"])
def test_steps_that_run_code_are_refused(root: Path, step: str) -> None:
    assert refused(document(root, transform=[{step: "module:function"}])) == {f"transform[0].{step}"}


def test_a_function_that_makes_tokens_is_refused(root: Path) -> None:
    kafka = {"bootstrap.servers": "localhost:9092", "sasl": {"oauthbearer.token.callback": "os:getcwd"}}
    assert refused(document(root, kafka=kafka)) == {"kafka.sasl.oauthbearer.token.callback"}


def test_a_kind_of_step_that_nobody_has_thought_of_is_refused(root: Path) -> None:
    assert refused(document(root, transform=[{"unheard_of": "SELECT 1"}])) == {"transform[0].unheard_of"}


@pytest.mark.parametrize("key", ["conf", "master", "remote"])
def test_settings_of_spark_are_refused(root: Path, key: str) -> None:
    value: Any = {"spark.jars": "/tmp/x.jar"} if key == "conf" else "spark://elsewhere:7077"
    assert refused(document(root, spark={key: value})) == {f"spark.{key}"}


def test_duckdb_is_refused(root: Path) -> None:
    assert refused(document(root, transform=[{"duckdb": "SELECT * FROM '/etc/passwd'"}])) == {"transform[0].duckdb"}


@pytest.mark.parametrize("option", ["google_service_account", "azure_federated_token_file"])
def test_options_of_a_store_that_name_files_are_refused(root: Path, option: str) -> None:
    segments = {"paths": [f"{root}/logs"], "options": {option: "/etc/operator.json"}}
    found = refused(document(root, source={"topics": ["orders"], "segments": segments}))
    assert found == {f"source.segments.options.{option}"}


def test_options_of_a_submission_are_refused(root: Path) -> None:
    execution = {"submit": "spark-submit", "submit_options": {"jars": "/tmp/x.jar"}}
    assert refused(document(root, airflow={"execution": execution})) == {"airflow.execution.submit_options"}


def test_files_in_references_are_refused_before_they_are_read(root: Path) -> None:
    secret = {"bootstrap.servers": "localhost:9092", "sasl.password": "${file:/etc/shadow}"}
    assert refused(document(root, kafka=secret)) == {"kafka.sasl.password"}
    assert refused(document(root, group="${file:/etc/passwd}")) == {"group"}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("ledger", {"ledger": "/elsewhere/ledger"}),
        ("ledger", {"ledger": "s3://elsewhere/ledger"}),
        ("sink.path", {"sink": {"path": "ROOT/../elsewhere"}}),
        ("sink.path", {"sink": {"path": "/elsewhere/{topic}"}}),
        ("source.segments.paths.0", {"source": {"topics": ["orders"], "segments": "/var/lib/kafka"}}),
        ("reporting.report", {"reporting": {"report": "/etc/cron.d"}}),
        ("kafka.ssl.keystore.location", {"kafka": {"bootstrap.servers": "h:1", "ssl.keystore.location": "/etc/k.pem"}}),
        (
            "kafka.ssl.keystore.location",
            {"kafka": {"bootstrap.servers": "h:1", "ssl": {"keystore": {"location": "/k"}}}},
        ),
        (
            "kafka.sasl.jaas.config",
            {"kafka": {"bootstrap.servers": "h:1", "sasl.jaas.config": 'Krb5LoginModule required keyTab="/etc/k";'}},
        ),
    ],
)
def test_paths_outside_of_the_root_are_refused(root: Path, path: str, changes: dict[str, Any]) -> None:
    text = {"path": changes["sink"]["path"].replace("ROOT", str(root))} if "sink" in changes else None
    assert path in refused(document(root, **(changes if text is None else {"sink": text})))


def test_a_schema_outside_of_the_root_is_not_read(root: Path, tmp_path: Path) -> None:
    """Its first lines would be in the message."""
    (tmp_path / "secret.avsc").write_text("the content")
    value = {"format": "avro", "schema": {"file": str(tmp_path / "secret.avsc")}}
    with pytest.raises(ConfigurationError) as caught:
        load_job(document(root, decode={"value": value}), env={})
    assert "lies outside of" in str(caught.value)
    assert "the content" not in str(caught.value)


def test_a_link_within_the_root_that_leads_out_of_it_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path)
    assert refused(document(root, ledger=f"{root}/link/ledger")) == {"ledger"}


@pytest.mark.parametrize(
    ("place", "allowed"),
    [
        ("s3://lake/team", True),
        ("s3://lake/team/orders", True),
        ("s3://lake/teammate", False),
        ("s3://lake/team/../other", False),
        ("s3://lake/team/x?endpoint_override=elsewhere", False),
        ("/lake/team", False),
    ],
)
def test_places_of_a_bucket(place: str, allowed: bool) -> None:
    assert Restrictions("s3://lake/team").allow(place) == allowed


@pytest.mark.parametrize(
    "query",
    [
        "SELECT reflect('java.lang.System', 'getenv', 'HOME') FROM __rows__",
        "SELECT REFLECT ('java.lang.System', 'getenv', 'HOME') FROM __rows__",
        "SELECT `reflect`('java.lang.System', 'getenv', 'HOME') FROM __rows__",
        "SELECT system.builtin.java_method('java.lang.Runtime', 'getRuntime') FROM __rows__",
        "SELECT try_reflect('java.lang.System', 'getenv', 'HOME') FROM __rows__",
        "SELECT identifier('ref' || 'lect')('java.lang.System', 'getenv', 'HOME') FROM __rows__",
        "SELECT re/**/flect, reflect/**/('java.lang.System', 'getenv') FROM __rows__",
        "SELECT r'\\', reflect('java.lang.System', 'getenv', 'HOME'), '' FROM __rows__",
        "SELECT 1, -- \rreflect('java.lang.System', 'getenv', 'HOME')\n FROM __rows__",
        "SELECT TRANSFORM(value) USING 'cat /etc/passwd' AS (a) FROM __rows__",
        "FROM __rows__ MAP value USING 'sh' AS (a)",
        "SELECT * FROM __rows__, csv.`/etc/passwd`",
        'SELECT * FROM __rows__, csv."/etc/passwd"',
        "SELECT *, from_protobuf(value, 'M', '/etc/passwd') FROM __rows__",
        "SELECT '${env:HOME}' FROM __rows__",
        "FROM __rows__ INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT *",
        "WITH t AS (SELECT * FROM __rows__) INSERT INTO other SELECT * FROM t",
        "SELECT * FROM __rows__; ADD JAR '/tmp/x.jar'",
        "EXECUTE IMMEDIATE 'SELECT reflect() FROM __rows__'",
        "CREATE TABLE t AS SELECT * FROM __rows__",
        "SELECT 'a FROM __rows__",
    ],
)
def test_queries_that_are_refused(query: str) -> None:
    assert list(sql_problems(query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM __rows__",
        "(SELECT key FROM __rows__) UNION ALL (SELECT value FROM __rows__)",
        "WITH t AS (SELECT * FROM __rows__) SELECT a.key FROM t AS a JOIN t AS b USING (key)",
        "SELECT transform(headers, h -> h.key) AS n, 'reflect(x); it''s' AS t, `delete` FROM __rows__ -- reflect(1)",
        'SELECT "a \\" b", r\'\\d+\', `a column`.`x.y` /* java_method(1) */ FROM __rows__',
        "SELECT reflect, value FROM __rows__",
    ],
)
def test_queries_that_are_not(query: str) -> None:
    assert list(sql_problems(query)) == []


def test_an_operator_who_names_no_root_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(untrusted.VARIABLE, "1")
    monkeypatch.delenv(untrusted.ROOT, raising=False)
    assert refused(document(tmp_path)) == {untrusted.ROOT}
    monkeypatch.setenv(untrusted.VARIABLE, "yes")
    assert refused(document(tmp_path)) == {untrusted.VARIABLE}


def test_trusted_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0"):
        monkeypatch.setenv(untrusted.VARIABLE, value)
        assert load_job(document(tmp_path, spark={"conf": {"spark.ui.enabled": "false"}}), env={}).spark.conf

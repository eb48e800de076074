"""The job file's parts that no sample decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kseg.etl.config.load import load_job
from kseg.jobs.inference.draft import draft_of, kafka_section
from kseg.jobs.inference.job_text import DraftedPayload
from kseg.jobs.inference.sampling import Sample


def test_secrets_of_the_command_line_are_references_and_those_of_a_file_stay_there() -> None:
    properties = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        "ssl.key.password": "hunter2",
        "client.rack": "r1",
        "ssl.truststore.location": "/t.pem",
    }
    section = kafka_section(properties, ["ssl.key.password=hunter2", "client.rack=r1"])
    assert section == {
        "bootstrap.servers": "b:9092",
        "ssl.key.password": "${KSEG_SSL_KEY_PASSWORD}",
        "client.rack": "r1",
    }
    drafted = draft_of("t", Sample(1, 1, [None], [b"text"]), section, table="./t")
    assert "before a run, set KSEG_SSL_KEY_PASSWORD in the environment" in drafted.notes


def test_documents_that_cannot_be_decoded_are_counted() -> None:
    values: list[bytes | None] = [b'{"a": "x"}', b'{"a": "\\ud800"}']
    drafted = draft_of("t", Sample(1, 2, [None, None], values), {"bootstrap.servers": "b:1"}, table="./t")
    (note,) = drafted.notes
    assert note.startswith("1 sampled value(s) cannot be decoded (1 MALFORMED), the first: ")


@pytest.mark.parametrize("nested", [False, True])
def test_times_with_digits_below_a_microsecond_are_cut_off_and_the_file_says_so(nested: bool, tmp_path: Path) -> None:
    """As Go's time, Java's Instant and SQL Server's datetime2(7) are written."""
    times = ["2024-02-29T12:30:15.1234567Z", "2024-02-29T12:30:15.123456789+01:00", "2024-02-29T12:30:15Z"]
    values: list[bytes | None] = [
        json.dumps({"at": {"of": [time]} if nested else time, "note": time + "!"}).encode() for time in times
    ]
    drafted = draft_of("t", Sample(3, 3, [None] * 3, values), {"bootstrap.servers": "b:1"}, table="./t")
    assert drafted.notes == ()
    value = yaml.safe_load(drafted.text)["decode"]["value"]
    assert value["schema"]["columns"]["at"] == ("struct<of: array<timestamp>>" if nested else "timestamp")
    assert value["nanoseconds"] == "truncate"
    assert "# 2 time(s) have digits below a microsecond" in drafted.text
    (tmp_path / "job.yaml").write_text(drafted.text)
    assert load_job(tmp_path / "job.yaml").decode is not None
    plain = draft_of("t", Sample(1, 1, [None], [b'{"at": "2024-02-29T12:30:15.123456Z"}']), {}, table="./t")
    assert "nanoseconds" not in plain.text


def test_a_tenth_that_is_no_json_is_left_to_dead_letters(tmp_path: Path) -> None:
    values: list[bytes | None] = [*[b'{"a": 1}'] * 39, b"oops"]
    drafted = draft_of("t", Sample(40, 40, [None] * 40, values), {"bootstrap.servers": "b:1"}, table="./t")
    assert drafted.notes == (
        "values are of several formats (39 JSON objects, 1 UTF-8 text): the others become dead letters",
    )
    job = yaml.safe_load(drafted.text)
    assert (job["decode"]["value"]["schema"], job["decode"]["on_error"]) == (
        {"columns": {"a": "bigint"}},
        "dead_letter",
    )
    assert job["sink"]["dead_letters"] == {"max": "5%"}
    (tmp_path / "job.yaml").write_text(drafted.text)
    assert load_job(tmp_path / "job.yaml").dead_letters is not None


def test_framed_values_without_a_registry_land_as_bytes_and_nothing_is_set_aside() -> None:
    values: list[bytes | None] = [*[b"\0\0\0\0\7abc"] * 39, b"oops"]
    drafted = draft_of("t", Sample(40, 40, [None] * 40, values), {"bootstrap.servers": "b:1"}, table="./t")
    job = yaml.safe_load(drafted.text)
    assert (job["decode"]["value"]["format"], "on_error" in job["decode"]) == ("bytes", False)


def test_a_given_format_holds_for_any_number_of_others() -> None:
    values: list[bytes | None] = [b'{"a": 1}', b"oops", b"\xff", None]
    drafted = draft_of("t", Sample(1, 4, [None] * 4, values), {"bootstrap.servers": "b:1"}, table="./t", format="json")
    job = yaml.safe_load(drafted.text)
    assert job["decode"]["value"]["schema"] == {"columns": {"a": "bigint"}}
    assert (job["decode"]["on_error"], job["sink"]["dead_letters"]) == ("dead_letter", {"max": "100%"})
    as_text = draft_of("t", Sample(1, 4, [None] * 4, values), {"bootstrap.servers": "b:1"}, table="./t", format="bytes")
    assert yaml.safe_load(as_text.text)["decode"]["value"]["format"] == "bytes"


def test_a_registrys_secrets_are_references_and_a_table_has_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kseg.jobs.inference.draft._framed", lambda found, payloads, registry: DraftedPayload(found, schema_type="AVRO")
    )
    properties = {"url": "https://sr:8081", "basic.auth.user.info": "me:hunter2"}
    values: list[bytes | None] = [b"\0\0\0\0\7abcd"]
    sampled = Sample(1, 1, [None], values)
    drafted = draft_of(
        "t", sampled, {"bootstrap.servers": "b:1"}, table="./t", registry=properties, partition_by=["day", "kind"]
    )
    job = yaml.safe_load(drafted.text)
    reference = "${KSEG_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO}"
    assert job["registry"] == {"url": "https://sr:8081", "basic.auth.user.info": reference}
    assert job["sink"]["partition_by"] == ["day", "kind"]
    assert drafted.notes == (f"before a run, set {reference[2:-1]} in the environment",)
    monkeypatch.setattr("kseg.jobs.inference.draft._framed", lambda found, payloads, registry: DraftedPayload(found))
    bare = draft_of("t", sampled, {"bootstrap.servers": "b:1"}, table="./t", registry=properties)
    assert "registry" not in yaml.safe_load(bare.text)
    assert not any("before a run" in note for note in bare.notes), "what the file does not refer to is not needed"


def test_small_runs_of_a_drafted_job_need_no_spark(tmp_path: Path) -> None:
    drafted = draft_of("t", Sample(1, 1, [None], [b"text"]), {"bootstrap.servers": "b:1"}, table="./t")
    (tmp_path / "job.yaml").write_text(drafted.text)
    assert load_job(tmp_path / "job.yaml").run.engine == "auto"
    assert "engine: auto" in drafted.text
    assert "# runs with little to read need no Spark" in drafted.text

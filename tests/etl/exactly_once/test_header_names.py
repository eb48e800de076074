"""Headers whose names are not UTF-8, as producers with another encoding write them: no record takes others with it."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from kseg.etl.decoding.bad_records import DEAD_LETTERS
from kseg.etl.errors import Refused
from kseg.etl.operations.verify import verify
from kseg.segment_reader.errors import UnrepresentableRecord

COUNT = 30
WRONG = {7, 8, 20}
"""Offsets of records with such a header."""

UNDECODABLE = {3, 8}
RAW = [{"key": b"caf\xe9", "value": b"1"}, {"key": b"n", "value": b""}]
REPLACED = [{"key": "caf\ufffd", "value": b"1"}, {"key": "n", "value": b""}]
WHOLE = [{"key": "ok", "value": b"1"}]
TYPED = {"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}, "on_error": "dead_letter"}
LETTERS = {"dead_letters": {"path": "./lake/dead", "max": "50%"}}


class Raw(str):
    """A header's name that kafka-python encodes in another way than UTF-8."""

    def encode(self, *_args: Any, **_options: Any) -> bytes:
        return super().encode("latin-1")


@pytest.fixture(scope="module")
def topic(records: Any) -> str:
    """One partition with one batch."""
    name = str(records.topic(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own import of a deprecated function
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=records.kafka.bootstrap_servers, linger_ms=5000, compression_type="gzip"
        )
        for offset in range(COUNT):
            headers = [(Raw("caf\u00e9"), b"1"), ("n", b"")] if offset in WRONG else [("ok", b"1")]
            value = b"{" if offset in UNDECODABLE else json.dumps({"id": offset}).encode()
            producer.send(name, value=value, headers=headers, partition=0)
        producer.flush()
        producer.close()
    return name


def table(job: Any, name: str = "first") -> dict[int, dict[str, Any]]:
    rows = job.table(name).to_pyarrow_table().to_pylist()
    found = {row.get("_kseg_offset", row.get("offset")): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_names_are_replaced_as_java_does(topic: str, any_home: Any) -> None:
    job = any_home(topic)
    job.ingest()
    rows = table(job)
    assert {offset: row["headers"] for offset, row in rows.items()} == {
        offset: REPLACED if offset in WRONG else WHOLE for offset in range(COUNT)
    }
    assert verify(job.job).ok


def test_a_refused_record_is_named_or_quarantined_alone(topic: str, any_home: Any) -> None:
    job = any_home(topic, source={"header_names": "refuse"})
    with pytest.raises(UnrepresentableRecord, match="offset 7: a header's name is not valid UTF-8"):
        job.ingest()
    job.change(source={"on_corruption": "quarantine"}, sink={"quarantine": {"path": "./lake/damaged"}})
    report = job.ingest()
    assert sorted(table(job)) == sorted({*range(COUNT)} - WRONG)
    kept = job.table("damaged").to_pyarrow_table().to_pylist()
    assert {(row["first_offset"], row["last_offset"]) for row in kept} == {(n, n + 1) for n in WRONG}
    assert all(b"caf\xe9" in row["bytes"] and len(row["bytes"]) < 60 for row in kept)
    assert report.quarantine.rows == len(WRONG)
    assert job.group_offsets() == {(topic, 0): COUNT}
    assert verify(job.job).ok


@pytest.mark.parametrize("names", ["replace", "refuse"])
def test_names_of_headers_that_a_job_does_not_use_decide_nothing(topic: str, any_home: Any, names: str) -> None:
    job = any_home(
        topic, decode={**TYPED, "on_error": "set_null", "max_nulled": "100%"}, source={"header_names": names}
    )
    job.ingest()
    assert sorted(table(job)) == [*range(COUNT)]
    assert verify(job.job).ok


def test_dead_letters_keep_names_as_they_are_and_a_redrive_reads_them(topic: str, any_home: Any) -> None:
    """With `refuse` such a record is a dead letter; once names are replaced, a redrive lands it."""
    job = any_home(topic, decode={**TYPED, "keep": ["headers"]}, source={"header_names": "refuse"}, sink=LETTERS)
    job.ingest()
    assert sorted(table(job)) == sorted({*range(COUNT)} - WRONG - UNDECODABLE)
    letters = table(job, "dead")
    assert sorted(letters) == sorted(WRONG | UNDECODABLE)
    assert {offset: letter["rawHeaders"] for offset, letter in letters.items()} == {3: None, 7: RAW, 8: RAW, 20: RAW}
    assert [letters[offset]["headers"] for offset in (3, 7)] == [WHOLE, REPLACED]
    refused = letters[7]
    assert (refused["source"], refused["error"], refused["path"]) == ("headers", "HEADER_NAME", "[0]")
    assert "636166e9" in refused["message"]
    assert letters[8]["source"] == "value"
    assert verify(job.job).ok

    job.change(source={"header_names": None})
    job.redrive(where="error = 'HEADER_NAME'")
    rows = table(job)
    assert sorted(rows) == sorted({*range(COUNT)} - UNDECODABLE)
    assert rows[20]["_kseg_headers"] == REPLACED
    assert verify(job.job).ok


def test_a_job_that_stops_at_what_it_cannot_decode_names_the_record(topic: str, any_home: Any) -> None:
    decode = {"value": {"format": "string"}, "keep": ["headers"]}
    job = any_home(topic, decode=decode, source={"header_names": "refuse"})
    with pytest.raises(Refused, match=r"headers at \[0\] cannot be decoded \(HEADER_NAME\)") as at:
        job.ingest()
    assert at.value.address["offset"] == 7
    assert "set source.header_names: replace" in at.value.remedy
    job.change(source={"header_names": "replace"}).ingest()
    assert sorted(table(job)) == [*range(COUNT)]


def test_a_table_of_dead_letters_of_an_earlier_release_gets_the_column(topic: str, any_home: Any) -> None:
    job = any_home(topic, decode={**TYPED, "keep": ["headers"]}, sink=LETTERS)
    without = [field for field in DEAD_LETTERS if field.name != "rawHeaders"]
    columns = pa.schema([*without, pa.field("_kseg_run", pa.string())])
    DeltaTable.create(job.folder / "lake" / "dead", Schema.from_arrow(columns))
    job.ingest()
    assert {offset: letter["rawHeaders"] for offset, letter in table(job, "dead").items()} == {3: None, 8: RAW}

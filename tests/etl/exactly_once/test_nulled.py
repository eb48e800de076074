"""`on_error: set_null` nulls what cannot be decoded, at its depth, in no more records of a run than it may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.decoding.errors import TooManyNulled
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify


def value() -> dict[str, Any]:
    """The section `decode.value`, anew: `change` merges into what a job was made of."""
    columns = {"id": "bigint", "items": "array<struct<sku:string,price:decimal(5,2)>>"}
    return {"format": "json", "schema": {"columns": columns}}


def order(number: int, price: Any = 1.5) -> bytes:
    return json.dumps({"id": number, "items": [{"sku": f"s{number}", "price": price}]}).encode()


@pytest.fixture
def job(records: Any, any_home: Any) -> Any:
    """Of ten orders two have a price that is no number, and one is no document."""
    topic = records.topic(1)
    producer = Producer(records.settings)
    for number in range(10):
        broken = {3: order(3, "free"), 5: b"{", 7: order(7, "free")}
        producer.produce(topic, value=broken.get(number, order(number)), partition=0)
    assert producer.flush(60) == 0
    return any_home(topic, decode={"value": value(), "on_error": "set_null"})


def test_more_nulls_than_a_run_may_have_refuse_it_before_anything_is_committed(job: Any) -> None:
    with pytest.raises(TooManyNulled, match=r"decode\.max_nulled lets 1 pass; nothing was committed") as caught:
        job.ingest()
    assert caught.value.exit_code == 3
    assert "value at items[0].price: WRONG_TYPE" in str(caught.value)
    assert job.group_offsets() == {}
    assert job.table("first").to_pyarrow_table().num_rows == 0
    # The limit is no part of what decides rows: the same run goes on.
    job.change(decode={"max_nulled": 3})
    report = job.ingest()
    assert len(job.state.runs) == 1
    rows = {row["id"]: row["items"] for row in job.table("first").to_pyarrow_table().to_pylist()}
    assert rows[3] == [{"sku": "s3", "price": None}]
    assert rows.pop(None) is None, "of what is no document"
    assert rows.keys() == set(range(10)) - {5}
    assert (report.counts["decoded"], report.counts["nulled"]) == (10, 3)
    (note,) = [note for note in report.notes if "could not be decoded" in note]
    assert note.endswith(": items[].price 2, * 1")
    assert [line.nulled for line in status(job.job).runs] == [{"*": 1, "items[].price": 2}]
    assert verify(job.job).ok


def test_the_schema_is_the_other_remedy(job: Any) -> None:
    with pytest.raises(TooManyNulled):
        job.ingest()
    text = "array<struct<sku:string,price:string>>"
    as_text = {"schema": {"columns": {"items": text}}, "formats": {"items[].price": "json"}}
    job.change(decode={"value": as_text, "max_nulled": "10%"}).ingest()
    found = {row["id"]: row["items"] for row in job.table("first").to_pyarrow_table().to_pylist()}
    assert (found[1][0]["price"], found[3][0]["price"]) == ("1.5", '"free"')


def test_the_maximum_is_of_each_part_of_the_section(records: Any, any_home: Any) -> None:
    good, bad, letters = (records.topic(1) for _ in range(3))
    producer = Producer(records.settings)
    for number in range(10):
        producer.produce(good, value=order(number), partition=0)
        producer.produce(bad, value=order(number, "free"), partition=0)
        producer.produce(letters, value=order(number, "free"), partition=0)
    assert producer.flush(60) == 0
    part = {"value": value(), "on_error": "set_null", "max_nulled": "50%"}
    aside = {"value": value(), "on_error": "dead_letter"}
    sink = {"dead_letters": {"path": "./lake/dead", "max": "100%"}}
    job = any_home(letters, good, bad, decode={good: part, letters: aside, "*": part}, sink=sink)
    with pytest.raises(TooManyNulled, match=r"10 records would have nulls .*max_nulled lets 5 pass") as caught:
        job.ingest()
    assert [line.partition(":")[0] for line in caught.value.examples] == [f"{bad}-0 offset {n}" for n in range(3)]

"""Rows are matched with their records by topic, partition and offset, in batches of records of any partitions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.decoding.bad_records import TRANSFORM, BadRecords
from kseg.etl.decoding.record_ids import RecordIds, RecordsDiffer
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.route import RouteStep
from kseg.etl.transform.step import Address, BatchStep
from kseg.etl.transform.transform import BatchSteps

PLACES = [("a", 0, 5), ("a", 1, 5), ("b", 0, 5), ("a", 1, 6), ("a", 0, 6)]


def records(*places: tuple[str, int, int], header: str = "kind") -> pa.RecordBatch:
    """Each record's value, and its header `kind`, are its place."""
    rows: list[dict[str, Any]] = [
        {
            "value": repr(place).encode(),
            **dict(zip(("topic", "partition", "offset"), place, strict=True)),
            **dict(zip(("_kseg_topic", "_kseg_partition", "_kseg_offset"), place, strict=True)),
            "headers": [{"key": header, "value": repr(place).encode()}],
        }
        for place in places
    ]
    return pa.RecordBatch.from_pylist(rows, schema=DecodeOptions(headers=True, addresses=True).schema)


class Letters:
    """Keeps the addresses of dead letters."""

    wants_reasons = True

    def __init__(self) -> None:
        self.found: list[tuple[str, int, int]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
        self.found += zip(*columns, strict=True)


class Decoding(BatchStep):
    """Stands for `decode:`. Leaves out the records of these places, and every column but the addresses and the value's
    own, which is called `offset`."""

    place = "decode"
    decodes = has_dead_letters = sets_aside = True

    def __init__(self, *without: tuple[str, int, int]) -> None:
        self.without = [repr(place).encode() for place in without]

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.apply(pa.RecordBatch.from_pylist([], schema=rows), {}).schema

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        here = [value not in self.without for value in batch.column("value").to_pylist()]
        kept = batch.filter(pa.array(here, pa.bool_()))
        names = ["_kseg_topic", "_kseg_partition", "_kseg_offset"]
        offset = pa.nulls(kept.num_rows, pa.int64())
        return pa.RecordBatch.from_arrays(
            [kept.column("value"), offset, *(kept.column(name) for name in names)], names=["text", "offset", *names]
        )


def test_rows_of_several_partitions_find_their_records_where_offsets_are_alike() -> None:
    ids = RecordIds.of(records(*PLACES))
    order = [3, 1, 4]
    assert ids.take(order).places_in(ids).tolist() == order
    assert [tuple(ids.at(row).values()) for row in range(len(ids))] == PLACES
    with pytest.raises(RecordsDiffer, match="'partition': 1, 'offset': 5"):
        ids.places_in(RecordIds.of(records(PLACES[0], *PLACES[2:])))
    assert RecordIds.of(records()).places_in(ids).tolist() == []


@pytest.mark.parametrize("failing", PLACES)
def test_the_record_that_a_step_raises_for_is_the_dead_letter(failing: tuple[str, int, int]) -> None:
    def fail(rows: pa.RecordBatch) -> pa.RecordBatch:
        if repr(failing).encode() in rows.column("text").to_pylist():
            raise ValueError("not this one")
        return rows

    letters, batch = Letters(), records(*PLACES)
    steps = BatchSteps((Decoding(), ArrowStep(fail, "transform[0].arrow")))
    bad = BadRecords(letters)
    out = steps.apply(batch, steps.output_schema(batch.schema), {"topic": "a"}, bad)
    assert letters.found == [failing]
    topic, partition, offset = failing
    assert bad.dead_examples[0].startswith(
        f"{topic}-{partition} offset {offset}: row at transform[0].arrow: {TRANSFORM}"
    )
    assert out.column("text").to_pylist() == [repr(place).encode() for place in PLACES if place != failing]


@pytest.mark.parametrize("routed", PLACES[1:])
def test_rows_beside_records_that_were_left_out_keep_their_own_route(routed: tuple[str, int, int]) -> None:
    letters, batch = Letters(), records(*PLACES)
    step = RouteStep("header", "kind", (repr(routed),), Decoding(PLACES[0]))
    out = step.apply(batch, {"topic": "a"}, BadRecords(letters))
    assert out.column("text").to_pylist() == [repr(routed).encode()]
    assert sorted(letters.found) == sorted(place for place in PLACES[1:] if place != routed)

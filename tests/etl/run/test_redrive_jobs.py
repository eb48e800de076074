"""Dead letters as records: what a table of them has, and what it lacks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kseg.etl.decoding.bad_records import DEAD_LETTERS
from kseg.etl.run.redrive_jobs import LETTERS, as_records, read_letters
from kseg.etl.tables.targets import table_at
from kseg.segment_reader.decode.schema import arrow_schema

RAW = [{"key": b"caf\xe9", "value": b"1"}]


@pytest.mark.parametrize("earlier_release", [False, True])
def test_letters_are_records_with_the_headers_that_they_had(tmp_path: Path, earlier_release: bool) -> None:
    letter = {
        "topic": "t",
        "partition": 0,
        "offset": 5,
        "value": b"x",
        "headers": [{"key": "caf\ufffd", "value": b"1"}],
    }
    table = pa.Table.from_pylist(
        [{**letter, "rawHeaders": RAW, "_kseg_run": "r"}], DEAD_LETTERS.append(LETTERS.field(-1))
    )
    write_deltalake(tmp_path / "dead", table.drop_columns(["rawHeaders"]) if earlier_release else table)
    (letters,) = read_letters(table_at(str(tmp_path / "dead")))
    schema = arrow_schema(headers=True, provenance=False, raw_headers=True)
    assert as_records(letters, schema).to_pylist() == [
        {name: letter.get(name) for name in schema.names} | {"rawHeaders": None if earlier_release else RAW}
    ]

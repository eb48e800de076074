"""A new format of payloads is a module and an entry of the registry: nothing else has to know it.

A process of its own lands rows with it on the local engine (`tests/harness/extended_package.py`). No broker: records
are in log files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from deltalake import DeltaTable

from extended_package import environment, extended, kseg
from kseg.segment_reader.encode.batches import Record, encode_batch

ENTRY = """
    PayloadFormat(
        "csv",
        Function(f"{_FOLDER}.csv:decoder"),
        schemas=("columns",),
        in_samples=InSamples(Function(f"{_FOLDER}.csv:sampled"), plain="string", words="lines of CSV"),
    ),
"""

MODULE = '''
"""The format `csv`: one line of text, whose fields are the columns in order."""

import numpy as np
import pyarrow as pa

from kseg.etl.decoding.formats.documents import Members, Whole
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status


def sampled(payload):
    number, comma, what = payload.decode().partition(",")
    return Members([("n", Whole(number)), ("what", what)]) if comma else None


def decoder(plan):
    return CsvDecoder(parse_columns(dict(plan.columns)))


class CsvDecoder:
    def __init__(self, type):
        self.type = type

    def decode(self, payloads, *, skip=0):
        found = [(None, Status.NULL) if one is None else self._row(one[skip:]) for one in payloads.to_pylist()]
        rows = pa.array([row for row, _ in found], self.type)
        return DecodedPayloads(rows, np.array([status for _, status in found], np.uint8))

    def explain(self, payload, *, skip=0):
        return PayloadError(self._row(payload[skip:])[1], "", "it has not as many fields as there are columns")

    def _row(self, payload):
        values = payload.decode().split(",")
        if len(values) != self.type.num_fields:
            return None, Status.MALFORMED
        columns = zip(values, self.type, strict=True)
        return {column.name: pa.scalar(text).cast(column.type).as_py() for text, column in columns}, Status.DECODED
'''


def with_new_format(folder: Path) -> Path:
    """The product's package in this folder, with the format."""
    formats = "etl/decoding/formats"
    return extended(folder, {f"{formats}/csv.py": MODULE, f"{formats}/registry.py": [("_ALL: Final = (", ENTRY)]})


def test_it_lands_rows_and_dead_letters_on_the_local_engine(log_files: Any, tmp_path: Path) -> None:
    values = [b"1,pen", b"2", b"3,ink", None]
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch([Record(None, v) for v in values])]])
    document = {
        "version": 1,
        "name": "orders",
        "source": {"topics": ["orders"], "segments": "./log"},
        "decode": {
            "value": {"format": "csv", "schema": {"columns": {"n": "bigint", "what": "string"}}},
            "on_error": "dead_letter",
        },
        "sink": {"path": "./lake/orders", "dead_letters": {"path": "./lake/letters", "max": "100%"}},
        "ledger": "./ledger",
        "run": {"engine": "local"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
    package = with_new_format(tmp_path / "package")
    ran = kseg(package, tmp_path, "ingest", "job.yaml")
    assert ran["engine"]["name"] == "local"
    rows = DeltaTable(tmp_path / "lake" / "orders").to_pyarrow_table().sort_by("_kseg_offset").to_pylist()
    assert [(row["_kseg_offset"], row["n"], row["what"]) for row in rows] == [
        (0, 1, "pen"),
        (2, 3, "ink"),
        (3, None, None),
    ]
    [letter] = DeltaTable(tmp_path / "lake" / "letters").to_pyarrow_table().to_pylist()
    assert letter["offset"] == 1
    assert "as many fields" in json.dumps(letter, default=str)


DRAFT = """
from kseg.jobs.inference.draft import draft_of
from kseg.jobs.inference.sampling import Sample

values = [*(b"%d,pen" % number for number in range(19)), b"oops"]
drafted = draft_of("orders", Sample(1, 20, [None] * 20, values), {"bootstrap.servers": "b:1"}, table="./t")
print(drafted.text, *drafted.notes, sep="\\n# ")
"""


def test_init_recognises_it_and_infers_columns(tmp_path: Path) -> None:
    package = with_new_format(tmp_path / "package")
    done = subprocess.run(
        [sys.executable, "-c", DRAFT],
        env=environment(package),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    job = yaml.safe_load(done.stdout)
    value = job["decode"]["value"]
    assert value == {"format": "csv", "schema": {"columns": {"n": "bigint", "what": "string"}}}
    assert job["decode"]["on_error"] == "dead_letter"
    assert "19 values are lines of CSV" in done.stdout
    assert "several formats (19 lines of CSV, 1 UTF-8 text)" in done.stdout

"""Payloads of unusual size: peak memory and CPU time of decoding them, each in a separate process.

document     one JSON document of 50 MB: an array of structs
columns-…    rows of 10,000 columns, in JSON and in Avro
schemas      records with the ids of 1,000 schemas of a registry in turn, which have 20 fields together
fields       the same, but each schema has one unique field: the reader's schema has 1,000 more fields
baseline     the same imports, and a decoder for one column

python -m kseg.jobs.bench.extremes CASE SCALE        one such process; SCALE 1 is the full size
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from kseg.jobs.bench.memory import MIB, peak
from kseg.segment_reader.decode.engine import Limits

DOCUMENT_BYTES: Final = 50_000_000
COLUMNS: Final = 10_000
ROWS: Final = 200
"""Number of rows with many columns."""
SCHEMAS: Final = 1_000
RECORDS: Final = 100_000
"""Number of records with many schemas."""


def measure(*, scale: float = 1.0) -> list[dict[str, Any]]:
    """Measure every case. scale: factor of the sizes."""
    return [_in_a_process(case, scale) for case in CASES]


def _in_a_process(case: str, scale: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "kseg.jobs.bench.extremes", case, str(scale)]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    result: dict[str, Any] = json.loads(completed.stdout)
    return result


def _baseline(scale: float) -> tuple[Any, pa.BinaryArray]:
    from kseg.segment_reader.payload.ddl import parse_columns

    return _json(parse_columns({"a": "int"})), pa.array([b'{"a":1}'], pa.binary())


def _document(scale: float) -> tuple[Any, pa.BinaryArray]:
    from kseg.segment_reader.payload.ddl import parse_columns

    line = '{"sku":"sku-%08d","n":%d,"price":12.25}'
    size = len(line % (1, 1)) + 1
    lines = ",".join(line % (n, n) for n in range(int(DOCUMENT_BYTES * scale) // size))
    decoder = _json(parse_columns({"lines": "array<struct<sku:string,n:int,price:decimal(10,2)>>"}))
    return decoder, pa.array([f'{{"lines":[{lines}]}}'.encode()], pa.binary())


def _columns_of_json(scale: float) -> tuple[Any, pa.BinaryArray]:
    from kseg.segment_reader.payload.ddl import parse_columns

    names = [f"column_{n}" for n in range(int(COLUMNS * scale))]
    row = json.dumps({name: number for number, name in enumerate(names)}, separators=(",", ":")).encode()
    return _json(parse_columns(dict.fromkeys(names, "bigint"))), pa.array([row] * ROWS, pa.binary())


def _columns_of_avro(scale: float) -> tuple[Any, pa.BinaryArray]:
    from kseg.segment_reader.payload.avro.decoder import avro_decoder
    from kseg.segment_reader.payload.avro.schema import parse_schema

    count = int(COLUMNS * scale)
    fields = [{"name": f"column_{n}", "type": "long"} for n in range(count)]
    schema = parse_schema(json.dumps({"type": "record", "name": "Row", "fields": fields}))
    return avro_decoder(schema), pa.array([b"".join(_long(n) for n in range(count))] * ROWS, pa.binary())


def _schemas(scale: float) -> tuple[Any, pa.BinaryArray]:
    return _of_a_registry(scale, lambda n: (n % 20, (n + 7) % 20))


def _fields(scale: float) -> tuple[Any, pa.BinaryArray]:
    return _of_a_registry(scale, lambda n: (n % 20, 20 + n))


def _of_a_registry(scale: float, added: Callable[[int], tuple[int, ...]]) -> tuple[Any, pa.BinaryArray]:
    """added: numbers of the fields of the nth schema, besides the field that all schemas have."""
    from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas

    def order(numbers: Iterable[int]) -> str:
        fields = [{"name": "id", "type": "long"}, *({"name": f"added_{n}", "type": "long"} for n in numbers)]
        return json.dumps({"type": "record", "name": "Order", "fields": fields})

    count = max(1, int(SCHEMAS * scale))
    writers = tuple((n + 1, (order(added(n)), ())) for n in range(count))
    reader = order(sorted({number for n in range(count) for number in added(n)}))
    values = [b"\0" + (n % count + 1).to_bytes(4, "big") + _long(n) * 3 for n in range(int(RECORDS * scale))]
    return FramedDecoder(FramedSchemas(reader, writers)), pa.array(values, pa.binary())


CASES: Final[dict[str, Callable[[float], tuple[Any, pa.BinaryArray]]]] = {
    "baseline": _baseline,
    "document": _document,
    "columns-json": _columns_of_json,
    "columns-avro": _columns_of_avro,
    "schemas": _schemas,
    "fields": _fields,
}


FRAMED: Final = ("schemas", "fields")
"""Cases whose payloads are framed as by a registry's serializers."""


def _json(kind: pa.StructType) -> Any:
    from kseg.segment_reader.payload.json.decoder import json_decoder
    from kseg.segment_reader.payload.json.shape import JsonOptions

    return json_decoder(kind, JsonOptions())


def _long(number: int) -> bytes:
    """A long in Avro's encoding (zigzag varint), for numbers from 0 on."""
    left, made = number << 1, bytearray()
    while left > 127:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes([*made, left])


def main(case: str, scale: float) -> dict[str, Any]:
    """Decode the case's payloads in this process: once to load the code, and once measured."""
    decoder, payloads = CASES[case](scale)
    payload_bytes, before = payloads.nbytes, peak()

    def decode() -> tuple[float, int, int]:
        """CPU seconds, rows, and bytes of the largest batch; batches have the same limits as in tasks."""
        rows = largest = 0
        began = time.process_time()
        for first in range(0, len(payloads), Limits().max_rows):
            part = payloads.slice(first, Limits().max_rows)
            made = (decoder.decode(part, None, "value") if case in FRAMED else decoder.decode(part)).rows
            rows, largest = rows + len(made) - made.null_count, max(largest, made.nbytes)
        return time.process_time() - began, rows, largest

    first, _, _ = decode()
    second, rows, largest = decode()
    if rows != len(payloads):
        raise AssertionError(f"{case}: {rows} rows of {len(payloads)}")
    return {
        "case": case,
        "payloads": len(payloads),
        "payload_mib": round(payload_bytes / MIB, 1),
        "batch_mib": round(largest / MIB, 1),
        "peak_mib": round(peak() / MIB, 1),
        "before_mib": round(before / MIB, 1),
        "first_cpu_seconds": round(first, 2),
        "cpu_seconds": round(second, 2),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]))))

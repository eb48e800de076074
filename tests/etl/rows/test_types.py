from __future__ import annotations

import pyarrow as pa
import pytest

from kseg.etl.rows.types import UnlandableType, delta_type


@pytest.mark.parametrize(
    ("given", "landed"),
    [
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.uint32(), pa.int64()),
        (pa.binary(16), pa.binary()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.large_list(pa.uint8()), pa.list_(pa.field("element", pa.int16()))),
        (pa.map_(pa.large_string(), pa.float16()), pa.map_(pa.string(), pa.float32())),
        (pa.struct([("a", pa.date64())]), pa.struct([("a", pa.date32())])),
    ],
)
def test_types_become_deltas(given, landed):
    assert delta_type(given) == landed


@pytest.mark.parametrize(
    "given",
    [
        pa.null(),
        pa.uint64(),
        pa.time64("us"),
        pa.duration("s"),
        pa.decimal256(60, 2),
        pa.struct([]),
        pa.list_(pa.null()),
        pa.list_view(pa.int64()),
        pa.struct([("a", pa.large_list_view(pa.string()))]),
        pa.run_end_encoded(pa.int32(), pa.int64()),
    ],
)
def test_types_that_delta_does_not_have_are_told(given):
    with pytest.raises(UnlandableType):
        delta_type(given)

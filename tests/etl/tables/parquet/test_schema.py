from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from kseg.etl.errors import ConfigurationError, ExitCode
from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.segment_reader.decode.schema import arrow_schema
from row_addresses import with_address

ROWS = arrow_schema(headers=True, provenance=True)


def test_raw_rows_keep_their_own_address_and_gain_the_run():
    sink = sink_schema(ROWS)
    assert sink.address == OWN_ADDRESS
    assert sink.check_address is None
    assert sink.columns.names == [*ROWS.names, "_kseg_run"]


def test_a_copy_of_the_address_is_not_landed_where_the_own_one_was_kept():
    sink = sink_schema(with_address(ROWS))
    assert sink.address == OWN_ADDRESS
    assert sink.check_address == KSEG_ADDRESS
    assert sink.columns.names == [*ROWS.names, "_kseg_run"]


@pytest.mark.parametrize("lost", ["topic", "partition", "offset"])
def test_the_copy_is_landed_where_one_own_column_is_gone(lost):
    handed = with_address(ROWS)
    sink = sink_schema(handed.remove(handed.get_field_index(lost)))
    assert sink.address == KSEG_ADDRESS
    assert set(KSEG_ADDRESS) < set(sink.columns.names)


def test_an_own_column_of_another_type_is_no_address():
    handed = with_address(ROWS)
    at = handed.get_field_index("offset")
    sink = sink_schema(handed.set(at, pa.field("offset", pa.string())))
    assert sink.address == KSEG_ADDRESS
    assert sink.columns.field("offset").type == pa.string()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_any_arrow_string_will_do_for_the_topic(kind):
    rows = ROWS.set(ROWS.get_field_index("topic"), pa.field("topic", kind))
    assert sink_schema(rows).address == OWN_ADDRESS


def test_losing_both_addresses_is_bad_configuration():
    with pytest.raises(ConfigurationError) as caught:
        sink_schema(pa.schema([("body", pa.string()), ("offset", pa.int64())]))
    assert caught.value.exit_code is ExitCode.BAD_CONFIGURATION
    assert "offset bigint" in str(caught.value)
    assert "sink.addresses: false" in str(caught.value)


def test_addresses_false_lands_rows_of_any_shape():
    sink = sink_schema(pa.schema([("body", pa.string()), ("_kseg_offset", pa.int64())]), addresses=False)
    assert sink.address is None
    assert sink.columns.names == ["body", "_kseg_run"]


def test_all_faults_are_told_at_once():
    rows = pa.schema(
        [
            ("a b", pa.string()),
            ("A", pa.int8()),
            ("a", pa.list_(pa.struct([("x y", pa.int8())]))),
            ("big", pa.uint64()),
            ("_kseg_run", pa.string()),
        ]
    )
    with pytest.raises(ConfigurationError) as caught:
        sink_schema(rows)
    told = "\n".join(str(fault) for fault in caught.value.faults)
    assert len(caught.value.faults) == 6
    for word in ("'a b'", "A and a", "'x y'", "uint64", "_kseg_run", "lost their address"):
        assert word in told


DOUBLED = pa.struct([("Shop", pa.int64()), ("shop", pa.int64()), ("other", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (DOUBLED, "c"),
        (pa.struct([("inner", pa.list_(DOUBLED))]), "c.inner[]"),
        (pa.map_(pa.string(), DOUBLED), "c{}"),
    ],
)
def test_fields_that_delta_takes_for_one_are_told_wherever_they_lie(kind, path):
    """Delta ignores case in the names of fields as well."""
    with pytest.raises(ConfigurationError) as caught:
        sink_schema(ROWS.append(pa.field("c", kind)))
    assert [fault.message for fault in caught.value.faults] == [
        f"fields Shop and shop of {path} are the same name for Delta"
    ]


def test_fields_of_different_structs_may_have_one_name():
    kind = pa.struct([("Shop", pa.struct([("shop", pa.int64())])), ("other", pa.struct([("SHOP", pa.int64())]))])
    assert "c" in sink_schema(ROWS.append(pa.field("c", kind))).columns.names


def test_a_sink_schema_travels_to_the_workers():
    sink = sink_schema(with_address(ROWS))
    assert pickle.loads(pickle.dumps(sink)) == sink

from __future__ import annotations

import pyarrow as pa
import pytest

from kseg.etl.errors import ExitCode
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet import align as align_module
from kseg.etl.tables.parquet.align import align, can_write, new_table
from kseg.etl.tables.parquet.schema import SPARK_TYPE, AddressColumns, SinkSchema, sink_schema

SINK = sink_schema(
    pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("day", pa.date32())])
)


def fit(table: pa.Schema, partition_by=(), **how):
    return align(SINK, table, partition_by, table="/lake/t", **how)


def test_a_table_of_the_sinks_own_making_fits():
    columns = new_table(SINK, ["day"], table="/lake/t")
    again = fit(columns.schema, ["day"])
    assert again.names == tuple(SINK.columns.names)
    assert again.file_schema.names == ["topic", "partition", "offset", "_kseg_run"]
    assert not len(again.added)


def test_columns_are_written_in_the_tables_spelling():
    table = pa.schema([pa.field(f.name.upper(), f.type) for f in SINK.columns])
    columns = fit(table)
    assert columns.schema.names == ["TOPIC", "PARTITION", "OFFSET", "DAY", "_KSEG_RUN"]
    assert columns.address(SINK) == AddressColumns("TOPIC", "PARTITION", "OFFSET")


def test_all_misfits_are_told_by_column():
    table = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.string()),
            ("offset", pa.int32()),
            pa.field("must", pa.string(), nullable=False),
        ]
    )
    with pytest.raises(IncompatibleSchema) as caught:
        fit(table)
    assert caught.value.columns == ("partition", "offset", "day", "_kseg_run", "must")
    assert caught.value.exit_code is ExitCode.BAD_CONFIGURATION
    assert "sink.merge_schema" in str(caught.value)


def test_merge_schema_adds_what_is_missing():
    table = SINK.columns.remove(SINK.columns.get_field_index("day"))
    columns = fit(table, merge_schema=True)
    assert columns.added == pa.schema([("day", pa.date32())])
    assert columns.table_schema.names[-1] == "day"


def test_columns_that_the_rows_do_not_have_stay_null():
    assert "extra" in fit(SINK.columns.append(pa.field("extra", pa.string()))).table_schema.names


@pytest.mark.parametrize(
    ("partition_by", "asked", "word"),
    [
        (["day"], ["topic"], "asked for topic"),
        ([], ["day"], "partitioned by nothing"),
        (["gone"], [], "do not have this partition column"),
    ],
)
def test_partitioning_must_agree(partition_by, asked, word):
    table = SINK.columns.append(pa.field("gone", pa.string()))
    with pytest.raises(IncompatibleSchema, match=word):
        fit(table, partition_by, asked_partition_by=asked)


@pytest.mark.parametrize("kind", [pa.float64(), pa.binary(), pa.list_(pa.int32())])
def test_types_without_a_text_form_do_not_partition(kind):
    sink = sink_schema(pa.schema([("p", kind), ("v", pa.int64())]), addresses=False)
    with pytest.raises(IncompatibleSchema, match="not a type to partition by"):
        new_table(sink, ["p"], table="/lake/t")


def test_something_must_be_left_in_the_files():
    sink = sink_schema(pa.schema([("p", pa.string())]), addresses=False)
    with pytest.raises(IncompatibleSchema, match="nothing would be left"):
        new_table(sink, ["p", "_kseg_run"], table="/lake/t")


@pytest.mark.parametrize(
    ("rows", "table", "fits"),
    [
        (pa.int16(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.int32(), pa.float64(), False),
        (pa.decimal128(5, 2), pa.decimal128(7, 3), True),
        (pa.decimal128(5, 2), pa.decimal128(5, 3), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), False),
        (pa.list_(pa.field("item", pa.int8())), pa.list_(pa.field("element", pa.int8(), nullable=False)), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())]), True),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8()), ("a", pa.int8())]), False),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), pa.field("b", pa.int8(), nullable=False)]), False),
        (pa.struct([("a", pa.int8()), ("b", pa.int8())]), pa.struct([("a", pa.int8())]), False),
    ],
)
def test_values_are_widened_never_narrowed(rows, table, fits):
    assert can_write(rows, table) is fits


def test_fields_inside_of_structs_are_added_as_columns_are():
    one, two = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.string())])
    sink = sink_schema(pa.schema([("s", two), ("l", pa.list_(two))]), addresses=False)
    table = pa.schema([("L", pa.list_(one)), ("s", one), ("_kseg_run", pa.string())])
    with pytest.raises(IncompatibleSchema, match="merge_schema: true"):
        align(sink, table, [], table="/lake/t")
    columns = align(sink, table, [], table="/lake/t", merge_schema=True)
    assert columns.added.names == ["s", "L"]
    assert columns.table_schema.names == table.names
    assert columns.table_schema.field("L").type.value_type == two
    assert columns.schema.field("s").type == two


def test_a_type_that_does_not_fit_is_refused_with_both_schemas_side_by_side():
    rows = SinkSchema(pa.schema([("id", pa.int64()), ("note", pa.string())]), None)
    with pytest.raises(IncompatibleSchema) as caught:
        align(rows, pa.schema([("ID", pa.string()), ("old", pa.date32())]), (), table="t", merge_schema=True)
    lines = str(caught.value).splitlines()
    at = next(number for number, line in enumerate(lines) if "the rows  " in line)
    assert [line.split() for line in lines[at : at + 4]] == [
        ["the", "rows", "the", "table"],
        ["id:", "bigint", "ID:", "string"],
        ["note:", "string", "-"],
        ["-", "old:", "date"],
    ]


@pytest.mark.parametrize("there", ["new", "lacks it", "has it"])
def test_values_that_only_spark_writes_are_refused(there):
    parts = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    variant = pa.field("v", parts, metadata={SPARK_TYPE: b"variant"})
    sink = sink_schema(pa.schema([*list(SINK.columns)[:-1], variant]))
    table = {"lacks it": SINK.columns, "has it": SINK.columns.append(variant.remove_metadata()), "new": sink.columns}
    with pytest.raises(IncompatibleSchema, match=r"sink.v: only Spark's own writer .* variant — .* to_json") as caught:
        align(sink, table[there], (), table="/lake/t", merge_schema=True)
    assert caught.value.columns == ("v",)


def test_the_cost_of_many_columns_grows_with_their_number(monkeypatch):
    """For each column that is converted or widened the comments of all columns were read: a minute for 10,000."""
    asked = []
    original = align_module.derived_as
    monkeypatch.setattr(align_module, "derived_as", lambda field: asked.append(field.name) or original(field))
    sink = sink_schema(pa.schema([(f"c{n}", pa.int32()) for n in range(100)]), addresses=False)
    for kind in (pa.int64(), pa.int16()):
        table = pa.schema([*((f"c{n}", kind) for n in range(100)), ("_kseg_run", pa.string())])
        align(sink, table, (), table="/lake/t", widen=True)
    assert len(asked) < 1000

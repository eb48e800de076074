from __future__ import annotations

import pyarrow as pa
import pytest

from kseg.etl.errors import ExitCode
from kseg.etl.rows.names import AddressColumns
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet import align as align_module
from kseg.etl.tables.parquet.align import align, new_table, type_changes
from kseg.etl.tables.parquet.schema import COMMENT, SPARK_TYPE, SinkSchema, sink_schema

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


def sink(**kinds: pa.DataType) -> SinkSchema:
    return SinkSchema(pa.schema(list(kinds.items())), None)


def test_what_must_become_wider_is_refused_unless_it_may_be():
    table = pa.schema([("ID", pa.int32()), ("n", pa.int64())])
    with pytest.raises(IncompatibleSchema, match=r"set sink\.widen: true") as refused:
        type_changes(sink(id=pa.int64(), n=pa.int32()), table, (), table="t", widen=False)
    assert "id: bigint" in str(refused.value)
    (change,) = type_changes(sink(id=pa.int64(), n=pa.int32()), table, (), table="t", widen=True)
    assert (change.path, change.after) == (("ID",), pa.int64())
    with pytest.raises(IncompatibleSchema, match=r"set sink\.widen: true"):
        align(sink(id=pa.int64()), table, (), table="t")
    with pytest.raises(IncompatibleSchema) as refused:
        align(sink(id=pa.string()), table, (), table="t")
    assert "sink.widen" not in str(refused.value)


@pytest.mark.parametrize(
    ("made_by", "before", "after", "allowed"),
    [
        ("bucket(4, id)", pa.int32(), pa.int64(), False),
        ("bucket(4, id)", pa.int8(), pa.int32(), True),
        ("bucket(4, other)", pa.int32(), pa.int64(), True),
        ("day(id)", pa.date32(), pa.timestamp("us"), True),
    ],
)
def test_a_column_that_a_bucket_is_made_of_keeps_its_type(made_by, before, after, allowed):
    part = pa.field("part", pa.int32(), metadata={COMMENT: f"made by kseg: {made_by}".encode()})
    table = pa.schema([pa.field("id", before), part])
    if allowed:
        assert type_changes(sink(id=after), table, ["part"], table="t", widen=True)
    else:
        with pytest.raises(IncompatibleSchema, match="land in a new table"):
            type_changes(sink(id=after), table, ["part"], table="t", widen=True)


@pytest.mark.parametrize(
    ("rows", "table", "allowed"),
    [(pa.int32(), pa.int64(), False), (pa.int64(), pa.int64(), True), (pa.int8(), pa.int32(), True)],
)
def test_a_bucket_is_made_of_the_tables_type(rows, table, allowed):
    """An int has another hash than the bigint of the same value."""
    part = pa.field("part", pa.int32(), metadata={COMMENT: b"made by kseg: bucket(16, id)"})
    landed = SinkSchema(pa.schema([pa.field("id", rows), part]), None)
    there = pa.schema([pa.field("ID", table), part])
    if allowed:
        assert align(landed, there, ["part"], table="t").names == ("id", "part")
    else:
        with pytest.raises(IncompatibleSchema, match="cast it to bigint in the transform"):
            align(landed, there, ["part"], table="t")


@pytest.mark.parametrize(("after", "allowed"), [(pa.int64(), True), (pa.float64(), False)])
def test_a_partition_column_stays_an_integer(after, allowed):
    table = pa.schema([("id", pa.int32()), ("v", pa.string())])
    if allowed:
        assert type_changes(sink(id=after), table, ["id"], table="t", widen=True)
    else:
        with pytest.raises(IncompatibleSchema, match="partitioned by it"):
            type_changes(sink(id=after), table, ["id"], table="t", widen=True)

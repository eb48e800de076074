from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.tables.errors import UnlandableRow
from kseg.etl.tables.parquet.partition_values import HIVE_NULL, folder, split, value_text

AWKWARD = [
    "a b/c%d",
    "x=y",
    "ü",
    None,
    "",
    ":*?\\\"'<>|#{}~^[]",
    ".",
    "..",
    "%20",
    "a%2Fb",
    "a+b&c;d,e!$()@",
    "tab\there",
    "\x01\x7f",
    "line\nend",
    "/",
    "  ",
]


def test_folders_escape_what_spark_escapes():
    assert folder(["p"], ("a b/c%d",)) == "p=a b%2Fc%25d/"
    assert folder(["p", "q=r"], (None, "\x01\x7f")) == f"p={HIVE_NULL}/q%3Dr=%01%7F/"
    assert folder([], ()) == ""


def test_folder_names_fit_a_file_system():
    one, other = (folder(["p"], ("ü" * 300 + end,)) for end in "ab")
    assert one != other
    assert len(one.encode()) < 255


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", None),
        (None, None),
        ("x", "x"),
        (True, "true"),
        (-5, "-5"),
        (Decimal("1E+2"), "100"),
        (dt.date(2024, 1, 31), "2024-01-31"),
        (dt.datetime(2024, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2024-01-30T23:00:00.000000Z"),
        (dt.datetime(2024, 1, 31, 1, 2, 3, 4), "2024-01-31 01:02:03.000004"),
    ],
)
def test_values_have_the_protocols_text(value, text):
    assert value_text(value, "p") == text


def test_a_value_without_a_text_is_told_with_its_column():
    far = pa.record_batch({"p": pa.array([2**62], pa.timestamp("us", "UTC")), "v": [1]})
    with pytest.raises(UnlandableRow, match="column p"):
        list(split(far, ["p"]))


def test_a_batch_of_one_partition_is_not_copied(rows):
    batch = rows(0, 10)
    ((values, part),) = split(batch, ["topic", "partition"])
    assert values == ("orders", "0")
    assert part.column("offset").buffers()[1].address == batch.column("offset").buffers()[1].address


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([1, 2, None])), min_size=1))
def test_splitting_loses_nothing_and_keeps_order(pairs):
    batch = pa.record_batch(
        {
            "p": pa.array([p for p, _ in pairs], pa.string()),
            "q": pa.array([q for _, q in pairs], pa.int32()),
            "n": pa.array(range(len(pairs)), pa.int64()),
        }
    )
    found: dict[int, tuple[str | None, ...]] = {}
    for values, part in split(batch, ["p", "q"]):
        numbers = part.column("n").to_pylist()
        assert part.schema.names == ["n"]
        assert numbers == sorted(numbers)
        found |= dict.fromkeys(numbers, values)
    assert [found[n] for n in range(len(pairs))] == [(p or None, None if q is None else str(q)) for p, q in pairs]


def test_rows_with_many_values_of_many_columns_stay_with_their_own():
    """8,192 values in each of five columns have more combinations than 64 bits number."""
    count, columns = 1 << 13, [f"p{n}" for n in range(5)]
    of_row = np.random.default_rng(1)
    values = [of_row.permutation(count) for _ in columns]
    batch = pa.record_batch([*map(pa.array, values), pa.array(range(count))], names=[*columns, "n"])
    found = {part.column("n")[0].as_py(): texts for texts, part in split(batch, columns)}
    wrong = [n for n, texts in found.items() if texts != tuple(str(column[n]) for column in values)]
    assert (len(found), wrong[:3]) == (count, [])


def test_partitioned_tables_are_read_alike_by_all(lander, rows, spark, duck):
    table = lander()
    batch = rows(0, len(AWKWARD))
    batch = batch.append_column("p", pa.array(AWKWARD, pa.string()))
    batch = batch.append_column("day", pa.array([dt.date(2024, 1, 1)] * len(AWKWARD), pa.date32()))
    moments = [dt.datetime(2024, 1, 1, 12, 0, 0, n, tzinfo=dt.UTC) for n in range(len(AWKWARD))]
    batch = batch.append_column("at", pa.array(moments, pa.timestamp("us", "UTC")))
    table.land(batch, partition_by=["p", "day", "at"])

    expected = [(n, p or None, dt.date(2024, 1, 1), moments[n]) for n, p in enumerate(AWKWARD)]
    loaded = table.target.load()
    by_delta_rs = pa.table(loaded.scan(columns=["offset", "p", "day", "at"]).read_all()).to_pylist()
    assert sorted(tuple(r.values()) for r in by_delta_rs) == expected
    by_spark = spark.read.format("delta").load(table.path).selectExpr("offset", "p", "day", "unix_micros(at)").collect()
    micros = [(*row[:3], int(row[3].timestamp() * 1e6)) for row in expected]
    assert sorted(map(tuple, by_spark)) == micros
    by_duck = duck.sql(f"""select "offset", p, "day", epoch_us("at") from delta_scan('{table.path}')""").fetchall()
    assert sorted(by_duck) == micros


def test_folders_are_those_that_spark_would_make(lander, rows, spark, tmp_path):
    batch = rows(0, len(AWKWARD)).append_column("p", pa.array(AWKWARD, pa.string()))
    table = lander()
    table.land(batch, partition_by=["p"])
    frame = spark.createDataFrame([(p,) for p in AWKWARD], "p string").selectExpr("1 AS v", "p")
    frame.write.format("delta").partitionBy("p").save(str(tmp_path / "spark"))
    ours, sparks = ({f.name for f in path.iterdir()} for path in (tmp_path / "table", tmp_path / "spark"))
    assert ours == sparks

"""Deletion vectors are counted where they lie: no Python value per row."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import KsegError
from kseg.etl.tables.delta import deletion_vectors
from kseg.etl.tables.delta.features import removal_reasons
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.delta.snapshots import Snapshot, Snapshots
from kseg.etl.tables.delta.table import DeltaAccess

BASE85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def first_rows(count: int) -> dict[str, object]:
    """A deletion vector of a file's first rows, inline (Delta protocol, "Deletion Vector Format")."""
    containers = [(key, min(65_536, count - key * 65_536)) for key in range(-(-count // 65_536))]
    number = len(containers)
    bitmap = struct.pack("<I", 12347 | (number - 1) << 16) + bytes([255] * -(-number // 8))
    bitmap += b"".join(struct.pack("<HH", key, rows - 1) for key, rows in containers)
    if number >= 4:
        begin = len(bitmap) + 4 * number
        bitmap += b"".join(struct.pack("<I", begin + 6 * at) for at in range(number))
    bitmap += b"".join(struct.pack("<HHH", 1, 0, rows - 1) for _, rows in containers)  # a run from 0
    whole = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    whole += bytes(-len(whole) % 4)
    text = base64.b85encode(whole).decode().translate(str.maketrans(BASE85, Z85))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(whole), "cardinality": count}


@pytest.fixture
def table(tmp_path: Path) -> Snapshot:
    """4,000,000 rows, of which the first 3,000,000 are deleted."""
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"n": pa.array(range(4_000_000), pa.int32())}))
    give_vectors(path, first_rows(3_000_000))
    return Snapshot(str(path))


def give_vectors(path: Path, vector: dict[str, object]) -> None:
    """All files of a table's first version get this one."""
    entry = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    features = ["deletionVectors"]
    for action in actions:
        if "protocol" in action:
            versions = {"minReaderVersion": 3, "minWriterVersion": 7}
            action["protocol"] = {**versions, "readerFeatures": features, "writerFeatures": features}
        if "add" in action:
            action["add"]["deletionVector"] = vector
    entry.write_text("\n".join(json.dumps(action) for action in actions))


def test_a_vector_that_is_lost_is_missed_where_rows_are_counted_alone(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1, 2]}))
    lost = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 36}
    give_vectors(tmp_path, {**lost, "cardinality": 2})
    access = DeltaAccess(str(tmp_path), snapshots=Snapshots())
    assert access.column_names() == ["n"]
    assert access.look().files() == 1
    with pytest.raises(KsegError, match="cannot read the table") as failure:
        access.describe()
    assert failure.value.address["table"] == str(tmp_path)


def test_millions_of_rows_are_counted_in_little_memory(table: Snapshot) -> None:
    assert table.state().rows == 1_000_000
    tracemalloc.start()
    try:
        assert deletion_vectors.deleted_rows(table) == 3_000_000
        assert Snapshot(table.table_uri).state().rows == 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_whoever_would_rewrite_such_files_leaves_it_to_spark(table: Snapshot, tmp_path: Path) -> None:
    assert deletion_vectors.in_use(table)
    assert "deletion vectors in use" in removal_reasons(table, "t")
    assert "deletion vectors in use" in DeltaMaintenance.spark_reasons(DeltaAccess(str(tmp_path / "t")))


def test_a_table_without_vectors_has_none(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "plain", pa.table({"n": [1, 2]}))
    plain = DeltaTable(tmp_path / "plain")
    assert not deletion_vectors.in_use(plain)
    assert deletion_vectors.deleted_rows(plain) == 0

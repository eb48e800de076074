"""What a tiered storage plug-in uploaded, and the broker's own newer segments: one log, recovered into one table."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from kseg.jobs.cli import cli

pytestmark = pytest.mark.spark

#: What real brokers and plug-ins wrote; see tests/segment_reader/log/layouts/conftest.py.
WRITTEN = Path(__file__).parents[2] / "segment_reader/log/layouts/written.tar.xz"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_remote_and_local_segments_are_recovered_as_one_log(spark: Any, written: Path, tmp_path: Path) -> None:
    store, table = written / "aiven-encrypted", str(tmp_path / "out")
    call = ["recover", str(store / "remote" / "tiered"), "--layout", "aiven", "--to", table, "--json"]
    call += ["--layout-option", f"local={store / 'local'}", "--layout-option", f"key.key1={written / 'private.pem'}"]
    told = CliRunner().invoke(cli, call)
    assert told.exit_code in (0, 1), (told.stdout, told.stderr)
    report = json.loads(told.stdout)
    rows = DeltaTable(table).to_pyarrow_table(columns=["offset", "key", "value"]).to_pylist()
    found = sorted((row["offset"], row["key"].decode(), row["value"].decode()) for row in rows)
    consumed = json.loads((store / "rows.json").read_text())["read_committed"]
    assert found == [tuple(row) for row in consumed]
    assert report["rows"] == len(consumed)
    assert {damage["reason"] for damage in report["damaged"]} <= {"undecided"}


def test_a_key_that_is_not_given_is_named(written: Path, tmp_path: Path) -> None:
    store = written / "aiven-encrypted"
    call = ["recover", str(store / "remote" / "tiered"), "--layout", "aiven", "--to", str(tmp_path / "out")]
    told = CliRunner().invoke(cli, call)
    assert told.exit_code == 1, (told.stdout, told.stderr)
    assert "key1" in told.stderr

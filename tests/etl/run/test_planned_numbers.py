"""Numbers of expectations on columns by a registry's schemas are checked before a plan is written."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.decoding.rules import FIRST
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.store import Ledger
from kseg.etl.planning import table_rules
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.segment_reader.encode.batches import Record, encode_batch

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
SCHEMA = {"id": 1, "version": 1, "schema": json.dumps({"type": "record", "name": "Order", "fields": FIELDS})}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """The URL of a registry with one version of every subject."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps([1] if self.path.endswith("/versions") else SCHEMA).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def expecting(log_files: Any, tmp_path: Path, registry: str) -> Callable[..., Any]:
    """expecting(**conditions): a job over one record of the registry's schema, in log files. columns: instead of the
    schema's."""
    value = b"\0\0\0\0\1" + bytes([2 * 7, 2]) + b"a"
    log_files.write_partition(tmp_path / "log" / "orders-0", [[encode_batch([Record(None, value)])]])

    def make(columns: dict[str, str] | None = None, **conditions: Any) -> Any:
        declared = {"format": "json", "schema": {"columns": columns}}
        document = {
            "version": 1,
            "name": "orders",
            "source": {"topics": ["orders"], "segments": "./log"},
            "registry": {"url": registry},
            "decode": {
                "value": {"format": "avro", "schema": "registry"} if columns is None else declared,
                "expect": conditions,
            },
            "sink": {"path": "./lake/orders"},
            "ledger": "./ledger",
        }
        (tmp_path / "job.yaml").write_text(json.dumps(document))  # JSON is YAML
        return load_job(tmp_path / "job.yaml")

    return make


@pytest.mark.parametrize(
    ("condition", "words"),
    [(">= 010", "'010' is not read as the same number"), ("between 3 and 1", "no value is between 3 and 1")],
)
def test_odd_numbers_are_refused_before_a_plan_is_written(
    expecting: Callable[..., Any], condition: str, words: str
) -> None:
    """A registry's columns were left out, so that jobs with columns in the job file alone were refused."""
    job = expecting(id=condition)
    for attempt in (plan_only, run_ingest):
        with pytest.raises(ConfigurationError, match=words) as refused:
            attempt(job)
        assert [fault.path for fault in refused.value.faults] == ["decode.expect.id"]
    assert not Ledger.open(job.ledger, create=False).read(job.name).runs


def test_what_is_no_number_and_rows_of_the_first_rules_are_left_alone(
    expecting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_only(expecting(id=">= 1", note="between a010 and b")).status == "dry-run"
    monkeypatch.setattr(table_rules, "NEWEST", FIRST)
    assert plan_only(expecting(id=">= 010")).status == "dry-run"
    assert plan_only(expecting({"id": "bigint"}, id=">= 010")).status == "dry-run", "the plan's rules decide"

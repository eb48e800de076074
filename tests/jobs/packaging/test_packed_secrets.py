"""No secret of a job is in what `kseg package` writes or prints: it is made to be copied to clusters and buckets."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli

OF_ENVIRONMENT, OF_FILE, OF_STORE, OF_REGISTRY = (
    f"marked-{name}" for name in ("environment", "file", "store", "registry")
)
SECRETS = (OF_ENVIRONMENT, OF_FILE, OF_STORE, OF_REGISTRY)
BESIDE = "marked-beside"
"""In files that the job does not name, beside its modules: hidden ones in their package, any in the job's folder."""

JOB = """
version: 1
name: orders
kafka:
  bootstrap.servers: localhost:9092
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-512
  sasl.jaas.config: >-
    org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="${BOB_PASSWORD}";
  ssl.truststore.location: store.p12
  ssl.truststore.password: ${file:store-password}
registry: {url: "https://localhost:8081", basic.auth.user.info: "${REGISTRY_USER_INFO}"}
decode: {value: {format: avro, schema: registry}}
source: {topics: [orders]}
transform:
  - python: steps.shout:loud
sink: {path: ./lake/orders}
ledger: ./ledger
spark:
  master: yarn
  conf: {spark.hadoop.fs.azure.account.key.acct: "${STORE_KEY}"}
"""


def contents(data: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """A file, and all files in it where it is an archive, archives in archives too."""
    yield name, data
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                inside = archive.extractfile(member) if member.isfile() else None
                text = inside.read() if inside is not None else f"{member.name} {member.linkname}".encode()
                yield from contents(text, f"{name}/{member.name}")
    elif zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as zipped:
            for one in zipped.namelist():
                yield from contents(zipped.read(one), f"{name}/{one}")


def test_no_secret_is_packed_or_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: Callable[[int, int], int]
) -> None:
    """In full counts the environment that `--archive` packs is searched, too: half a gigabyte of 10,000 files."""
    for name, value in {
        "BOB_PASSWORD": OF_ENVIRONMENT,
        "STORE_KEY": OF_STORE,
        "REGISTRY_USER_INFO": f"reader:{OF_REGISTRY}",
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "store-password").write_text(OF_FILE)
    package = tmp_path / "steps"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shout.py").write_text("def loud(batch):\n    return batch\n")
    for file in (package / ".env", package / ".git" / "config", tmp_path / ".env", tmp_path / "credentials.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(BESIDE)
    (tmp_path / "job.yaml").write_text(JOB)

    words = ["package", "--out", str(tmp_path / "dist"), "--job", str(tmp_path / "job.yaml")]
    archived = ["--archive", "--driver"] if scale(0, 1) else []
    printed = [CliRunner().invoke(cli, [*words, *more]) for more in ([], [*archived, "--json"])]
    assert [one.exit_code for one in printed] == [0, 0], printed[0].output
    assert "orders" in json.dumps(json.loads(printed[1].stdout))

    found = [(f"output {number}", one.output.encode()) for number, one in enumerate(printed)]
    searched = set()
    for name, data in chain(found, *(contents(file.read_bytes(), file.name) for file in (tmp_path / "dist").iterdir())):
        searched.add(name)
        for secret in (*SECRETS, BESIDE):
            assert secret.encode() not in data, (name, secret)
    assert any(name.endswith("-modules.zip/steps/shout.py") for name in searched), "the job's own code is packed"
    assert any(name.endswith("site-packages/kseg/jobs/cli.py") for name in searched) is bool(archived)

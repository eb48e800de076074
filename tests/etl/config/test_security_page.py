"""docs/guides/security.md: its examples are `kafka` sections that a job file takes, its table names all properties."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kseg.client.security.config import NAMES
from kseg.etl.config.load import load_job

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "security.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PEM = "-----BEGIN {0}-----\nx\n-----END {0}-----\n"
OAUTH = "security.protocol: SASL_SSL\nsasl.mechanism: OAUTHBEARER\n"
SCRAM = "security.protocol: SASL_SSL\nsasl.mechanism: SCRAM-SHA-512\n"
ENDPOINT = OAUTH + "sasl.oauthbearer.token.endpoint.url: https://login.example.com/oauth2/token\n"


def whole(block: str) -> str:
    """A block that goes on from the one before it, with what that says."""
    if "security.protocol" in block:
        return block
    if "ScramLoginModule" in block:
        return SCRAM + block
    return (ENDPOINT if "OAuthBearerLoginModule" in block else OAUTH) + block


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_each_example_is_taken(block: str, tmp_path: Path) -> None:
    for name, kind in (("ca.pem", "CERTIFICATE"), ("client.pem", "CERTIFICATE"), ("client-key.pem", "PRIVATE KEY")):
        (tmp_path / name).write_text(PEM.format(kind))
    section = yaml.safe_load(
        whole(block).replace("/run/secrets/", f"{tmp_path}/").replace("/var" + str(tmp_path), "/var")
    )
    file = tmp_path / "job.yaml"
    job = {
        "version": 1,
        "name": "orders",
        "kafka": {"bootstrap.servers": "broker:9093"} | section,
        "source": {"topics": ["orders"]},
        "sink": {"path": "./lake"},
        "ledger": "./ledger",
    }
    file.write_text(yaml.safe_dump(job))
    env = {name: "id" if name == "TOKEN_ID" else "hunter2" for name in re.findall(r"\$\{([A-Z_]+)\}", block)}
    config = load_job(file, env=env).client_config()
    assert config.security.protocol in ("SSL", "SASL_SSL")
    assert "hunter2" not in repr(config)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 9


def test_every_property_is_in_the_table() -> None:
    table = PAGE[PAGE.index("## Properties") : PAGE.index("## What happens on the wire")]
    named: set[str] = set()
    for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        first = ""
        for name in re.findall(r"`([a-z.]+)`", row):
            if name.startswith("."):
                at = first.rindex(".client.id") if name == ".client.secret" else first.rindex(".")
                name = first[:at] + name
            else:
                first = name
            named.add(name)
    assert named == NAMES

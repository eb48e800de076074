"""A registry's properties among a cluster's, on command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.jobs.output.redaction import REDACTOR
from kseg.jobs.records.registry_options import of_cluster, registry_properties, without_registry

AUTH = "schema.registry.basic.auth.user.info"


def test_properties_of_both_are_kept_apart() -> None:
    pairs = ["client.rack=r1", f"{AUTH}=me:hunter22"]
    assert of_cluster(pairs) == ("client.rack=r1",)
    assert without_registry({"client.rack": "r1", AUTH: "me:hunter22"}) == {"client.rack": "r1"}
    assert registry_properties("http://sr", None, pairs) == {"url": "http://sr", "basic.auth.user.info": "me:hunter22"}
    assert "hunter22" not in REDACTOR.clean("the password is me:hunter22")


def test_the_command_line_is_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"schema.registry.url=http://file\n{AUTH}=a:b\nbootstrap.servers=b:1\n")
    assert registry_properties(None, str(file), []) == {"url": "http://file", "basic.auth.user.info": "a:b"}
    assert registry_properties("http://sr", str(file), [f"{AUTH}=c:d"]) == {
        "url": "http://sr",
        "basic.auth.user.info": "c:d",
    }


def test_no_registry_is_none_and_properties_without_a_url_are_an_error() -> None:
    assert registry_properties(None, None, ["client.rack=r1"]) is None
    with pytest.raises(ConfigurationError, match="--registry"):
        registry_properties(None, None, [f"{AUTH}=me:hunter22"])

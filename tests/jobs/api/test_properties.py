"""Client properties on the command line: files as Java reads them, and secrets that stay secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.client.errors import ConfigError
from kseg.etl.errors import ConfigurationError
from kseg.jobs.api.properties import PropertiesFile, client_config
from kseg.jobs.output.redaction import REDACTOR


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb: 2\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("  a  =  1  \n", {"a": "1  "}),
        ("# no\n! no\n\n   \n a=1", {"a": "1"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        ("a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        ("a=\\t\\n\\u00e4\\q", {"a": "\t\näq"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("sasl.jaas.config=x required \\\n  username=\"u\" \\\n  password=\"p=#!\";", {
            "sasl.jaas.config": 'x required username="u" password="p=#!";'
        }),
    ],
)  # fmt: skip
def test_a_properties_file_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert PropertiesFile.of_text("", text).values == properties


def test_what_is_given_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\nclient.id=file\nrequest.timeout.ms=5\n")
    config = client_config("c:3", str(file), ["client.id=pair", "bootstrap.servers=b:2"])
    assert (config.bootstrap_servers, config.client_id, config.request_timeout_ms) == ((("c", 3),), "pair", 5)


def test_controllers_take_the_place_of_the_files_brokers(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1\n")
    config = client_config(None, str(file), [], controllers="c:3")
    assert (config.bootstrap_servers, config.bootstrap_controllers) == ((), (("c", 3),))
    with pytest.raises(ConfigError, match=r"bootstrap\.controllers"):
        client_config("a:1", None, [], controllers="c:3")


def test_without_a_client_id_there_is_one() -> None:
    assert client_config("a:1", None, []).client_id == "kseg-api"


def test_a_pair_without_a_value_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="key=value") as raised:
        client_config("a:1", None, ["s3cr3t"])
    assert "s3cr3t" not in str(raised.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigurationError) as caught:
        client_config(None, "nowhere.properties", [])
    assert str(caught.value) == (
        "--command-config: cannot read nowhere.properties: No such file or directory — give the path of a properties "
        "file"
    )
    assert caught.value.__cause__ is None, "which said it once more"


def test_each_property_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# no\na=1,\\\n  2\n\nb=2\n")
    assert PropertiesFile.read(str(file)).lines == {"a": 2, "b": 5}


def test_no_bootstrap_servers_is_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_config(None, None, [])


def test_values_that_may_be_secrets_are_masked_from_then_on() -> None:
    with pytest.raises(ConfigError):
        client_config("a:1", None, ["ssl.keystore.password=hunter2hunter2", "no.such.key=x"])
    assert REDACTOR.clean("it was hunter2hunter2") == "it was ***"

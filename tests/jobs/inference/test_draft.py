"""The job file's parts that no sample decides."""

from __future__ import annotations

from kseg.jobs.inference.draft import draft_of, kafka_section
from kseg.jobs.inference.sampling import Sample


def test_secrets_of_the_command_line_are_references_and_those_of_a_file_stay_there() -> None:
    properties = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SSL",
        "ssl.key.password": "hunter2",
        "client.rack": "r1",
        "ssl.truststore.location": "/t.pem",
    }
    section = kafka_section(properties, ["ssl.key.password=hunter2", "client.rack=r1"])
    assert section == {
        "bootstrap.servers": "b:9092",
        "ssl.key.password": "${KSEG_SSL_KEY_PASSWORD}",
        "client.rack": "r1",
    }
    drafted = draft_of("t", Sample(1, 1, [None], [b"text"]), section, table="./t")
    assert "before a run, set KSEG_SSL_KEY_PASSWORD in the environment" in drafted.notes


def test_documents_that_cannot_be_decoded_are_counted() -> None:
    values: list[bytes | None] = [b'{"a": "x"}', b'{"a": "\\ud800"}']
    drafted = draft_of("t", Sample(1, 2, [None, None], values), {"bootstrap.servers": "b:1"}, table="./t")
    (note,) = drafted.notes
    assert note.startswith("1 sampled value(s) cannot be decoded (1 MALFORMED), the first: ")

"""Which topic, partition and topic id a folder of copies names."""

from __future__ import annotations

import base64
from pathlib import Path
from uuid import UUID

import pytest

from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.layouts.copies import CopiedFolders

ID = UUID("11111111-2222-3333-4444-555555555555")
TEXT = base64.urlsafe_b64encode(ID.bytes).decode().rstrip("=")


@pytest.mark.parametrize(
    ("folder", "topic", "topic_id"),
    [
        (f"prod-{TEXT}/0", "prod", ID),
        (f"prod-0-{TEXT}", "prod", ID),
        (f"prod-customer-{TEXT}/0", "prod-customer", ID),
        ("prod-customer-events-topic1/0", "prod-customer-events-topic1", None),
        ("prod-customer-events-topic1-0", "prod-customer-events-topic1", None),
        ("prod--ustomer-events-topicA/0", "prod--ustomer-events-topicA", None),
    ],
)
def test_only_what_kafka_can_have_written_is_a_topic_id(
    tmp_path: Path, folder: str, topic: str, topic_id: UUID | None
) -> None:
    """22 characters of base64 encode 132 bits, of which an id has 128; none begins with a hyphen."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / f"{0:020d}.log").touch()
    (found,) = CopiedFolders(LocalStorage(), str(tmp_path), {}).partitions()
    assert (found.topic, found.partition, found.topic_id) == (topic, 0, topic_id)

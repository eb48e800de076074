"""Errors of the records of internal topics, besides damage of the files."""

from __future__ import annotations

from typing import Self

from kseg.etl.errors import KsegError
from kseg.etl.internal_topics.locations import KeyPlace


class UndecodableRecord(KsegError):
    """A record that is needed for the answer cannot be understood: damaged, or newer than this release knows."""

    @classmethod
    def of(cls, place: KeyPlace, offset: int, reason: str) -> Self:
        """With its address: topic, partition, offset and the partition's folder."""
        return cls(
            f"a record cannot be decoded: {reason}",
            remedy="kseg dump --deep shows the record; kseg fsck checks the files",
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            file=place.replica.log.folder,
        )


class MetadataUnreadable(KsegError):
    """The metadata log cannot be replayed: a record is damaged or contradicts those before it, or records are gone."""

"""The job as one value: its sections, and what connects it: secrets and the client's configuration.

A `Job` holds no secret: `kafka`, `registry`, `spark.conf` and `source.segments.options` keep their `${…}` references,
and `kafka_properties()`, `registry_properties()`, `spark_conf()`, `segment_options()`, `client_config()` and
`registry_config()` return the resolved values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from kseg.etl.config.continuation import AsPlanned, AtContinuation
from kseg.etl.config.decoding import AnyDecode, Decode, sections_of
from kseg.etl.config.interval import IntervalRules
from kseg.etl.config.marks import DecidesRows, DecidesRowsIfGiven, NotHashed, config_hash
from kseg.etl.config.references import resolve
from kseg.etl.config.remote import tokens_in
from kseg.etl.config.reporting import Reporting
from kseg.etl.config.scheduling import Airflow
from kseg.etl.config.secret_values import secret_values
from kseg.etl.config.secrets import SecretProperties, has_reference
from kseg.etl.config.sections import AnyStep, Run, Segments, Sink, Source, Spark
from kseg.etl.config.values import JobName, Section, TablePath, Text, TransactionalId, version_one
from kseg.etl.decoding.rules import DecodingRules

if TYPE_CHECKING:
    from kseg.client.config import ClientConfig
    from kseg.client.registry.opening import AnyRegistryConfig


class Job(Section):
    """One validated job file; `load.py` makes one, nothing else should. Paths are absolute."""

    version: DecidesRows[Annotated[Literal[1], BeforeValidator(version_one)]]
    name: NotHashed[AsPlanned[JobName]]
    kafka: NotHashed[AtContinuation[dict[str, str] | None]] = None
    registry: NotHashed[AtContinuation[dict[str, str] | None]] = None
    source: DecidesRows[Source]
    decode: DecidesRowsIfGiven[AnyDecode | None] = None
    transform: DecidesRows[Annotated[tuple[AnyStep, ...], Field(strict=False)]] = ()
    sink: DecidesRows[Sink]
    group: NotHashed[AsPlanned[Text | None]] = None
    group_commit: NotHashed[AsPlanned[Literal["transactional", "plain", "none"]]]
    transactional_id: NotHashed[AsPlanned[TransactionalId | None]] = None
    ledger: NotHashed[AtContinuation[TablePath]]
    run: NotHashed[AtContinuation[Run]] = Run()
    # It adds the column `_kseg_late`; a run that was taken up has it or lacks it as its plan says.
    interval: NotHashed[AsPlanned[IntervalRules | None]] = None
    airflow: NotHashed[AtContinuation[Airflow | None]] = None
    spark: NotHashed[AtContinuation[Spark]] = Spark()
    reporting: NotHashed[AtContinuation[Reporting]] = Reporting()

    # Resolved at load, with the environment of then; not a field, so it is in no repr and no dump.
    _secrets: dict[str, SecretProperties] = PrivateAttr(default_factory=dict)
    _laid_over: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def client_id(self) -> str:
        """What brokers call this client, unless `kafka.client.id` says otherwise."""
        return f"kseg-{self.name}"

    def kafka_properties(self) -> SecretProperties:
        """Java client properties, references resolved. Its repr shows no secret."""
        return self._resolved("kafka", self.kafka or {})

    def registry_properties(self) -> SecretProperties:
        """Properties of the schema registry's client, references resolved. Its repr shows no secret."""
        return self._resolved("registry", self.registry or {})

    def spark_conf(self) -> SecretProperties:
        """Spark's configuration, references resolved. Its repr shows no secret."""
        return self._resolved("spark", self.spark.conf)

    def segment_options(self) -> SecretProperties:
        """Options of the store of `source.segments` and of its layout, references resolved. See spark_conf."""
        segments = self.source.segments
        return self._resolved("segments", (segments and segments.options) or {})

    def secret_values(self) -> Iterator[str]:
        """What no output may show: of the properties by `etl.config.secret_values`, and the token of a Connect server.

        A value may come more than once.
        """
        segments = self.source.segments
        for written, resolved in (
            (self.kafka, self.kafka_properties()),
            (self.registry, self.registry_properties()),
            (self.spark.conf, self.spark_conf()),
            (segments and segments.options, self.segment_options()),
        ):
            yield from secret_values(written or {}, resolved, self.environment())
        yield from tokens_in(self.spark.remote or "")

    def client_config(self) -> ClientConfig:
        """The configuration of a `Cluster`, none of whose operations lasts longer than `run.deadline`. Valid, since
        loading checked it. Raises ValueError without brokers."""
        from kseg.client.config import ClientConfig

        if self.kafka is None:
            raise ValueError("the job has no brokers")
        config = ClientConfig.from_properties(self.kafka_properties(), client_id=self.client_id)
        longest = round(self.run.deadline.total_seconds() * 1000)
        return replace(config, default_api_timeout_ms=min(config.default_api_timeout_ms, longest))

    def registry_config(self) -> AnyRegistryConfig:
        """The configuration of the registry's client. Raises ValueError for a job without one."""
        from kseg.client.registry.opening import registry_config

        if self.registry is None:
            raise ValueError("the job has no schema registry")
        return registry_config(self.registry_properties())

    @property
    def adds_columns(self) -> bool:
        """Whether a run adds columns to tables that lack them."""
        sections = sections_of(self.decode).values() if self.decode is not None else ()
        payloads = (payload for section in sections for payload in section.payloads)
        return self.sink.merge_schema or any(payload.unknown == "add" for payload in payloads)

    @property
    def widens(self) -> bool:
        """Whether a run may make the types of a table's columns wider."""
        return self.sink.widen

    @property
    def uses_headers(self) -> bool:
        """Whether rows, or the tables that they land in, depend on records' headers."""
        sections = sections_of(self.decode).values() if self.decode is not None else ()
        return not sections or self.sink.routed_by_headers or any(section.uses_headers for section in sections)

    def refuses_names(self, section: Decode) -> bool:
        """Whether a header's name that is not UTF-8 is an error of the records that this section decodes."""
        return self.source.header_names == "refuse" and (section.uses_headers or self.sink.routed_by_headers)

    @property
    def transforms_rows(self) -> bool:
        """Whether rows are made of records by steps: decoding, or a transform."""
        return self.decode is not None or bool(self.transform)

    @property
    def drops_tombstones(self) -> bool:
        """Whether records without a payload land nowhere (`tombstones: drop`)."""
        sections = sections_of(self.decode).values() if self.decode is not None else ()
        return any(payload.tombstones == "drop" for section in sections for payload in section.payloads)

    @property
    def quarantine(self) -> str | None:
        """The quarantine table, for damaged batches; None where a run stops at damage."""
        table = self.sink.quarantine
        return table.path if table is not None and self.source.on_corruption == "quarantine" else None

    @property
    def dead_letters(self) -> str | None:
        """The dead-letter table, for records that cannot be decoded; None where they have none.

        A job file that has gone over to `on_error: set_null` may name the one that it had: redrives read it.
        """
        sections = sections_of(self.decode).values() if self.decode is not None else ()
        writing = ("dead_letter",) if self.sink.dead_letters is None else ("dead_letter", "set_null")
        return self.sink.dead_letters_path if any(one.on_error in writing for one in sections) else None

    @property
    def dead_letter_retention(self) -> timedelta | None:
        """How long dead letters stay after their run has ended; None: for ever."""
        return self.sink.dead_letters.retention if self.sink.dead_letters is not None else None

    def max_dead_letters(self, records: int) -> int:
        """How many of so many records may become dead letters."""
        return self.sink.most_dead_letters.of(records)

    @property
    def commits_offsets(self) -> bool:
        """Whether runs commit the group's offsets."""
        return self.group is not None and self.group_commit != "none"

    def of_files(self, segments: Segments, *, brokers: bool) -> Job:
        """The same job reading files in place of its brokers. Name, ledger, sink and hash stay.

        brokers: they may still be asked about the group. Without them no offsets are committed.
        """
        changes: dict[str, Any] = {"source": self.source.model_copy(update={"segments": segments})}
        if not brokers:
            changes |= {"kafka": None, "group_commit": "none"}
        return self.model_copy(update=changes)

    def on_remote(self, url: str) -> Job:
        """The same job in a session of this Connect server, whose address may hold a token."""
        return self.model_copy(update={"spark": self.spark.model_copy(update={"remote": url})})

    @property
    def config_hash(self) -> str:
        """sha256 of what decides which rows land where, as 64 hex digits: a run that has landed rows keeps to it.

        What is part of it and what is not, each field says by its mark (`marks.py`).
        """
        return config_hash(self)

    def hash_by(self, rules: DecodingRules) -> str:
        """The same for runs that decode by these rules."""
        return self.config_hash if rules.literals_by_source_text else config_hash(self._without_texts())

    def _without_texts(self) -> Job:
        """The same job, whose literals are YAML's values."""
        if self.decode is None:
            return self
        none: dict[str, Any] = {"expect_texts": {}}
        if isinstance(self.decode, Mapping):
            return self.model_copy(
                update={"decode": {topic: one.model_copy(update=none) for topic, one in self.decode.items()}}
            )
        return self.model_copy(update={"decode": self.decode.model_copy(update=none)})

    def pinned(self) -> dict[str, Any]:
        """The job as a JSON-able document for the ledger: absolute paths, references unresolved, so no secret in it.

        `load.job_from_document` is its inverse, but for `spark.remote`: its address may hold a token (`on_remote`).
        """
        return self.model_dump(mode="json", exclude_none=True, exclude={"spark": {"remote"}})

    def take_secrets(self, laid_over: Mapping[str, str], **sections: SecretProperties) -> None:
        """For loading alone: the values of the references, with those of `--command-config` among them (laid_over)."""
        self._laid_over.update(laid_over)
        self._secrets.update(sections)

    def environment(self) -> dict[str, str]:
        """The values for this job's references: the process's environment, and what was laid over the file."""
        return {**os.environ, **self._laid_over}

    def _resolved(self, section: str, properties: Mapping[str, str]) -> SecretProperties:
        if section not in self._secrets:
            values = {key: resolve(text, env=self.environment(), folder=Path("/")) for key, text in properties.items()}
            hidden = frozenset(key for key, text in properties.items() if has_reference(text))
            self._secrets[section] = SecretProperties(values, hidden)
        return self._secrets[section]

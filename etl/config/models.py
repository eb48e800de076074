"""The job as values: frozen, strict, with the job file's own names. `load.py` makes one; nothing else should.

A `Job` holds no secret: `kafka`, `spark.conf` and `source.segments.options` keep their `${…}` references, and
`kafka_properties()`, `spark_conf()`, `client_config()` and `origin` give the resolved values to whoever connects.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PrivateAttr, Tag

from etl.config.paths import TOPIC_PLACEHOLDER, location
from etl.config.secrets import SecretProperties, has_reference, resolve
from etl.config.values import (
    Columns,
    Duration,
    Function,
    Instant,
    JobName,
    Locations,
    Offset,
    PartitionKey,
    Partitions,
    PathTemplate,
    PlainPath,
    RouteName,
    Sql,
    TableTemplate,
    Text,
    Topic,
    TopicPattern,
    Topics,
    TransactionalId,
    at_least,
    fault,
    not_empty_map,
    one_key_a_partition,
    version_one,
)
from etl.errors import ConfigurationError
from segment_reader.log.layouts import layout_names
from segment_reader.log.storage import PLAIN

if TYPE_CHECKING:
    from client.config import ClientConfig
    from etl.source.logs import Origin

STEP_KINDS = ("arrow", "sql", "python")
CATCH_ALL = "*"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AtTime(_Section):
    """Offsets by time: of each partition, the first record at or after it."""

    timestamp: Instant


TopicOffsets = Annotated[
    dict[
        Topic,
        Annotated[dict[PartitionKey, Offset], BeforeValidator(one_key_a_partition), BeforeValidator(not_empty_map)],
    ],
    BeforeValidator(not_empty_map),
]


def _offsets_form(value: Any) -> str | None:
    if isinstance(value, AtTime):
        return "<time>"
    if not isinstance(value, Mapping):
        return "<name>"
    by_time = "timestamp" in value and not isinstance(value["timestamp"], Mapping)
    return "<time>" if by_time else "<offsets>"


def _offsets_shape(value: Any) -> Any:
    if not isinstance(value, str | Mapping | AtTime):
        raise fault("is no offsets", "earliest, latest, committed, {topic: {partition: offset}} or {timestamp: …}")
    return value


OffsetSpec = Annotated[
    Annotated[Literal["earliest", "latest", "committed"], Tag("<name>")]
    | Annotated[AtTime, Tag("<time>")]
    | Annotated[TopicOffsets, Tag("<offsets>")],
    Discriminator(_offsets_form),
    BeforeValidator(_offsets_shape),
]
"""A name, an `AtTime`, or `{topic: {partition: offset}}`."""

EndSpec = Annotated[
    Annotated[Literal["earliest", "latest", "committed", "log_end", "high_watermark", "last_stable"], Tag("<name>")]
    | Annotated[AtTime, Tag("<time>")]
    | Annotated[TopicOffsets, Tag("<offsets>")],
    Discriminator(_offsets_form),
    BeforeValidator(_offsets_shape),
]
"""The same for an end, which has names of its own."""


def _layout(name: str) -> str:
    if name not in layout_names():
        raise fault(f"{name!r} is no layout", f"one of {', '.join(layout_names())}")
    return name


class Segments(_Section):
    """Log files in place of brokers: folders of `log.dirs` or copies of them.

    layout: in which form logs lie there; `options`: what the store and the layout have to be told, with references.
    """

    paths: Locations
    layout: Annotated[str, AfterValidator(_layout)] = PLAIN
    options: dict[str, str] | None = None

    @classmethod
    def named(cls, words: Sequence[str], option: str = "--segments") -> Segments:
        """Of a command line, where relative paths start where the command runs. Raises ConfigurationError."""
        try:
            return cls(paths=tuple(dict.fromkeys(location(word, Path.cwd()) for word in words)))
        except ValueError as error:
            raise ConfigurationError.of(option, str(error), "a folder of log.dirs: a path, or a URL") from None


def _segments_shape(value: Any) -> Any:
    if isinstance(value, str):
        return {"paths": [value]}
    if isinstance(value, list | tuple):
        return {"paths": value}
    if not isinstance(value, Mapping | Segments):
        raise fault("is no place", "a path or URL, a list of them, or {paths: […], layout: …}")
    return value


class Source(_Section):
    """Which records: exactly one of topics, pattern and assign is set."""

    topics: Topics | None = None
    pattern: TopicPattern | None = None
    assign: Annotated[dict[Topic, Partitions], BeforeValidator(not_empty_map)] | None = None
    segments: Annotated[Segments, BeforeValidator(_segments_shape)] | None = None
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    starting_offsets: OffsetSpec = "earliest"
    ending_offsets: EndSpec = "latest"
    max_records_per_task: Annotated[int, Field(ge=1, le=2**63 - 1)] = 1_000_000
    on_data_loss: Literal["fail", "record"] = "fail"
    on_gap: Literal["fail", "record"] = "fail"
    on_corruption: Literal["fail", "quarantine"] = "fail"
    untimed: Literal["refuse", "include"] = "refuse"
    provenance: bool = False

    @property
    def named_topics(self) -> tuple[str, ...] | None:
        """The topics that the file names; None where a pattern finds them."""
        return tuple(self.assign) if self.assign is not None else self.topics


class ArrowStep(_Section):
    """pa.RecordBatch -> pa.RecordBatch, in the worker."""

    arrow: Function


class SqlStep(_Section):
    """SQL over `__rows__`."""

    sql: Sql


class PythonStep(_Section):
    """DataFrame -> DataFrame."""

    python: Function


def _step_kind(value: Any) -> str | None:
    if isinstance(value, BaseModel):
        value = dict(value)
    return next((f"<{kind}>" for kind in STEP_KINDS if kind in value), None)


def _step_shape(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value
    kinds = [kind for kind in STEP_KINDS if kind in value] if isinstance(value, Mapping) else []
    if len(kinds) != 1:
        told = "is no step" if not kinds else f"is {' and '.join(kinds)} at once"
        raise fault(told, 'a step is one of arrow: "module:function", sql: "…" and python: "module:function"')
    return value


Step = Annotated[
    Annotated[ArrowStep, Tag("<arrow>")] | Annotated[SqlStep, Tag("<sql>")] | Annotated[PythonStep, Tag("<python>")],
    Discriminator(_step_kind),
    BeforeValidator(_step_shape),
]


class Target(NamedTuple):
    """One table: by its absolute path (or URL), or by its name in a catalog."""

    path: str | None
    table: str | None

    def __str__(self) -> str:
        return self.path or self.table or ""

    def of(self, topic: str) -> Target:
        """The table that a topic's rows land in, `{topic}` filled in."""
        return Target(*(text and text.replace(TOPIC_PLACEHOLDER, topic) for text in self))


class Route(_Section):
    """Where one topic's rows land: exactly one of path and table is set."""

    path: PathTemplate | None = None
    table: TableTemplate | None = None

    @property
    def target(self) -> Target:
        return Target(self.path, self.table)


class QuarantineTable(_Section):
    """Where the bytes of what cannot be read land."""

    path: PlainPath


class Sink(_Section):
    """Where rows land: exactly one of path, table and routes is set."""

    path: PathTemplate | None = None
    table: TableTemplate | None = None
    routes: Annotated[dict[RouteName, Route], BeforeValidator(not_empty_map)] | None = None
    partition_by: Columns = ()
    cluster_by: Columns = ()
    merge_schema: bool = False
    single_driver: bool = False
    addresses: bool = True
    quarantine: QuarantineTable | None = None

    @property
    def targets(self) -> dict[str, Target]:
        """Targets by route, `*` for all other topics; `{topic}` not filled in."""
        if self.routes is not None:
            return {topic: route.target for topic, route in self.routes.items()}
        return {CATCH_ALL: Target(self.path, self.table)}

    def target(self, topic: str) -> Target:
        """The table that a topic's rows land in. Raises ConfigurationError where no route takes the topic."""
        targets = self.targets
        target = targets.get(topic) or targets.get(CATCH_ALL)
        if target is None:
            raise ConfigurationError.of("sink.routes", f"no route takes topic {topic}", 'add it, or "*" for all others')
        if target.table and TOPIC_PLACEHOLDER in target.table and not fits_table_name(topic):
            raise ConfigurationError.of(
                "sink", f"topic {topic} does not fit into the table name {target.table}", "give it a route of its own"
            )
        return target.of(topic)


def fits_table_name(topic: str) -> bool:
    """Whether a topic's name can stand in a table's name as it is: a dot would make another schema of it."""
    return topic.replace("_", "a").isalnum()


class Run(_Section):
    """lease: how long a run's claim lives unless renewed; deadline: how long retriable failures are met again."""

    lease: Annotated[Duration, at_least(timedelta(seconds=5))] = timedelta(minutes=2)
    deadline: Annotated[Duration, at_least(timedelta(seconds=1))] = timedelta(hours=1)


class Spark(_Section):
    """The session. `conf` keeps its references: take `Job.spark_conf()` for a session."""

    master: Text = "local[*]"
    conf: dict[str, str] = Field(default_factory=dict)


class Job(_Section):
    """One validated job file. Paths are absolute; `kafka` and `spark.conf` keep their `${…}` references."""

    version: Annotated[Literal[1], BeforeValidator(version_one)]
    name: JobName
    kafka: dict[str, str] | None = None
    source: Source
    transform: Annotated[tuple[Step, ...], Field(strict=False)] = ()
    sink: Sink
    group: Text | None = None
    group_commit: Literal["transactional", "plain", "none"]
    transactional_id: TransactionalId | None = None
    ledger: PlainPath
    run: Run = Run()
    spark: Spark = Spark()

    # Resolved at load, with the environment of then; not a field, so it is in no repr and no dump.
    _secrets: dict[str, SecretProperties] = PrivateAttr(default_factory=dict)

    @property
    def client_id(self) -> str:
        """What brokers call this client, unless `kafka.client.id` says otherwise."""
        return f"kseg-{self.name}"

    def kafka_properties(self) -> SecretProperties:
        """Java client properties, references resolved. Its repr shows no secret."""
        return self._resolved("kafka", self.kafka or {})

    def spark_conf(self) -> SecretProperties:
        """Spark's configuration, references resolved. Its repr shows no secret."""
        return self._resolved("spark", self.spark.conf)

    def segment_options(self) -> SecretProperties:
        """What the store of `source.segments` and its layout have to be told, references resolved. See spark_conf."""
        segments = self.source.segments
        return self._resolved("segments", (segments and segments.options) or {})

    def client_config(self) -> ClientConfig:
        """What `client.Cluster` takes. Valid, since loading checked it. Raises ValueError for a job without brokers."""
        from client.config import ClientConfig

        if self.kafka is None:
            raise ValueError("the job has no brokers")
        return ClientConfig.from_properties(self.kafka_properties(), client_id=self.client_id)

    @property
    def origin(self) -> Origin:
        """Where its records are read from: files where it names some, else its brokers."""
        from etl.source.files import LogFiles

        segments = self.source.segments
        if segments is None:
            return self.client_config()
        return LogFiles(
            segments.paths,
            segments.layout,
            tuple(sorted(self.segment_options().items())),
            past_damage=self.quarantine is not None,
            untimed=self.source.untimed,
        )

    @property
    def quarantine(self) -> str | None:
        """The table that takes what cannot be read; None where a run stops at it."""
        table = self.sink.quarantine
        return table.path if table is not None and self.source.on_corruption == "quarantine" else None

    def of_files(self, segments: Segments, *, brokers: bool) -> Job:
        """The same job reading files in place of its brokers. Name, ledger, sink and hash stay.

        brokers: they may still be asked about the group. Without them no offsets are committed.
        """
        changes: dict[str, Any] = {"source": self.source.model_copy(update={"segments": segments})}
        if not brokers:
            changes |= {"kafka": None, "group_commit": "none"}
        return self.model_copy(update=changes)

    @property
    def arrow_steps(self) -> tuple[ArrowStep, ...]:
        """The transform's first part, run in the workers."""
        return tuple(step for step in self.transform if isinstance(step, ArrowStep))

    @property
    def frame_steps(self) -> tuple[SqlStep | PythonStep, ...]:
        """The transform's second part, run on the DataFrame."""
        return tuple(step for step in self.transform if not isinstance(step, ArrowStep))

    @property
    def config_hash(self) -> str:
        """sha256 of what decides which rows land where: source, transform and sink, as 64 hex digits.

        Left out: secrets; where the records are to be had (brokers or files: cluster and topic tell whether they are
        the same ones); how work is cut (`max_records_per_task`); and what is decided before a run's ranges are pinned
        or is a person's word to go on (`on_data_loss`, `on_gap`, `on_corruption` with its quarantine, `untimed`,
        `single_driver`), so that changing these lets an unfinished run go on.
        """
        source = self.source.model_dump(
            mode="json",
            exclude={"segments", "max_records_per_task", "on_data_loss", "on_gap", "on_corruption", "untimed"},
        )
        if self.source.topics is not None:
            source["topics"] = sorted(self.source.topics)
        decisive = {
            "version": self.version,
            "source": source,
            "transform": [step.model_dump(mode="json") for step in self.transform],
            "sink": self.sink.model_dump(mode="json", exclude={"single_driver", "quarantine"}),
        }
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def pinned(self) -> dict[str, Any]:
        """The job as a JSON-able document for the ledger: absolute paths, references unresolved, so no secret in it."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_pinned(cls, document: Mapping[str, Any], *, env: Mapping[str, str] = os.environ) -> Job:
        """The inverse of `pinned()`; references are resolved anew. Raises ConfigurationError."""
        from etl.config.load import job_from_document

        return job_from_document(document, env=env)

    def take_secrets(self, *, kafka: SecretProperties, spark: SecretProperties, segments: SecretProperties) -> None:
        """For loading alone: the values that the references stood for when the file was read."""
        self._secrets.update(kafka=kafka, spark=spark, segments=segments)

    def _resolved(self, section: str, properties: Mapping[str, str]) -> SecretProperties:
        if section not in self._secrets:
            values = {key: resolve(text, env=os.environ, folder=Path("/")) for key, text in properties.items()}
            hidden = frozenset(key for key, text in properties.items() if has_reference(text))
            self._secrets[section] = SecretProperties(values, hidden)
        return self._secrets[section]

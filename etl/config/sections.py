"""The job file's sections as values: frozen, strict, with the file's own names. `job.py` puts them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, GetJsonSchemaHandler, Tag
from pydantic.json_schema import JsonSchemaValue

from kseg.client.protocol.topic_names import is_topic_name
from kseg.etl.config.at_most import AtMost
from kseg.etl.config.continuation import AsPlanned, AtContinuation
from kseg.etl.config.dead_letters import DeadLetters
from kseg.etl.config.marks import DecidesRows, DecidesRowsIfGiven, HashedUnordered, NotHashed
from kseg.etl.config.partitioning import DerivedPartition, Partitioning, names_of
from kseg.etl.config.paths import TOPIC_PLACEHOLDER, location
from kseg.etl.config.remote import ConnectUrl
from kseg.etl.config.routing import BY_TOPIC, RouteBy, RouteByText, Routed, RouteKeys, parse_route_by
from kseg.etl.config.values import (
    ANY_TEXT,
    Columns,
    Duration,
    Function,
    Instant,
    Locations,
    Offset,
    PartitionKey,
    Partitions,
    PathTemplate,
    Section,
    SomeColumns,
    Sql,
    TablePath,
    TableTemplate,
    Text,
    Topic,
    TopicPattern,
    Topics,
    at_least,
    exactly_one,
    fault,
    not_empty_map,
    one_key_a_partition,
)
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT, MAX_BATCH_BYTES
from kseg.segment_reader.log.files.storage import PLAIN
from kseg.segment_reader.log.layouts import layout_names

CATCH_ALL = "*"


class AtTime(Section):
    """Offsets by time: of each partition, the first record at or after it."""

    timestamp: DecidesRows[Instant]


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
        return "<bound>"
    by_time = "timestamp" in value and not isinstance(value["timestamp"], Mapping)
    return "<time>" if by_time else "<offsets>"


def _offsets_shape(value: Any) -> Any:
    if not isinstance(value, str | Mapping | AtTime):
        raise fault(
            "is not a valid start or end", "earliest, latest, committed, {topic: {partition: offset}} or {timestamp: …}"
        )
    return value


OffsetSpec = Annotated[
    Annotated[Literal["earliest", "latest", "committed"], Tag("<bound>")]
    | Annotated[AtTime, Tag("<time>")]
    | Annotated[TopicOffsets, Tag("<offsets>")],
    Discriminator(_offsets_form),
    BeforeValidator(_offsets_shape),
]
"""A name, an `AtTime`, or `{topic: {partition: offset}}`."""

EndSpec = Annotated[
    Annotated[Literal["earliest", "latest", "committed", "log_end", "high_watermark", "last_stable"], Tag("<bound>")]
    | Annotated[AtTime, Tag("<time>")]
    | Annotated[TopicOffsets, Tag("<offsets>")],
    Discriminator(_offsets_form),
    BeforeValidator(_offsets_shape),
]
"""The same for an end, which has names of its own."""


def _layout(name: str) -> str:
    if name not in layout_names():
        raise fault(f"{name!r} is not a layout", f"one of {', '.join(layout_names())}")
    return name


class Segments(Section):
    """Log files in place of brokers: folders of `log.dirs` or copies of them.

    layout: the layout of the logs; `options`: of the store and of the layout, with references.
    """

    paths: Locations
    layout: Annotated[str, AfterValidator(_layout)] = PLAIN
    options: dict[str, str] | None = None

    @classmethod
    def named(cls, words: Sequence[str], option: str = "--segments") -> Segments:
        """The section for words of a command line, whose relative paths start in the working folder.

        Raises ConfigurationError.
        """
        try:
            return cls(paths=tuple(dict.fromkeys(location(word, Path.cwd()) for word in words)))
        except ValueError as error:
            raise ConfigurationError.of(option, str(error), "a folder of log.dirs: a path, or a URL") from None


class _SegmentsForms:
    """The forms of `segments` in the JSON Schema."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        text = {"type": "string", "pattern": ANY_TEXT}
        return {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}, handler(core)]}


def _segments_shape(value: Any) -> Any:
    if isinstance(value, str):
        return {"paths": [value]}
    if isinstance(value, list | tuple):
        return {"paths": value}
    if not isinstance(value, Mapping | Segments):
        raise fault("is not a location", "a path or URL, a list of them, or {paths: […], layout: …}")
    return value


class Source(Section):
    """Which records: exactly one of topics, pattern and assign is set."""

    model_config = exactly_one("topics", "pattern", "assign")

    topics: HashedUnordered[Topics | None] = None
    pattern: DecidesRows[TopicPattern | None] = None
    # The order of partitions means nothing, and is part of the hash: without it, jobs would get another hash.
    assign: DecidesRows[Annotated[dict[Topic, Partitions], BeforeValidator(not_empty_map)] | None] = None
    # Of the incremental chain, today's: its files are the job's log (`etl.operations.as_planned`).
    segments: NotHashed[AsPlanned[Annotated[Segments, BeforeValidator(_segments_shape), _SegmentsForms()] | None]] = (
        None
    )
    isolation_level: DecidesRows[Literal["read_committed", "read_uncommitted"]] = "read_committed"
    starting_offsets: DecidesRows[OffsetSpec] = "earliest"
    ending_offsets: DecidesRows[EndSpec] = "latest"
    max_records_per_task: NotHashed[AtContinuation[Annotated[int, Field(ge=1, le=2**63 - 1)]]] = 1_000_000
    max_batch_bytes: NotHashed[AtContinuation[Annotated[int, Field(ge=1 << 20, le=MAX_BATCH_BYTES)]]] = DEFAULT_LIMIT
    on_data_loss: NotHashed[AtContinuation[Literal["fail", "record"]]] = "fail"
    on_gap: NotHashed[AtContinuation[Literal["fail", "record"]]] = "fail"
    on_corruption: NotHashed[AsPlanned[Literal["fail", "quarantine"]]] = "fail"
    untimed: NotHashed[AsPlanned[Literal["refuse", "include"]]] = "refuse"
    provenance: DecidesRows[bool] = False
    header_names: DecidesRowsIfGiven[Literal["replace", "refuse"]] = "replace"

    @property
    def named_topics(self) -> tuple[str, ...] | None:
        """The topics that the file names; None where a pattern finds them."""
        return tuple(self.assign) if self.assign is not None else self.topics


class ArrowSection(Section):
    """pa.RecordBatch -> pa.RecordBatch, in the worker."""

    arrow: DecidesRows[Function]


class DuckdbSection(Section):
    """DuckDB's SQL over each batch, which is called `__rows__`, in the worker."""

    duckdb: DecidesRows[Sql]


class SqlSection(Section):
    """SQL over `__rows__`."""

    sql: DecidesRows[Sql]


class PythonSection(Section):
    """DataFrame -> DataFrame."""

    python: DecidesRows[Function]


STEP_KINDS = ("arrow", "duckdb", "sql", "python")
BATCH_KINDS = ("arrow", "duckdb")
"""Those that run in the workers, on batches; the others are steps on the DataFrame."""


def _step_kind(value: Any) -> str | None:
    if isinstance(value, BaseModel):
        value = dict(value)
    return next((f"<{kind}>" for kind in STEP_KINDS if kind in value), None)


def _step_shape(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value
    kinds = [kind for kind in STEP_KINDS if kind in value] if isinstance(value, Mapping) else []
    if len(kinds) != 1:
        problem = "is not a step" if not kinds else f"has more than one key: {' and '.join(kinds)}"
        raise fault(
            problem, 'a step is one of arrow: "module:function", duckdb: "…", sql: "…", python: "module:function"'
        )
    return value


AnyStep = Annotated[
    Annotated[ArrowSection, Tag("<arrow>")]
    | Annotated[DuckdbSection, Tag("<duckdb>")]
    | Annotated[SqlSection, Tag("<sql>")]
    | Annotated[PythonSection, Tag("<python>")],
    Discriminator(_step_kind),
    BeforeValidator(_step_shape),
]


class TargetName(NamedTuple):
    """One table: by its absolute path (or URL), or by its name in a catalog."""

    path: str | None
    table: str | None

    def __str__(self) -> str:
        return self.path or self.table or ""

    def of(self, topic: str) -> TargetName:
        """The table that a topic's rows land in, `{topic}` filled in. Raises ConfigurationError."""
        if not is_topic_name(topic):  # a path could lead out of the lake
            raise ConfigurationError.of("sink", f"{topic[:300]!a} is not a topic name", "use Kafka's names")
        return TargetName(*(text and text.replace(TOPIC_PLACEHOLDER, topic) for text in self))


class Route(Section):
    """Where one topic's rows land: exactly one of path and table is set.

    columns: of the rows' columns, those that the table gets; None: all.
    """

    model_config = exactly_one("path", "table")

    path: DecidesRows[PathTemplate | None] = None
    table: DecidesRows[TableTemplate | None] = None
    columns: DecidesRowsIfGiven[SomeColumns | None] = None

    @property
    def target(self) -> TargetName:
        return TargetName(self.path, self.table)


class QuarantineTable(Section):
    """Where the bytes of what cannot be read land."""

    path: TablePath


class Sink(Section):
    """Where rows land: exactly one of path, table and routes is set.

    routes: by what `route_by` names: a topic, or a value; `*` for all others.
    """

    model_config = exactly_one("path", "table", "routes")

    path: DecidesRows[PathTemplate | None] = None
    table: DecidesRows[TableTemplate | None] = None
    route_by: DecidesRowsIfGiven[RouteByText] = BY_TOPIC
    routes: DecidesRows[Annotated[dict[Routed, Route], RouteKeys] | None] = None
    partition_by: DecidesRows[Partitioning] = ()
    cluster_by: DecidesRows[Columns] = ()
    merge_schema: DecidesRows[bool] = False
    widen: NotHashed[AsPlanned[bool]] = False
    single_driver: NotHashed[AtContinuation[bool]] = False
    addresses: DecidesRows[bool] = True
    quarantine: NotHashed[AsPlanned[QuarantineTable | None]] = None
    dead_letters: NotHashed[DeadLetters | None] = None

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns."""
        return names_of(self.partition_by)

    @property
    def derived_partitions(self) -> dict[str, DerivedPartition]:
        """Those that are made of other columns, by their place in the job file."""
        derived = ((f"sink.partition_by[{at}]", one) for at, one in enumerate(self.partition_by))
        return {place: one for place, one in derived if isinstance(one, DerivedPartition)}

    @property
    def targets(self) -> dict[str, TargetName]:
        """Targets by route, `*` for all others; `{topic}` not filled in."""
        if self.routes is not None:
            return {topic: route.target for topic, route in self.routes.items()}
        return {CATCH_ALL: TargetName(self.path, self.table)}

    @property
    def dead_letters_path(self) -> str | None:
        """The path that is given, else one beside the one table; None for several tables, or names in a catalog."""
        if self.dead_letters is not None and self.dead_letters.path is not None:
            return self.dead_letters.path
        if self.path is None or TOPIC_PLACEHOLDER in self.path:
            return None
        return f"{self.path.rstrip('/')}_dead_letters"

    @property
    def most_dead_letters(self) -> AtMost:
        return (self.dead_letters or DeadLetters()).at_most

    @property
    def routing(self) -> RouteBy | None:
        """What decides into which table a record's row lands; None where its topic does."""
        return None if self.route_by == BY_TOPIC else parse_route_by(self.route_by)

    @property
    def routed_by_headers(self) -> bool:
        """Whether a header of a record decides, or may name the schema that does."""
        return self.routing is not None and self.routing.kind in ("header", "schema")

    @property
    def routed(self) -> bool:
        """Whether something else of a record than its topic decides into which table its row lands."""
        return self.route_by != BY_TOPIC

    @cached_property
    def routes_to(self) -> Mapping[str, Sequence[str]]:
        """The routes that lead to each table, in the order of the file; `{topic}` is not filled in."""
        found: dict[str, list[str]] = {}  # made once: of thousands of tables each one asks for its own
        for route, target in self.targets.items():
            found.setdefault(str(target), []).append(route)
        return found

    def columns_of(self, table: str) -> tuple[str, tuple[str, ...]] | None:
        """The columns that a route names for its table, and the route; None: the table gets all of the rows'."""
        routes = self.routes if self.routes is not None and self.routed else {}
        named = ((route, routes[route].columns) for route in (self.routes_to.get(table, ()) if routes else ()))
        return next(((route, columns) for route, columns in named if columns is not None), None)

    def __copy__(self) -> Self:
        made = super().__copy__()
        made.__dict__.pop("routes_to", None)  # `model_copy` may give it other routes
        return made

    def tables_of(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The tables that rows of these topics may land in, each once. Raises ConfigurationError as `target`."""
        named = self.targets.values() if self.routed else (self.target(topic) for topic in topics)
        return tuple(dict.fromkeys(str(target) for target in named))

    def target(self, topic: str) -> TargetName:
        """The table that a topic's rows land in, of a sink that is not `routed`. Raises ConfigurationError where no
        route takes the topic."""
        named: Sink | Route | None = self
        if self.routes is not None:
            named = self.routes.get(topic) or self.routes.get(CATCH_ALL)
        if named is None:
            raise ConfigurationError.of(
                "sink.routes", f"there is no route for topic {topic}", 'add one, or a route "*" for all other topics'
            )
        target = TargetName(named.path, named.table)
        if target.table and TOPIC_PLACEHOLDER in target.table and not fits_table_name(topic):
            raise ConfigurationError.of(
                "sink", f"topic {topic} is not valid in the table name {target.table}", "give it its own route"
            )
        return target.of(topic)


def fits_table_name(topic: str) -> bool:
    """Whether a topic's name can be part of a table's name unchanged: a dot would make another schema of it."""
    return topic.replace("_", "a").isalnum()


class Run(Section):
    """lease: how long a run's lease lasts unless renewed; deadline: how long after its start it retries and waits.

    max_records, max_bytes: the most offsets, and the most estimated bytes, that one run of the incremental chain plans.
    engine: where a run's tasks work. local_below: estimated bytes below which `auto` takes the local executor.
    task_attempts: how often the local executor tries a task whose worker process ends.
    """

    lease: Annotated[Duration, at_least(timedelta(seconds=5))] = timedelta(minutes=2)
    deadline: Annotated[Duration, at_least(timedelta(seconds=1))] = timedelta(hours=1)
    max_records: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    max_bytes: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    engine: Literal["spark", "auto", "local"] = "spark"
    local_below: Annotated[int, Field(ge=1, le=2**63 - 1)] = 64_000_000
    task_attempts: Annotated[int, Field(ge=1, le=100)] = 4

    @property
    def is_capped(self) -> bool:
        return self.max_records is not None or self.max_bytes is not None


class Spark(Section):
    """The session. `conf` keeps its references: take `Job.spark_conf()` for a session.

    remote: a Connect server, in place of a Spark of our own.
    executor_secrets: whether tasks carry the values of secrets, or executors resolve the job file's references.
    """

    master: Text = "local[*]"
    remote: ConnectUrl | None = None
    conf: dict[str, str] = Field(default_factory=dict)
    executor_secrets: Literal["carried", "resolved"] = "carried"

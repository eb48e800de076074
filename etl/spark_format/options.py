"""The options of `spark.read.format("kseg")`: those of Spark's own Kafka source, with its defaults and its errors.

Names are case-insensitive. `kafka.` is the prefix of properties of the Java consumer. Options of Spark's source for
streaming (`etl.spark_format.stream_options`), and properties that only tune the Java consumer, are accepted and
ignored, so that only the format's name changes in a query.
Source: https://spark.apache.org/docs/4.2.0/streaming/structured-streaming-kafka-integration.html

In addition to Spark's options:

startingOffsets     "committed": the offsets that the group in `kafka.group.id` has committed; a partition without one
                    starts at the earliest offset
path                instead of `kafka.bootstrap.servers`: folders of `log.dirs`, or copies of them, which are read
                    without a broker. Without `subscribe`, `subscribePattern` and `assign`, all topics are read
layout, layout.…    with `path`: the layout of a tiered storage plug-in's files ("aiven", "copies", or your own), and
                    its options
storage.…           with `path`: an object store's credentials and endpoint (`segment_reader.log.files.object_stores`)
untimed             with `path`: "include" adds records of message format 0, which have no timestamp, to ranges by time;
                    otherwise such a range is an error
includeProvenance   "true" adds fields of the batch headers, and the batch's file and position
key.…, value.…      typed columns: `etl.spark_format.decode_options`
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kseg.client.config import ClientConfig
from kseg.client.errors import ConfigError
from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.source.origin import LogFiles, Untimed
from kseg.etl.source.resolve import EARLIEST_OFFSET, LATEST_OFFSET, AtOffsets, AtTime, OffsetSpec
from kseg.etl.spark_format.decode_options import decode_step_of_options
from kseg.segment_reader.log.files.storage import LAYOUT_OPTION, PLAIN
from kseg.segment_reader.log.layouts import layout_names

if TYPE_CHECKING:
    from kseg.etl.transform.decode import DecodeStep

PREFIX = "kafka."
STORAGE = "storage."
CLIENT_ID = "kseg-reader"

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE = '{"topicA":{"0":1767225600000}}'

_NOT_SUPPORTED = {
    "auto.offset.reset": "set startingOffsets instead",
    "key.deserializer": "keys are read as bytes; decode them with DataFrame operations",
    "value.deserializer": "values are read as bytes; decode them with DataFrame operations",
    "enable.auto.commit": "a read commits nothing",
    "interceptor.classes": "interceptors could change records",
}

# Properties that tune the Java consumer, its group membership or its metrics: they do not change rows.
_WITHOUT_MEANING = frozenset(
    [
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ]
)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options of one `load()`."""

    origin: ClientConfig | LogFiles
    topics: tuple[str, ...] | None
    pattern: str | None
    assign: Mapping[str, tuple[int, ...]] | None
    start: OffsetSpec
    end: OffsetSpec
    isolation_level: IsolationLevel
    group: str | None
    include_headers: bool
    include_provenance: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    check_crcs: bool
    decode: DecodeStep | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Options of a batch read, as a user gave them. Raises ConfigurationError with every fault at once."""
        return OptionParser(options).parse()

    def selects(self, tp: TopicPartition) -> bool:
        """Whether the options select the partition, if it exists."""
        if self.assign is not None:
            return tp.partition in self.assign.get(tp.topic, ())
        if self.topics is not None:
            return tp.topic in self.topics
        return re.search(self.pattern or "", tp.topic) is not None


class OptionParser:
    """Parses options and collects all faults. streaming: by default a query starts at the latest offset; no end."""

    def __init__(self, options: Mapping[str, str], *, streaming: bool = False) -> None:
        self._options = {key.lower(): value for key, value in options.items()}
        self._faults: list[Diagnostic] = []
        self._streaming = streaming

    def parse(self) -> ReadOptions:
        """Raises ConfigurationError with every fault at once."""
        topics, pattern, assign = self._strategy()
        start = self._offsets("starting", "latest" if self._streaming else "earliest")
        end: OffsetSpec = "latest" if self._streaming else self._offsets("ending", "latest")
        self._check_edges(start, end)
        properties = self._properties()
        group = properties.pop("group.id", None)
        if start == "committed" and not group:
            self._fault("startingOffsets", '"committed" needs a group', "set kafka.group.id")
        isolation = properties.pop("isolation.level", "read_uncommitted").lower()
        if isolation not in ("read_committed", "read_uncommitted"):
            self._fault("kafka.isolation.level", f"{isolation!r} is not a level", "read_committed or read_uncommitted")
        check_crcs = self._truth("kafka.check.crcs", properties.pop("check.crcs", "true"))
        origin = self._files(properties) if "path" in self._options else self._config(properties)
        include_headers = self._truth("includeHeaders", self._get("includeHeaders", "false"))
        include_provenance = self._truth("includeProvenance", self._get("includeProvenance", "false"))
        fail_on_data_loss = self._truth("failOnDataLoss", self._get("failOnDataLoss", "true"))
        min_partitions = self._positive("minPartitions")
        max_records = self._positive("maxRecordsPerPartition")
        decode = self._decode(topics or (tuple(assign) if assign else None), include_headers=include_headers)
        if self._faults or origin is None:
            raise ConfigurationError(self._faults)
        return ReadOptions(
            origin=origin,
            topics=topics,
            pattern=pattern,
            assign=assign,
            start=start,
            end=end,
            isolation_level="read_committed" if isolation == "read_committed" else "read_uncommitted",
            group=group,
            include_headers=include_headers,
            include_provenance=include_provenance,
            fail_on_data_loss=fail_on_data_loss,
            min_partitions=min_partitions,
            max_records_per_partition=max_records,
            check_crcs=check_crcs,
            decode=decode,
        )

    def _fault(self, name: str, message: str, remedy: str | None = None) -> None:
        self._faults.append(Diagnostic(name, message, remedy))

    def _get(self, name: str, default: str) -> str:
        return str(self._options.get(name.lower(), default))

    def _truth(self, name: str, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            self._fault(name, f"{text!r} is neither true nor false")
        return text.lower() == "true"

    def _positive(self, name: str) -> int | None:
        text = self._options.get(name.lower())
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?\d+", text) or int(text) <= 0:
            self._fault(name, "must be a positive whole number")
            return None
        return int(text)

    def _decode(self, topics: tuple[str, ...] | None, *, include_headers: bool) -> DecodeStep | None:
        try:
            step = decode_step_of_options(self._options, topics)
        except ConfigurationError as error:
            self._faults += error.faults
            return None
        if step is not None and include_headers and "headers" not in step.keep:
            return replace(step, keep=(*step.keep, "headers"))
        return step

    # -- which partitions

    def _strategy(self) -> tuple[tuple[str, ...] | None, str | None, Mapping[str, tuple[int, ...]] | None]:
        given = [name for name in _STRATEGIES if name.lower() in self._options]
        if not given and "path" in self._options:
            return None, None, None  # all topics
        if len(given) != 1:
            which = "only one" if given else "one"
            self._fault("", f"exactly {which} of {', '.join(_STRATEGIES)} must be given", "set which topics to read")
            return None, None, None
        text = self._get(given[0], "").strip()
        if given[0] == "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not topics:
                self._fault("subscribe", "does not name a topic")
            return topics, None, None
        if given[0] == "subscribePattern":
            self._check_pattern(text)
            return None, text, None
        return None, None, self._assignment(text)

    def _check_pattern(self, text: str) -> None:
        try:
            re.compile(text)
        except re.error as error:
            self._fault("subscribePattern", f"is not a regular expression: {error}")
        if not text:
            self._fault("subscribePattern", "is empty")

    def _assignment(self, text: str) -> Mapping[str, tuple[int, ...]] | None:
        found = self._json("assign", text, '{"topicA":[0,1],"topicB":[2,4]}')
        result = {}
        for topic, numbers in found.items():
            if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
                self._fault("assign", f"{topic}: {numbers!r} is not a list of partitions")
                continue
            result[topic] = tuple(sorted(set(numbers)))
        if not any(result.values()) and not self._faults:
            self._fault("assign", "does not name a partition")
        return result

    # -- where to start and to end

    def _offsets(self, side: Literal["starting", "ending"], default: OffsetSpec) -> OffsetSpec:
        """The first of these that is given, in Spark's order: one time for all, a time for each partition, offsets."""
        otherwise: Literal["latest", "error"] = "latest"
        strategy = self._get("startingOffsetsByTimestampStrategy", "error").lower()
        if strategy not in ("error", "latest"):
            if side == "starting":
                self._fault("startingOffsetsByTimestampStrategy", f"{strategy!r} is not a strategy", "error or latest")
        elif side == "starting" and strategy == "error":
            otherwise = "error"
        name = f"{side}Timestamp"
        if name.lower() in self._options:
            text = self._get(name, "").strip()
            if not re.fullmatch(r"[+-]?\d+", text):
                self._fault(name, f"{text!r} is not a number", "milliseconds since 1970")
                return default
            return AtTime(int(text), otherwise)
        name = f"{side}OffsetsByTimestamp"
        if name.lower() in self._options:
            return AtTime(self._by_partition(name, _TIMES_EXAMPLE), otherwise)
        name = f"{side}Offsets"
        text = self._get(name, str(default)).strip()
        word = text.lower()
        if not self._streaming and word == ("latest" if side == "starting" else "earliest"):
            self._fault(name, f"{side} offsets can't be {word} in a batch read", "there would be nothing to read")
            return default
        if word in ("earliest", "latest"):
            return "earliest" if word == "earliest" else "latest"
        if word == "committed" and side == "starting":
            return "committed"
        return AtOffsets(self._by_partition(name, _OFFSETS_EXAMPLE))

    def _by_partition(self, name: str, example: str) -> dict[TopicPartition, int]:
        found = self._json(name, self._get(name, "").strip(), example)
        result = {}
        for topic, entries in found.items():
            if not isinstance(entries, dict):
                self._fault(name, f"{topic}: {entries!r} is not a map of partitions", f"as in {example}")
                continue
            for partition, number in entries.items():
                if not re.fullmatch(r"\d+", partition) or type(number) is not int:
                    self._fault(name, f"{topic}: {partition!r}: {number!r} is not an entry", f"as in {example}")
                else:
                    result[TopicPartition(topic, int(partition))] = number
        return result

    def _check_edges(self, start: OffsetSpec, end: OffsetSpec) -> None:
        for name, spec, edge, word in (
            ("startingOffsets", start, LATEST_OFFSET, "latest"),
            ("endingOffsets", end, EARLIEST_OFFSET, "earliest"),
        ):
            for partition, offset in spec.offsets.items() if isinstance(spec, AtOffsets) else ():
                if offset == edge and not self._streaming:
                    self._fault(name, f"{partition} can't be {word} ({edge}) in a batch read")
                elif offset < EARLIEST_OFFSET:
                    self._fault(name, f"{partition}: {offset} is not an offset", "-2 is earliest, -1 latest")
        if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
            self._check_order("startingOffsets", "endingOffsets", start.offsets, end.offsets)
        elif isinstance(start, AtTime) and isinstance(end, AtTime):
            if isinstance(start.millis, Mapping) and isinstance(end.millis, Mapping):
                names = "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"
                self._check_order(*names, start.millis, end.millis)
            elif isinstance(start.millis, int) and isinstance(end.millis, int) and start.millis > end.millis:
                self._fault("endingTimestamp", f"{end.millis} is before startingTimestamp {start.millis}")

    def _check_order(
        self, starting: str, ending: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        for partition in sorted(starts.keys() ^ ends.keys()):
            which = ending if partition in starts else starting
            self._fault(which, f"does not name {partition}", "name the same partitions on both sides")
        for partition in sorted(starts.keys() & ends.keys()):
            if 0 <= ends[partition] < starts[partition]:
                self._fault(ending, f"{partition} ends at {ends[partition]} and starts at {starts[partition]}")

    def _json(self, name: str, text: str, example: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self._fault(name, f"cannot be read: {text!r}", f"expected e.g. {example}")
            return {}
        return found

    # -- the connection

    def _properties(self) -> dict[str, str]:
        properties = {k[len(PREFIX) :]: str(v) for k, v in self._options.items() if k.startswith(PREFIX)}
        for name in sorted(properties.keys() & _NOT_SUPPORTED.keys()):
            self._fault(PREFIX + name, "is not supported", _NOT_SUPPORTED[name])
        drop: Collection[str] = _WITHOUT_MEANING | _NOT_SUPPORTED.keys()
        return {key: value for key, value in properties.items() if key not in drop}

    def _files(self, properties: Mapping[str, str]) -> LogFiles | None:
        for name in sorted(properties):
            self._fault(PREFIX + name, "is not supported for files", "leave it out, or leave out path")
        log_dirs = tuple(part.strip() for part in self._get("path", "").split(",") if part.strip())
        if not log_dirs:
            self._fault("path", "does not name a folder", "a folder of log.dirs; several separated by commas")
        options = {
            name.removeprefix(STORAGE): str(value)
            for name, value in self._options.items()
            if name.startswith((STORAGE, LAYOUT_OPTION))
        }
        layout = self._get("layout", PLAIN)
        if layout not in layout_names():
            self._fault("layout", f"{layout!r} is not a layout", f"one of {', '.join(layout_names())}")
        untimed = self._get("untimed", "refuse").lower()
        if untimed not in ("refuse", "include"):
            self._fault("untimed", f"{untimed!r} is neither refuse nor include")
        include: Untimed = "include" if untimed == "include" else "refuse"
        return LogFiles(log_dirs, layout, tuple(sorted(options.items())), untimed=include)

    def _config(self, properties: Mapping[str, str]) -> ClientConfig | None:
        try:
            return ClientConfig.from_properties(properties, client_id=CLIENT_ID)
        except ConfigError as error:
            for fault in error.faults:
                self._fault(PREFIX + fault.key, fault.message, fault.remedy)
            return None

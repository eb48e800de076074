"""A job file as far as it is sound, which the rules look at (`etl.config.rules`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kseg.client.protocol.suggestion import did_you_mean
from kseg.client.protocol.topic_names import is_topic_name
from kseg.etl.config.document import PathKey
from kseg.etl.config.paths import TOPIC_PLACEHOLDER
from kseg.etl.config.sections import CATCH_ALL, Sink, Source, TargetName


@dataclass(frozen=True, slots=True)
class View:
    """A job file as far as it is sound. `raw`: as written, references outside of properties filled in."""

    raw: Mapping[str, Any]
    faulty: frozenset[PathKey]
    source: Source
    sink: Sink
    ledger: str | None
    spark_conf: Mapping[str, str]

    def given(self, *path: str) -> bool:
        """Whether the file has a value there."""
        value: Any = self.raw
        for part in path:
            if not isinstance(value, Mapping) or value.get(part) is None:
                return False
            value = value[part]
        return True

    def sound(self, *path: str | int) -> bool:
        """Whether no fault was found there, above it or below it."""
        return not any(fault[: len(path)] == path or path[: len(fault)] == fault for fault in self.faulty)


def reads(view: View, topic: str) -> bool:
    """Whether the source may read this topic. True where that is not known because the source is faulty."""
    source = view.source
    if not view.sound("source", "topics") or not view.sound("source", "pattern") or not view.sound("source", "assign"):
        return True
    if source.pattern is not None:
        return re.search(source.pattern, topic) is not None
    return source.named_topics is None or topic in source.named_topics


def nearest(topic: str, view: View) -> str:
    topics = view.source.named_topics
    if topics is None:
        return f"the pattern is {view.source.pattern}"
    return did_you_mean(topic, topics) or f"the source reads {', '.join(topics)}"


def sound_targets(view: View) -> list[tuple[str, TargetName]]:
    sink = view.sink
    if sink.routes is not None:
        return [(topic, route.target) for topic, route in sink.routes.items() if view.sound("sink", "routes", topic)]
    return [(CATCH_ALL, TargetName(sink.path, sink.table))] if sink.path or sink.table else []


def place_of(view: View, route: str, key: str) -> PathKey:
    return ("sink", "routes", route, key) if view.sink.routes is not None else ("sink", key)


def topics_of_route(view: View, route: str) -> tuple[str, ...]:
    """The topics known to take this route."""
    if view.sink.routed or not (route == CATCH_ALL or is_topic_name(route)):
        return ()
    if route != CATCH_ALL:
        return (route,)
    own = view.sink.routes or {}
    return tuple(topic for topic in view.source.named_topics or () if topic not in own)


def target_paths(view: View, route: str, target: TargetName) -> list[str]:
    """The folders this route leads to; the template itself where the topics are not known yet."""
    if target.path is None:
        return []
    if TOPIC_PLACEHOLDER not in target.path:
        return [target.path]
    known = [target.of(topic).path or "" for topic in topics_of_route(view, route)]
    return known or ([] if view.source.named_topics is not None else [target.path])

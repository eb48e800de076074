"""What must hold between the keys of a job file. Every rule runs on whatever is sound, so that all faults come at once.

A rule sees a `View`: each section parsed as far as it goes (a faulty key has its default there, and `sound` is False
for it). A rule that rests on a faulty key says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kseg.client.protocol.suggestion import did_you_mean
from kseg.etl.catalogs.registry import catalog_of
from kseg.etl.config.decoding import decodes_by_topic
from kseg.etl.config.document import PathKey
from kseg.etl.config.faults import Finding
from kseg.etl.config.partitioning import DerivedPartition
from kseg.etl.config.paths import TOPIC_PLACEHOLDER, lies_within, nearest_above, scheme_of, topic_that_leads_to
from kseg.etl.config.rules_routes import (
    columns_are_of_routed_rows,
    messages_have_tables,
    routed_rows_have_tables,
    routes_are_by_decoded_fields,
    routes_take_every_topic,
)
from kseg.etl.config.rules_side_tables import (
    corruption_has_its_table,
    dead_letters_have_their_table,
    tables_beside_stand_apart,
)
from kseg.etl.config.sections import BATCH_KINDS, CATCH_ALL, STEP_KINDS, AtTime, fits_table_name
from kseg.etl.config.times import format_instant
from kseg.etl.config.view import View, nearest, place_of, reads, sound_targets, target_paths, topics_of_route
from kseg.etl.places import one_scheme

ROW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PROVENANCE_COLUMNS = (
    "leaderEpoch",
    "producerId",
    "producerEpoch",
    "sequence",
    "transactional",
    "batchBaseOffset",
    "file",
    "position",
)
LATE_COLUMN = "_kseg_late"
RUN_COLUMN = "_kseg_run"
# What times, and what buckets may be made of where rows are Kafka's records.
_DERIVED_OF = (
    (("timestamp",), "a timestamp"),
    (("key", "value", "topic", "partition", "offset"), "an integer, string or binary"),
)
# Of Kafka's records, the columns that Delta does not cluster by.
_NOT_CLUSTERING = {"key": "binary", "value": "binary", "transactional": "true or false"}
_MAX_CLUSTER_COLUMNS = 4  # Delta's limit for liquid clustering

# Stores where Spark's own commit does not exclude a second driver, unless a log store is configured that does.
_NOT_PUT_IF_ABSENT = ("file", "s3", "s3a", "s3n")


Rule = Callable[[View], Iterator[Finding]]


def all_rules(view: View) -> Iterator[Finding]:
    for rule in RULES:
        yield from rule(view)


def one_source(view: View) -> Iterator[Finding]:
    yield from _exactly_one(view, ("source",), ("topics", "pattern", "assign"), "which topics to read")


def one_sink(view: View) -> Iterator[Finding]:
    yield from _exactly_one(view, ("sink",), ("path", "table", "routes"), "where rows land")
    routes = view.raw["sink"].get("routes") if isinstance(view.raw.get("sink"), Mapping) else None
    if isinstance(routes, Mapping):
        for topic, route in routes.items():
            if isinstance(route, Mapping):
                yield from _exactly_one(
                    view, ("sink", "routes", str(topic)), ("path", "table"), "where rows land", route
                )


def committed_needs_a_group(view: View) -> Iterator[Finding]:
    for key in ("starting_offsets", "ending_offsets"):
        if getattr(view.source, key) == "committed" and view.sound("source", key) and not view.given("group"):
            yield Finding(("source", key), "committed needs a group", "add `group:`, or start at earliest or latest")


def records_come_from_somewhere(view: View) -> Iterator[Finding]:
    if not view.given("kafka") and not (view.given("source", "segments") or not view.sound("source", "segments")):
        yield Finding(
            ("kafka",), "is missing", "add `kafka: {bootstrap.servers: host:9092}`, or log files in `source.segments`"
        )


def what_brokers_alone_do(view: View) -> Iterator[Finding]:
    """Groups live at brokers: a job of files alone has nowhere to commit offsets."""
    how = view.raw.get("group_commit")
    if how in ("transactional", "plain") and not view.given("kafka") and view.given("source", "segments"):
        yield Finding(
            ("group_commit",),
            f"{how} needs brokers, and the job reads only files",
            "write `group_commit: none`, or add `kafka:` to commit the group's offsets there",
        )


def what_files_alone_tell(view: View) -> Iterator[Finding]:
    if view.source.ending_offsets == "log_end" and not view.given("source", "segments"):
        yield Finding(
            ("source", "ending_offsets"),
            "log_end is only supported for files: brokers serve no records above the high watermark",
            "write latest, or name files in `source.segments`",
        )


def committing_needs_a_group(view: View) -> Iterator[Finding]:
    how = view.raw.get("group_commit")
    if how in ("transactional", "plain") and not view.given("group"):
        yield Finding(("group_commit",), f"{how} needs a group", "add `group:`, or write `group_commit: none`")


def offsets_name_what_is_read(view: View) -> Iterator[Finding]:
    """A typo in a topic's name would otherwise leave its partitions at another start."""
    for key in ("starting_offsets", "ending_offsets"):
        spec = getattr(view.source, key)
        if not isinstance(spec, dict) or not view.sound("source", key):
            continue
        for topic, offsets in spec.items():
            place = ("source", key, topic)
            if not reads(view, topic):
                yield Finding(place, "names a topic that the source does not read", nearest(topic, view))
            elif view.source.assign is not None:
                for partition in sorted(set(offsets) - set(view.source.assign[topic])):
                    yield Finding(
                        (*place, str(partition)), "names a partition that is not assigned", "add it to assign"
                    )


def start_comes_before_end(view: View) -> Iterator[Finding]:
    start, end = view.source.starting_offsets, view.source.ending_offsets
    if not (view.sound("source", "starting_offsets") and view.sound("source", "ending_offsets")):
        return
    place: PathKey = ("source", "ending_offsets")
    if isinstance(start, AtTime) and isinstance(end, AtTime) and end.timestamp < start.timestamp:
        yield Finding(
            (*place, "timestamp"),
            f"is before the start, {format_instant(start.timestamp)}",
            "the end must be after the start",
        )
    if isinstance(start, dict) and isinstance(end, dict):
        for topic, offsets in end.items():
            for partition, offset in offsets.items():
                first = start.get(topic, {}).get(partition)
                if first is not None and offset < first:
                    yield Finding(
                        (*place, topic, str(partition)),
                        f"{offset} is before the start, {first}",
                        "the end is exclusive",
                    )


def steps_on_batches_stand_first(view: View) -> Iterator[Finding]:
    """They run in the worker, before the rows become a DataFrame; none can run after."""
    steps = view.raw.get("transform")
    if not isinstance(steps, list | tuple):
        return
    frame = False
    for index, step in enumerate(steps):
        kinds = [kind for kind in STEP_KINDS if kind in step] if isinstance(step, Mapping) else []
        if len(kinds) != 1:
            continue
        if kinds[0] not in BATCH_KINDS:
            frame = True
        elif frame:
            yield Finding(
                ("transform", index, kinds[0]),
                f"{'an' if kinds[0] == 'arrow' else 'a'} {kinds[0]} step follows an sql or python step",
                f"{' and '.join(BATCH_KINDS)} steps run in the workers, before all others: move it up",
            )


def decode_takes_every_topic(view: View) -> Iterator[Finding]:
    section = view.raw.get("decode")
    if not isinstance(section, Mapping) or not view.sound("decode") or not decodes_by_topic(section):
        return
    if CATCH_ALL not in section and (missing := [t for t in view.source.named_topics or () if t not in section]):
        yield Finding(("decode",), f"says nothing of topic {', '.join(missing)}", 'add it, or "*" for all other topics')
    for topic in section:
        if topic != CATCH_ALL and not reads(view, topic):
            yield Finding(("decode", topic), "is a topic that the source does not read", nearest(topic, view))


def topics_fit_table_names(view: View) -> Iterator[Finding]:
    for route, target in sound_targets(view):
        if target.table and TOPIC_PLACEHOLDER in target.table:
            for topic in topics_of_route(view, route):
                if not fits_table_name(topic):
                    yield Finding(
                        place_of(view, route, "table"),
                        f"topic {topic} is not valid as part of a table name",
                        "use letters, digits and underscores, or give this topic its own route",
                    )


def ledger_stands_apart(view: View) -> Iterator[Finding]:
    """A ledger inside a table's folder would be vacuumed as that table's rubbish, and the other way round."""
    ledger = view.ledger
    if ledger is None or not view.sound("ledger"):
        return
    for route, target in sound_targets(view):
        for path in target_paths(view, route, target):
            if TOPIC_PLACEHOLDER in path:
                topic = topic_that_leads_to(path, ledger)
                if topic is not None and reads(view, topic):
                    path = path.replace(TOPIC_PLACEHOLDER, topic)
            if lies_within(ledger, path):
                yield Finding(("ledger",), f"is inside the table {path}", "give the ledger a folder of its own")
            elif lies_within(path, ledger):
                yield Finding(
                    place_of(view, route, "path"), "is inside the ledger", "give the table a folder of its own"
                )


def tables_do_not_nest(view: View) -> Iterator[Finding]:
    """A Delta table inside another's folder loses its files to the outer one's vacuum."""
    paths = [(route, path) for route, target in sound_targets(view) for path in target_paths(view, route, target)]
    tables = {one_scheme(path).rstrip("/"): path for _, path in paths}
    for route, inner in paths:
        outer = nearest_above(one_scheme(inner), tables)
        if outer is not None:
            yield Finding(
                place_of(view, route, "path"),
                f"is inside the table {outer}",
                "give each table a folder that is not inside another table",
            )


def tables_have_one_name(view: View) -> Iterator[Finding]:
    """Rows of a table's second name would count as landed with those of the first."""
    names: dict[str, str] = {}
    for route, target in sound_targets(view):
        for path in target_paths(view, route, target):
            other = names.setdefault(one_scheme(path).rstrip("/"), path)
            if other != path:
                yield Finding(place_of(view, route, "path"), f"is the table {other}", "give a table one name")


def layout_is_one_of_two(view: View) -> Iterator[Finding]:
    if view.sink.partition_by and view.sink.cluster_by:
        yield Finding(
            ("sink", "cluster_by"),
            "cannot be combined with partition_by",
            "a Delta table has either partitions or clustering",
        )
    if len(view.sink.cluster_by) > _MAX_CLUSTER_COLUMNS:
        yield Finding(
            ("sink", "cluster_by"), f"names more than {_MAX_CLUSTER_COLUMNS} columns", "Delta clusters by at most four"
        )


def layout_names_columns(view: View) -> Iterator[Finding]:
    """Without decoding and transform the rows' columns are known before anything runs."""
    if view.given("decode") or (view.given("transform") and view.raw["transform"]):
        return
    late = (LATE_COLUMN,) if "interval" in view.raw else ()
    columns = (*ROW_COLUMNS, *(PROVENANCE_COLUMNS if view.source.provenance else ()), *late, RUN_COLUMN)
    for key in ("partition_by", "cluster_by"):
        if not view.sound("sink", key):
            continue
        for index, named in enumerate(getattr(view.sink, key)):
            column = named if isinstance(named, str) else named.column
            if column not in columns:
                known = did_you_mean(column, columns) or f"the rows have {', '.join(columns)}"
                yield Finding(("sink", key, index), f"the rows have no column {column}", known)
            elif not isinstance(named, str):
                yield from _derived_of_records(("sink", key, index), named)
            elif column == "headers":
                yield Finding(
                    ("sink", key, index), "headers is a list", "choose a column that is not a list, map or struct"
                )
            elif key == "cluster_by" and column in _NOT_CLUSTERING:
                kind = _NOT_CLUSTERING[column]
                yield Finding(("sink", key, index), f"{column} is {kind}", "cluster by numbers, text, dates or times")


def _derived_of_records(place: PathKey, partition: DerivedPartition) -> Iterator[Finding]:
    takes, kinds = _DERIVED_OF[partition.function == "bucket"]
    if partition.column not in takes:
        remedy = f"use {', '.join(takes[:-1])} or {takes[-1]}" if len(takes) > 1 else f"use {takes[0]}"
        yield Finding(place, f"{partition.function} is made of {kinds}, and {partition.column} is none", remedy)


def decoded_rows_have_addresses(view: View) -> Iterator[Finding]:
    """A payload may have a field `offset` of its own: only Kafka's own columns are an address."""
    if view.given("decode") and not view.sink.addresses:
        yield Finding(("sink", "addresses"), "is false, and decoded rows have addresses", "remove it")


def spark_alone_decides_where_it_can(view: View) -> Iterator[Finding]:
    """Clustering needs Spark's writer, whose commit excludes a second driver only on some stores."""
    if not view.sink.cluster_by or view.sink.single_driver or not view.sound("sink", "single_driver"):
        return
    for _, target in sound_targets(view):
        scheme = scheme_of(target.path or "") if target.path else None
        if scheme in _NOT_PUT_IF_ABSENT and f"spark.delta.logStore.{scheme}.impl" not in view.spark_conf:
            yield Finding(
                ("sink", "cluster_by"),
                "needs Spark's own writer, and on this store Spark does not keep two drivers apart",
                "write `single_driver: true` if no other driver writes to the table, or remove cluster_by",
            )
            return


def local_tasks_need_no_spark(view: View) -> Iterator[Finding]:
    """A run would find it out when its plan is pinned already. What tables need by their state, only a run knows."""
    run = view.raw.get("run")
    if not isinstance(run, Mapping) or run.get("engine") != "local":
        return
    for reason in _needs_spark(view):
        yield Finding(
            ("run", "engine"), f"local cannot run this job: {reason}", "use `engine: auto`, or `engine: spark`"
        )
        return


def _needs_spark(view: View) -> Iterator[str]:
    steps = view.raw.get("transform")
    for index, step in enumerate(steps if isinstance(steps, list | tuple) else ()):
        for kind in STEP_KINDS:
            if kind not in BATCH_KINDS and isinstance(step, Mapping) and kind in step:
                yield f"transform[{index}].{kind} is a step that Spark runs"
    for key in ("cluster_by", "widen"):
        if view.sound("sink", key) and getattr(view.sink, key):
            yield f"sink.{key} needs Spark's writer"
    for _, target in sound_targets(view):
        if target.table is not None and catalog_of(target.table).commits == "spark":
            yield f"the table {target.table} of a catalog has to be written by Spark"
    if view.given("spark", "remote"):
        yield "the job runs on a Spark Connect server (spark.remote)"


RULES: tuple[Rule, ...] = (
    one_source,
    records_come_from_somewhere,
    what_brokers_alone_do,
    what_files_alone_tell,
    one_sink,
    committed_needs_a_group,
    committing_needs_a_group,
    offsets_name_what_is_read,
    start_comes_before_end,
    steps_on_batches_stand_first,
    routes_take_every_topic,
    routed_rows_have_tables,
    columns_are_of_routed_rows,
    routes_are_by_decoded_fields,
    messages_have_tables,
    decode_takes_every_topic,
    topics_fit_table_names,
    ledger_stands_apart,
    corruption_has_its_table,
    dead_letters_have_their_table,
    tables_beside_stand_apart,
    tables_do_not_nest,
    tables_have_one_name,
    layout_is_one_of_two,
    layout_names_columns,
    decoded_rows_have_addresses,
    spark_alone_decides_where_it_can,
    local_tasks_need_no_spark,
)


def _exactly_one(
    view: View, place: tuple[str, ...], keys: tuple[str, ...], what: str, holder: Mapping[str, Any] | None = None
) -> Iterator[Finding]:
    holder = holder if holder is not None else view.raw.get(place[0])
    if not isinstance(holder, Mapping):
        return
    given = [key for key in keys if holder.get(key) is not None]
    choice = f"{', '.join(keys[:-1])} and {keys[-1]}"
    if not given and not any(did_you_mean(str(key), keys) for key in holder):  # a typo is reported as one
        yield Finding(place, f"does not say {what}", f"give one of {choice}")
    for key in given[1:]:
        yield Finding((*place, key), f"cannot be combined with {given[0]}", f"give one of {choice}")

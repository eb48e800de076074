"""Rules for `sink.routes`: into which table a row lands, by its topic or by something else of its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kseg.client.protocol.topic_names import is_topic_name
from kseg.etl.catalogs.registry import catalog_of
from kseg.etl.config.decoding import decodes_by_topic
from kseg.etl.config.document import PathKey
from kseg.etl.config.faults import Finding
from kseg.etl.config.paths import TOPIC_PLACEHOLDER
from kseg.etl.config.routing import names_records
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.config.values import TOPIC_NAMES
from kseg.etl.config.view import View, nearest, reads
from kseg.etl.decoding.formats.registry import FORMATS


def routes_take_every_topic(view: View) -> Iterator[Finding]:
    routes = view.sink.routes
    if routes is None or not view.sound("sink", "routes") or not view.sound("sink", "route_by") or view.sink.routed:
        return
    if unnamed := [route for route in routes if route != CATCH_ALL and not is_topic_name(route)]:
        for route in unnamed:
            yield Finding(("sink", "routes", route), "the name is not a topic name", TOPIC_NAMES)
        return
    topics = view.source.named_topics
    if CATCH_ALL not in routes:
        if topics is None and view.source.pattern is not None:
            yield Finding(
                ("sink", "routes"),
                "a pattern may match topics that have no route",
                'add a route "*" for all other topics',
            )
        elif missing := [topic for topic in topics or () if topic not in routes]:
            yield Finding(
                ("sink", "routes"),
                f"there is no route for {', '.join(missing)}",
                'add one, or a route "*" for all other topics',
            )
    for topic in routes:
        if topic != CATCH_ALL and not reads(view, topic):
            yield Finding(
                ("sink", "routes", topic), "is a route for a topic that the source does not read", nearest(topic, view)
            )


def routed_rows_have_tables(view: View) -> Iterator[Finding]:
    """Rows that are routed by something else than their topic."""
    if not view.sound("sink", "route_by") or not view.sink.routed:
        return
    if view.sink.routes is None:
        if view.sound("sink"):
            yield Finding(
                ("sink", "route_by"),
                "has no routes",
                "add `sink: {routes: {…}}`, a table for each value",
            )
        return
    for route, section in view.sink.routes.items():
        if not view.sound("sink", "routes", route):
            continue
        place: PathKey = ("sink", "routes", route)
        if section.table is not None and catalog_of(section.table).commits == "spark":
            yield Finding(
                (*place, "table"),
                "is a table of a catalog, which Spark's own writer commits to: rows are routed by topic there",
                "give the table's path, or route by topic",
            )
        elif TOPIC_PLACEHOLDER in str(section.target):
            yield Finding(
                (*place, "path" if section.path is not None else "table"),
                f"has {TOPIC_PLACEHOLDER}, and rows are not routed by topic",
                "give each route one table; `_kseg_topic` or `topic` names the topic in its rows",
            )
    for key, remedy in (("cluster_by", "use partition_by"), ("widen", "remove it")):
        if getattr(view.sink, key):
            yield Finding(
                ("sink", key),
                "needs Spark's own writer, which does not route rows by anything but their topic",
                f"{remedy}, or route by topic",
            )


def columns_are_of_routed_rows(view: View) -> Iterator[Finding]:
    """`columns` of a route: of rows that something else than topics routes, and the same for one table."""
    if view.sink.routes is None or not view.sound("sink", "routes") or not view.sound("sink", "route_by"):
        return
    first: dict[str, tuple[str, tuple[str, ...] | None]] = {}
    for route, section in view.sink.routes.items():
        if not view.sound("sink", "routes", route):
            continue
        place: PathKey = ("sink", "routes", route, "columns")
        if not view.sink.routed:
            if section.columns is not None:
                yield Finding(
                    place,
                    "is for rows that are routed by something else than their topic",
                    "give each topic its own columns: `decode: {TOPIC: …}`",
                )
            continue
        other, columns = first.setdefault(str(section.target), (route, section.columns))
        if columns is None or section.columns is None:
            differs = columns is not section.columns
        else:
            differs = set(columns) != set(section.columns)
        if differs:
            yield Finding(
                place,
                f"differs from the columns of route {other}, which leads to the same table",
                "name the same columns for both, or give each route a table of its own",
            )


def routes_are_by_decoded_fields(view: View) -> Iterator[Finding]:
    """A field is one of a key or value that is decoded, of every topic."""
    by = view.sink.routing
    if not view.sound("sink", "route_by") or by is None or not by.of_payload or not view.sound("decode"):
        return
    decode = view.raw.get("decode")
    if not isinstance(decode, Mapping):
        yield Finding(
            ("sink", "route_by"),
            f"is a field of the {by.kind}, and nothing is decoded",
            f"add `decode: {{{by.kind}: …}}`, or route by header.NAME or schema",
        )
        return
    by_topic = decodes_by_topic(decode)
    sections = {("decode", topic): part for topic, part in decode.items()} if by_topic else {("decode",): decode}
    for place, part in sections.items():
        if isinstance(part, Mapping) and part.get(by.kind) is None:
            yield Finding(
                ("sink", "route_by"),
                f"is a field of the {by.kind}, which `{'.'.join(map(str, place))}` does not decode",
                f"add `{by.kind}:` there, or route by header.NAME or schema",
            )


def messages_have_tables(view: View) -> Iterator[Finding]:
    """Messages of several subjects: fields of Protobuf are columns by their number, so each message needs a table."""
    decode = view.raw.get("decode")
    if not isinstance(decode, Mapping) or not view.sound("decode") or not view.sound("sink"):
        return
    by_topic = decodes_by_topic(decode)
    sections: Mapping[PathKey, object] = (
        {("decode", topic): part for topic, part in decode.items()} if by_topic else {("decode",): decode}
    )
    several: list[PathKey] = []
    others: list[PathKey] = []
    for place, part in sections.items():
        value = part.get("value") if isinstance(part, Mapping) else None
        if isinstance(value, Mapping):
            messages = _has_messages(value.get("format")) and isinstance(value.get("subject"), list | tuple)
            (several if messages else others).append((*place, "value", "subject"))
    if several:
        yield from _against_messages(view, ".".join(map(str, several[0])), others)


def _has_messages(format: object) -> bool:
    """Whether a registry's schemas of the format have several messages."""
    known = FORMATS.get(format) if isinstance(format, str) else None
    return known is not None and known.indexed


def _against_messages(view: View, subject: str, others: list[PathKey]) -> Iterator[Finding]:
    """Why messages of the subjects that the job file has there have no columns."""
    routes, by = view.sink.routes or {}, view.sink.routing
    of_several = f"and `{subject}` has messages of several subjects, which have columns of their own"
    remedy = "set `sink.route_by: schema`, and a route and table for each message, named after it (`shop.Order`)"
    if by is None or by.kind != "schema" or not routes:
        yield Finding(("sink", "route_by"), f"is not schema, {of_several}", remedy)
        return
    for route in (route for route in routes if not names_records(route)):
        yield Finding(("sink", "routes", route), f"is not named after a message, {of_several}", remedy)
    tables = [str(route.target) for route in routes.values()]
    if len(set(tables)) < len(tables):
        yield Finding(("sink", "routes"), f"two lead to one table, {of_several}", remedy)
    if view.raw.get("transform"):
        yield Finding(("transform",), f"needs columns for all records, {of_several}", "remove it")
    for place in others:
        message = f"has columns for all of its records, {of_several}"
        yield Finding(place[:-1], message, "give it several subjects as well, or land its topics by another job")

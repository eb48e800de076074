"""Refusals of records that cannot be decoded, and of schemas that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Case, Entry

_UNDECODABLE: Final = "the {source}{at} cannot be decoded ({status}): {message}"
_OR_DEAD_LETTER: Final = (
    " and run again (the unfinished run is abandoned by itself if nothing has landed), or set decode.on_error: "
    "dead_letter"
)

DECODING: Final[Mapping[str, Entry]] = {
    "expectation-broken": Entry(
        "a decoded value is not as `decode.expect` says",
        "set `decode.on_error`, or `else: warn` in `decode.expect`, or correct the expectation, and run again",
        Case(
            "column {column} is not as `decode.expect` says: {message}",
            "say what becomes of such records (`decode.on_error`, or `else: warn` in `decode.expect`), or correct the "
            "expectation, and run again",
        ),
    ),
    "payload-undecodable": Entry(
        "a key or value does not fit `decode:`",
        "correct `decode:` in the job file and run again (a run that has landed nothing is abandoned by "
        "itself), or set `decode.on_error: dead_letter`",
        {
            "key or value": Case(_UNDECODABLE, "correct decode.{source}" + _OR_DEAD_LETTER),
            "headers": Case(_UNDECODABLE, "set source.header_names: replace" + _OR_DEAD_LETTER),
        },
    ),
    "record-without-route": Entry(
        'a record has none of the values that `sink.routes` has a table for, and there is no route `"*"`',
        'add the route, or a route `"*"` for all others, and run again (a run that has landed nothing is abandoned by '
        "itself); or set `decode.on_error: dead_letter` ([routing](../guides/routing.md#records-without-a-route))",
        Case(
            "{route_by}: {message}",
            'add the route, or a route "*" for all others, and run again; or set decode.on_error: dead_letter',
        ),
    ),
    "registry-changed": Entry(
        "records of an unfinished run name a schema that its plan does not have, and the job file has "
        "another registry than the plan",
        "set `registry.url` as it was until the run is finished; or `kseg repair JOB --abandon RUN`",
        Case(
            "records name the schema {schema}, which the plan of run {run} does not have: it was made with the "
            "registry {planned}, and the job file has {registry}",
            "set registry.{property} as it was until the run is finished; or give the run up (`kseg repair JOB "
            "--abandon {run}`): the next one is planned with the registry of the job file",
        ),
    ),
    "schema-conflict": Entry(
        "a schema of the registry would change a column's type",
        "where the message names it, set `sink.widen: true`, which gives the table's column the wider type; or "
        "register a schema that keeps the type, and set `decode.on_error: dead_letter`, which sets aside the records "
        "that have the other one already; or land in another table by another job. Kinds of records that differ in a "
        "type need tables of their own (`sink.route_by: schema`)",
        Case(
            "{name} does not fit the table's columns: {place}: {reason}",
            "{changes}\nAll columns:\n{columns}",
        ),
    ),
    "schema-unknown": Entry(
        "a record names a schema that the registry does not know",
        "correct `registry.url`, or register the schema again, and run again; or set `decode.on_error: dead_letter`. "
        "Apicurio has two kinds of ids: where the message says so, set `decode.value.ids`",
        {
            "unknown": Case(
                "the {part} names the schema {schema}, which the registry {registry} does not know",
                "check registry.{property}; a schema that was deleted there has to be registered again; or set "
                "decode.on_error: dead_letter, which sets such records aside",
            ),
            "of the other ids": Case(
                "the {part} names the schema {schema}, which the registry {registry} does not know; it has a {kind} id "
                "of this number",
                "if Apicurio's serializer writes {kind} ids (`apicurio.registry.use-id`), set decode.{section}.ids: "
                "{kind}; or set decode.on_error: dead_letter, which sets such records aside",
            ),
        },
    ),
    "too-many-columns": Entry(
        "new fields would lead to more columns than `decode.value.max_columns`",
        "set it higher, or `unknown_fields: ignore`, and run again",
        Case(
            "with {name} the table would have {columns} columns, and decode.{section}.max_columns is {limit}",
            "set max_columns higher, or unknown_fields: ignore",
        ),
    ),
    "too-many-dead-letters": Entry(
        "more records of a run cannot be decoded than `sink.dead_letters.max` lets pass; nothing was committed",
        "correct `decode:` in the job file and run again; or, if the records are what is wrong, raise "
        "the limit and run again",
        Case(
            "{at_least}{dead} records cannot be decoded, and sink.dead_letters.max lets {most} pass; nothing was "
            "committed. The first:{first}",
            "correct `decode:` and run again: nothing has landed, so the run is planned again. If the records are what "
            "is wrong, raise sink.dead_letters.max and run again",
        ),
    ),
    "too-many-nulled": Entry(
        "more records of a run would have nulls in place of what cannot be decoded (`on_error: set_null`) than "
        "`decode.max_nulled` lets pass; nothing was committed. One column with a wrong type is the usual cause",
        "correct the schema in `decode:` and run again; or, if the records are what is wrong, raise "
        "`decode.max_nulled` and run again",
        Case(
            "{at_least}{nulled} records would have nulls in place of what cannot be decoded{by_column}, and "
            "decode.max_nulled lets {most} pass; nothing was committed. The first:{first}",
            "correct the schema in `decode:` and run again: nothing has landed, so the run is planned again. If the "
            "records are what is wrong, raise decode.max_nulled (a number, or a percentage of the run's records) and "
            "run again",
        ),
    ),
}

"""The rules by which bytes become rows have a version, so that a new release does not change the rows of old tables.

    version    a value that cannot be decoded     Connect's logical types in Avro     literals of the job file
               (`on_error: set_null`)
    1          nulls the whole record             are the types below them            are YAML's values
    2          is null at its depth, and          are those of `connect_json`         are their text in the file
               `decode.max_nulled` limits them

               Debezium's placeholder of a value that its connector did not have
    1          lands as it is written
    2          lands as null, and `_kseg_unavailable` has the column's name

               JSON Schema's `oneOf` and `anyOf` of objects
    1          are JSON text
    2          are one nullable struct each

               Global ids in headers of Apicurio's serializers
    1          are ids of the registry's API in Confluent's form
    2          are global ids, which are asked of Apicurio's own API

               A value that cannot be decoded, in the state of a change event that is not the row's
    1          is an error of the event
    2          is passed over

A run's plan records its version, and continues, is verified and is repaired by it. A table with rows keeps the version
by which they were decoded (`etl.planning.table_rules`); new tables have the newest one. Code asks for a capability
(`rules.nulls_fields`), never for a number.

A replacement of all rows decodes them by the newest version. Columns that come from a registry's schemas stay those of
the version by which they were made (`DecodingRules.with_columns_of`): a table's columns do not change their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

PROPERTY: Final = "kseg.decodingRules"
"""The property of a table whose rows are decoded by these rules; without it they are those of version 1."""

COLUMNS_PROPERTY: Final = "kseg.columnRules"
"""The property of a table whose columns come from a registry's schemas by the rules of an earlier version."""


@dataclass(frozen=True, slots=True)
class DecodingRules:
    """One version of the rules.

    nulls_fields: `on_error: set_null` puts a null in place of what cannot be decoded, and not of the whole record.
    limits_nulled: `decode.max_nulled` limits the records with such nulls.
    connect_logical_types: Avro types with Connect's and Debezium's names have the columns that they have in JSON.
    literals_by_source_text: literals in `decode.expect` and the like are their text in the job file.
    marks_unavailable: `decode.value.unavailable` is `mark` where a job file with an envelope does not say it.
    structs_of_choices: JSON Schema's `oneOf` and `anyOf` of objects are one nullable struct for each member.
    global_ids: global ids in headers of Apicurio's serializers are told from other ids.
    judges_row_states: of the states `before` and `after` of a change event, only the one that is the row's is judged.
    """

    version: int
    nulls_fields: bool
    limits_nulled: bool
    connect_logical_types: bool
    literals_by_source_text: bool
    marks_unavailable: bool
    structs_of_choices: bool
    global_ids: bool
    judges_row_states: bool

    @property
    def properties(self) -> Mapping[str, str]:
        """Properties of a new table whose rows are decoded by these rules."""
        return {PROPERTY: str(self.version)} if self.version > FIRST.version else {}

    def with_columns_of(self, other: DecodingRules) -> DecodingRules:
        """These rules for rows of columns that other rules have made."""
        return replace(
            self,
            connect_logical_types=other.connect_logical_types,
            structs_of_choices=other.structs_of_choices,
        )


FIRST: Final = DecodingRules(
    1,
    nulls_fields=False,
    limits_nulled=False,
    connect_logical_types=False,
    literals_by_source_text=False,
    marks_unavailable=False,
    structs_of_choices=False,
    global_ids=False,
    judges_row_states=False,
)
"""The rules of all plans and tables that do not name a version."""

NEWEST: Final = DecodingRules(
    2,
    nulls_fields=True,
    limits_nulled=True,
    connect_logical_types=True,
    literals_by_source_text=True,
    marks_unavailable=True,
    structs_of_choices=True,
    global_ids=True,
    judges_row_states=True,
)
"""The rules of new tables."""

_BY_VERSION: Final = {rules.version: rules for rules in (FIRST, NEWEST)}


def rules_of(version: int) -> DecodingRules:
    """The rules of a version. Raises ValueError: a later release has made them."""
    known = _BY_VERSION.get(version)
    if known is None:
        there = f"{FIRST.version} to {NEWEST.version}"
        raise ValueError(f"decoding rules {version} are unknown: this release has {there}")
    return known

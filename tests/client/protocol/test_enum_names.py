"""The names of numbers: Java's, everywhere, and read as they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.protocol import enum_names
from kseg.client.protocol.enum_names import AUTHORIZED_OPERATIONS, NOT_REQUESTED, Bits, Names, names_of
from kseg.client.protocol.messages.connection import ApiVersionsResponse
from kseg.client.protocol.messages.groups import DescribeGroupsResponse
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.protocol.schema import Struct

TABLES = {name: value for name, value in vars(enum_names).items() if isinstance(value, Names)} | {
    "COMPRESSIONS": enum_names.compressions()
}


def test_names_are_those_of_the_java_client(java: Callable[[str], list[str]]) -> None:
    theirs: dict[str, dict[int, str]] = {}
    for line in java("NamedValues.java"):
        table, number, name = line.split("\t")
        theirs.setdefault(table, {})[int(number)] = name
    apis = theirs.pop("APIS")
    times = {number: name.removesuffix("_TIMESTAMP") for number, name in theirs.pop("TIMESTAMPS").items()}
    assert times | {-3: "MAX_TIMESTAMP"} == enum_names.TIMESTAMPS.names
    # The answer to a gap is told by no method of the public enum.
    assert theirs.pop("ACKNOWLEDGEMENTS") | {0: "GAP"} == enum_names.ACKNOWLEDGEMENTS.names
    assert theirs
    for table, names in theirs.items():
        assert TABLES[table].names == names, table
    for key, api in API_BY_KEY.items():
        assert apis.get(key, api.name) == api.name


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_name_is_read_as_the_number_that_it_stands_for_in_any_case(table: Names) -> None:
    for number, name in table.names.items():
        assert table.show(number) == name
        assert table.read(name) == table.read(name.lower()) == number
    assert len({name.casefold() for name in table.names.values()}) == len(table.names)


def test_a_number_without_a_name_stays_a_number() -> None:
    assert enum_names.CONFIG_SOURCES.show(99) == 99


@pytest.mark.parametrize("given_", ["NOPE", 1.5, None, ["TOPIC"], True])
def test_what_is_no_name_is_refused_with_those_that_there_are(given_: object) -> None:
    with pytest.raises(ValueError, match="LITERAL, PREFIXED"):
        enum_names.ACL_PATTERNS.read(given_)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_bit_field_is_read_as_it_is_told(value: int) -> None:
    assert AUTHORIZED_OPERATIONS.read(AUTHORIZED_OPERATIONS.show(value)) == value


@pytest.mark.rule(46)
def test_authorized_operations_are_listed_by_name() -> None:
    assert AUTHORIZED_OPERATIONS.show((1 << 3) | (1 << 8) | (1 << 30)) == ["READ", "DESCRIBE", "BIT_30"]
    assert AUTHORIZED_OPERATIONS.show(-(1 << 31)) == NOT_REQUESTED
    with pytest.raises(ValueError, match="NOPE"):
        AUTHORIZED_OPERATIONS.read(["READ", "NOPE"])
    with pytest.raises(ValueError, match="list"):
        AUTHORIZED_OPERATIONS.read("READ")


def fields(message: type[Struct]) -> dict[str, object]:
    return {field.name: field for field in message.FIELDS}


def test_the_same_field_name_means_what_its_message_means() -> None:
    types = {}
    for api in API_BY_KEY.values():
        for message in (api.request, api.response):
            for struct in structs(message):
                field = fields(struct).get("resource_type")
                if field is not None:
                    types[message.__name__] = names_of(message.__name__, field)
    assert types.pop("DescribeConfigsRequest") is enum_names.CONFIG_RESOURCES
    for message, table in types.items():
        assert table is (enum_names.ACL_RESOURCES if "Acls" in message else enum_names.CONFIG_RESOURCES), message


def test_error_codes_and_authorized_operations_are_named_in_every_message() -> None:
    seen = set()
    for api in API_BY_KEY.values():
        for message in (api.request, api.response):
            for struct in structs(message):
                for field in struct.FIELDS:
                    table = names_of(message.__name__, field)
                    if field.name.endswith("error_code"):
                        assert table is enum_names.ERRORS
                        seen.add("error")
                    if field.name.endswith("authorized_operations") and field.kind == "int32":
                        assert isinstance(table, Bits)
                        seen.add("bits")
    assert seen == {"error", "bits"}


def test_api_keys_are_named_where_they_are_listed() -> None:
    [field] = [field for field in ApiVersionsResponse.ApiVersion.FIELDS if field.name == "api_key"]
    table = names_of("ApiVersionsResponse", field)
    assert table is not None
    assert table.show(3) == "Metadata"
    assert table.show(32000) == 32000


@pytest.mark.rule(225)
def test_states_of_groups_are_text_already_whatever_they_are() -> None:
    [field] = [field for field in DescribeGroupsResponse.DescribedGroup.FIELDS if field.name == "group_state"]
    assert field.kind == "string"
    assert names_of("DescribeGroupsResponse", field) is None


def structs(struct: type[Struct]) -> list[type[Struct]]:
    found = [struct]
    for field in struct.FIELDS:
        if isinstance(field.of, type):
            found += structs(field.of)
    return found

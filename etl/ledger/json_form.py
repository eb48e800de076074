"""The JSON of the ledger's events and values: unknown fields are errors, and fields that are not used are left out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic_core import PydanticCustomError

from kseg.etl.decoding.rules import rules_of


class Strict:
    """Unknown fields are an error, because a field of a newer release may be essential."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


def left_out(*names: str, **values: Any) -> Any:
    """A serializer that omits these fields from the JSON if they are None, False or an empty dictionary.

    values: fields that are omitted if they have this value.

    So earlier releases, which do not know these fields, can read events that do not use them.
    """

    @model_serializer(mode="wrap")
    def to_json(self: Any, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        empty = {name for name in names if (value := fields.get(name)) is None or value is False or value == {}}
        empty |= {name for name, value in values.items() if fields.get(name) == value}
        return {name: value for name, value in fields.items() if name not in empty}

    return to_json


UNKNOWN_RULES: Final = "unknown_decoding_rules"
"""Type of the validation error for rules of decoding of a later release."""


def _known_rules(version: int) -> int:
    try:
        return rules_of(version).version
    except ValueError as error:
        raise PydanticCustomError(UNKNOWN_RULES, "{why}", {"why": str(error)}) from None


RulesVersion = Annotated[int, AfterValidator(_known_rules)]
"""The version of rules of decoding that this release knows."""

"""Errors of a schema, found before any payload is decoded.

    PayloadSchemaError
    ├── InvalidSchema        the text is no schema of its format
    ├── UnsupportedSchema    a schema without a column type: recursion, for example
    └── IncompatibleSchemas  the writer's schema cannot be read with the reader's

None is retriable. Errors of single payloads are no exceptions: see `segment_reader.payload.decoder.PayloadError`.

TooLargeForOneBatch is no error of a schema: payloads that have to be decoded in several calls.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PayloadSchemaError(Exception):
    """Attributes: `place` (within the schema, as `Order.items[].price`; empty for the whole), `reason`."""

    retriable: ClassVar[bool] = False

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.place = place
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.place, self.reason)


class InvalidSchema(PayloadSchemaError):
    """The text is no schema of its format."""


class UnsupportedSchema(PayloadSchemaError):
    """A valid schema that has no column type here."""


class IncompatibleSchemas(PayloadSchemaError):
    """The writer's schema cannot be read with the reader's. `place` is the writer's, `reader_place` the reader's."""

    def __init__(self, place: str, reader_place: str, reason: str) -> None:
        where = f"writer's {place or 'schema'}, reader's {reader_place or 'schema'}"
        super().__init__(where, reason)
        self.place = place
        self.reader_place = reader_place

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.place, self.reader_place, self.reason)


class TooLargeForOneBatch(Exception):
    """The payloads of one call decode to more than an Arrow array can hold: 2 GiB of text, or 2^31 elements of lists.

    Fewer payloads must be decoded at once.
    """

    def __init__(self, payloads: int) -> None:
        super().__init__(f"{payloads:,} payloads decode to more than 2 GiB, or 2^31 elements, of one column")
        self.payloads = payloads

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.payloads,)

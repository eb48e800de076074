"""The first step of a job that decodes: keys and values become typed columns, in the worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.etl.decoding.bad_records import BadRecord, BadRecords, OnError
from kseg.etl.decoding.change_states import Judged
from kseg.etl.decoding.columns import check_names, kafka_columns, typed_columns
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import ExpectationBroken, UndecodablePayload, address_of
from kseg.etl.decoding.expectations import EXPECTATION, FORMS, Expectation, parse_expectation, with_nulls
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.kinds import columns_named, plain_name
from kseg.etl.decoding.nulls import WHOLE, FieldNulls
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.transform.step import Address, BatchStep
from kseg.segment_reader.decode.header_names import is_utf8, java_text
from kseg.segment_reader.decode.schema import RAW_HEADERS
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status

if TYPE_CHECKING:
    from kseg.etl.config.decoding import Decode, Payload

HEADER_NAME: Final = "HEADER_NAME"
"""The error class of a record that is refused for a header's name."""

_SHOWN: Final = 60
"""How many bytes of such a name messages have."""

NO_SCHEMAS: Final[Mapping[str, FramedSchemas]] = MappingProxyType({})


@dataclass(frozen=True)
class DecodeStep(BatchStep):
    """payloads: of key and value, those that are decoded. keep: Kafka's own columns that rows have beside them.
    on_error: what becomes of a record that has no row, or breaks an expectation. warns: rows that break one land, and
    are counted. refuses_names: a header's name that is not UTF-8 is an error of its record (column `rawHeaders`).
    strict: numbers in expectations must be read as the same ones everywhere (`Expectation.check`)."""

    payloads: tuple[PayloadPlan, ...]
    keep: tuple[str, ...] = ()
    place: str = "decode"
    on_error: OnError = "fail"
    expectations: tuple[Expectation, ...] = ()
    warns: bool = False
    refuses_names: bool = False
    strict: bool = False

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        parts = [(plan, typed_columns(plan)) for plan in self.payloads]
        check_names(parts)
        self._check_expectations({field.name: field.type for _, fields in parts for field in fields})
        own = [pa.field(name, rows.field(source).type) for source, name in kafka_columns(rows, self.keep)]
        return pa.schema([*(field for _, fields in parts for field in fields), *own])

    @property
    def decodes(self) -> bool:
        return True

    @property
    def has_dead_letters(self) -> bool:
        return self.on_error == "dead_letter"

    @property
    def by_registry(self) -> bool:
        """Whether payloads name schemas of a registry, in front of them or in a header."""
        return any(plan.framed is not None for plan in self.payloads)

    @property
    def sets_aside(self) -> bool:
        """Whether records can be left out, or values replaced by nulls, so that the account has to count them."""
        warns = self.warns and bool(self.expectations)
        return warns or self.on_error != "fail" or any(plan.drop_nulls for plan in self.payloads)

    def _check_expectations(self, columns: Mapping[str, pa.DataType]) -> None:
        """Raises ConfigurationError for one of a column that is not there, or whose type it does not fit."""
        faults = []
        for expected in self.expectations:
            place = f"{self.place}.expect.{expected.column}"
            found = columns_named(columns, expected.column)
            if not found:
                known = ", ".join(dict.fromkeys(map(plain_name, columns)))
                faults.append(Diagnostic(place, "is no column of the decoded rows", f"one of {known}"))
            for column in found:
                try:
                    expected.check(columns[column], strict=self.strict)
                except ValueError as error:
                    faults.append(Diagnostic(place, str(error), FORMS))
        if faults:
            raise ConfigurationError(faults)

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """Raises UndecodablePayload at the first payload that has no row, unless they are set aside.

        Raises TooLargeForOneBatch before anything is counted: see `etl.decoding.payload.in_parts`.
        """
        bad_records = bad_records or BadRecords()
        # Without `output_schema`, whose checks are for the driver: the caller compares the types with what it gave.
        names: list[str] = []
        columns: list[pa.Array] = []
        dropped, nulled = np.zeros(batch.num_rows, np.bool_), np.zeros(batch.num_rows, np.bool_)
        warned = np.zeros(batch.num_rows, np.bool_)
        dead, why = np.zeros(batch.num_rows, np.bool_), _Reasons(batch)
        has_value: dict[str, npt.NDArray[np.bool_]] = {}
        columns_nulled: Counter[str] = Counter()
        whole = np.zeros(batch.num_rows, np.bool_)
        of_plans = [(plan, plan.decode(batch, self._enough(plan, bad_records))) for plan in self.payloads]
        for plan, decoded in of_plans:
            if plan.drop_nulls:
                dropped |= decoded.status == Status.NULL
        for plan, decoded in of_plans:
            failing = decoded.status > Status.NULL
            if self.on_error == "set_null":
                failing &= ~dropped  # a tombstone that is left out has no nulls
            if failing.any():
                if self.on_error == "fail":
                    first = int(np.argmax(failing))
                    raise _undecodable(plan, batch, first, Status(decoded.status[first]))
                why.undecodable(plan, decoded.status, failing)
                known = _known(decoded, failing)
                if self.on_error == "dead_letter":
                    bad_records.refuse_dead(batch, np.flatnonzero(dead | known).tolist(), why.of)
                    dead |= failing
                else:
                    bad_records.refuse_nulls(batch, np.flatnonzero(nulled | known).tolist(), why.of)
                    nulled |= failing
                    if plan.rules.nulls_fields:
                        decoded, of_columns = self._field_nulls[plan.source].of(batch, decoded, failing)
                        if WHOLE in of_columns:  # a record whose key and value are broken counts once
                            broken = (decoded.status > Status.NULL) & failing
                            of_columns[WHOLE] -= int((broken & whole).sum())
                            whole |= broken
                        columns_nulled += of_columns
            struct = pa.types.is_struct(decoded.rows.type) and plan.into_columns
            columns += decoded.rows.flatten() if struct else [decoded.rows]
            own = [field.name for field in typed_columns(plan)]
            names += own
            if self.expectations:
                has_value |= _with_values(plan, own, batch, decoded.status == Status.DECODED)
        unnamed = self._with_wrong_names(batch)
        if unnamed.any():
            if self.on_error == "fail":
                raise _wrong_name_error(batch, int(np.argmax(unnamed)))
            why.wrong_names(unnamed)
            if self.on_error == "dead_letter":
                dead |= unnamed
        for source, name in kafka_columns(batch.schema, self.keep):
            columns.append(batch.column(source))
            names.append(name)
            if source == "headers" and self.on_error == "set_null":
                columns[-1] = with_nulls(columns[-1], unnamed)
                nulled |= unnamed
        for expected, column in self._expected(names):
            at = names.index(column)
            broken = expected.broken(columns[at]) & has_value[column] & ~dropped
            broken &= ~dead
            if not broken.any():
                continue
            if self.warns:
                warned |= broken
                continue
            if self.on_error == "fail":
                raise _unexpected(expected, columns[at], batch, int(np.argmax(broken)))
            why.broken(expected, columns[at], broken)
            if self.on_error == "dead_letter":
                dead |= broken
            else:
                columns[at] = with_nulls(columns[at], broken)
                nulled |= broken
                columns_nulled[column] += int(broken.sum())
        nulled &= ~dropped
        bad_records.show_nulls(batch, np.flatnonzero(nulled).tolist(), why.of)
        bad_records.dead(batch, np.flatnonzero(dead).tolist(), why.of)
        dropped &= ~dead
        left_out = dropped | dead
        out = pa.RecordBatch.from_arrays(columns, names=names)
        out = out.filter(pa.array(~left_out)) if left_out.any() else out
        bad_records.count(
            DecodingCounts(
                decoded=out.num_rows,
                dropped=int(dropped.sum()),
                nulled=int(nulled.sum()),
                warned=int((warned & ~left_out).sum()),
                columns=dict(columns_nulled) if self._counts_columns else {},
            )
        )
        return out

    def _enough(self, plan: PayloadPlan, bad_records: BadRecords) -> int | None:
        """The number of errors in this plan's payloads that refuses the run; None: all payloads have to be judged."""
        if self.on_error == "set_null" and any(other.drop_nulls for other in self.payloads if other is not plan):
            return None  # records that are left out have no nulls
        return bad_records.enough(self.on_error)

    def _with_wrong_names(self, records: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """The records that are refused for a header's name."""
        if not self.refuses_names:
            return np.zeros(records.num_rows, np.bool_)
        return np.asarray(records.column(RAW_HEADERS).is_valid())

    @cached_property
    def _field_nulls(self) -> dict[str, FieldNulls]:
        """Decoders of what the payloads' own decoders reject."""
        return {plan.source: FieldNulls(plan) for plan in self.payloads}

    @property
    def _counts_columns(self) -> bool:
        """Whether nulls are counted by column, which earlier releases cannot read."""
        return any(plan.rules.nulls_fields for plan in self.payloads)

    def __getstate__(self) -> dict[str, Any]:
        # Decoders are made where they run.
        return {name: value for name, value in self.__dict__.items() if name != "_field_nulls"}

    def _expected(self, names: Sequence[str]) -> Iterator[tuple[Expectation, str]]:
        """Each expectation with the columns that it is of: of several kinds of records one for each type."""
        return ((one, column) for one in self.expectations for column in columns_named(names, one.column))


def _known(decoded: DecodedPayloads, failing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The failing payloads without those that were not judged, and may be sound."""
    if not isinstance(decoded, Judged) or not decoded.unjudged:
        return failing
    known = failing.copy()
    known[list(decoded.unjudged)] = False
    return known


def _with_values(
    plan: PayloadPlan, names: Sequence[str], records: pa.RecordBatch, decoded: npt.NDArray[np.bool_]
) -> dict[str, npt.NDArray[np.bool_]]:
    """By column, the rows that may have a value there: those of kinds that have the column."""
    if plan.kinds is None:
        return dict.fromkeys(names, decoded)
    of_rows, found = plan.kinds_of(records), dict.fromkeys(names, np.zeros(len(decoded), np.bool_))
    for kind in range(len(plan.kinds.types)):
        mine = decoded & (of_rows == kind)
        found |= {column: found[column] | mine for column in plan.kinds.landed(kind).values()}
    return found


def decode_step(
    decode: Decode,
    place: str = "decode",
    schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS,
    rules: DecodingRules = NEWEST,
    *,
    refuses_names: bool = False,
) -> DecodeStep:
    """The step of a job's `decode:` section, or of what it says of one topic at this place.

    schemas: of a registry, by lineage.
    """
    payloads = [
        _plan(payload, source, place, schemas, rules)
        for source in ("key", "value")
        if (payload := getattr(decode, source)) is not None
    ]
    expected = decode.expectations(rules)
    warns = expected.pop("else", None) == "warn"
    expectations = tuple(parse_expectation(column, condition) for column, condition in expected.items())
    return DecodeStep(tuple(payloads), decode.keep, place, decode.on_error, expectations, warns, refuses_names)


def _plan(
    payload: Payload, source: str, place: str, schemas: Mapping[str, FramedSchemas], rules: DecodingRules
) -> PayloadPlan:
    names = ("timestamp_format", "date_format", "formats", "time_zone")
    options = {name: given for name in names if (given := getattr(payload, name)) is not None}
    options["unknown_fields"] = payload.unknown
    if payload.nanoseconds != "fail":
        options["nanoseconds"] = payload.nanoseconds
    if payload.out_of_range_times != "fail":
        options["out_of_range_times"] = payload.out_of_range_times
    framed = schemas.get(f"{place}.{source}".removeprefix("decode.").lstrip("."))
    if framed is not None:
        framed = replace(framed, frame=payload.frame, ids=payload.ids)
    return PayloadPlan(
        source=source,  # type: ignore[arg-type]
        format=payload.format,
        column=payload.as_ or source,
        columns=tuple((payload.declared.columns or {}).items()),
        schema_text=payload.declared.text,
        json=tuple(options.items()) if payload.form.unknown_fields else (),
        into_columns=payload.into == "columns",
        rename=tuple(payload.rename.items()),
        drop_nulls=payload.tombstones == "drop",
        section=place,
        message=payload.message,
        nanoseconds=payload.nanoseconds,
        out_of_range_times=payload.out_of_range_times,
        envelope=payload.envelope,
        unavailable=payload.unavailable_by(rules),
        frame=payload.frame,
        framed=framed,
        rules=rules,
    )


class _Reasons:
    """Why records of a batch are dead letters, or rows with nulls: found only for those that are asked for."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._found: list[tuple[npt.NDArray[np.bool_], Callable[[int], BadRecord]]] = []

    def undecodable(self, plan: PayloadPlan, status: npt.NDArray[np.uint8], rows: npt.NDArray[np.bool_]) -> None:
        self._found.append((rows, lambda row: _bad(plan, self._batch, row, Status(status[row]))))

    def broken(self, expected: Expectation, column: pa.Array, rows: npt.NDArray[np.bool_]) -> None:
        self._found.append((rows, lambda row: _broken(expected, column, row)))

    def wrong_names(self, rows: npt.NDArray[np.bool_]) -> None:
        self._found.append((rows, lambda row: _wrong_name(self._batch, row)))

    def of(self, row: int) -> BadRecord:
        """The first reason."""
        return next(reason(row) for rows, reason in self._found if rows[row])


def _undecodable(plan: PayloadPlan, batch: pa.RecordBatch, row: int, status: Status) -> UndecodablePayload:
    error = plan.explain(batch, row, status)
    return UndecodablePayload(plan.source, error.status.name, error.path, error.message, **address_of(batch, row))


def _bad(plan: PayloadPlan, batch: pa.RecordBatch, row: int, status: Status) -> BadRecord:
    error = plan.explain(batch, row, status)
    return BadRecord(row, plan.source, error.status.name, error.path, error.message, plan.schema_id(batch, row))


def _wrong_name(batch: pa.RecordBatch, row: int) -> BadRecord:
    names = [header["key"] for header in batch.column(RAW_HEADERS)[row].as_py()]
    number, name = next((number, name) for number, name in enumerate(names) if not is_utf8(name))
    message = f"the name {java_text(name[:_SHOWN])!a} (bytes {name[:_SHOWN].hex()}) is not valid UTF-8"
    return BadRecord(row, "headers", HEADER_NAME, f"[{number}]", message)


def _wrong_name_error(batch: pa.RecordBatch, row: int) -> UndecodablePayload:
    found = _wrong_name(batch, row)
    return UndecodablePayload(found.source, found.error, found.path, found.message, **address_of(batch, row))


def _broken(expected: Expectation, column: pa.Array, row: int) -> BadRecord:
    return BadRecord(row, "row", EXPECTATION, expected.column, expected.message(column[row].as_py()))


def _unexpected(expected: Expectation, column: pa.Array, batch: pa.RecordBatch, row: int) -> ExpectationBroken:
    return ExpectationBroken(expected.column, expected.message(column[row].as_py()), **address_of(batch, row))

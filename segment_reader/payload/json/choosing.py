"""The compiled decoder of types with choices: objects are sorted by the member that they are, and each member's decoder
reads its own.

A choice within rows is read as JSON text first, and the texts then as documents. What the kernel does not read, and the
rows with an error, are the reference's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status
from kseg.segment_reader.payload.json.choices import NULL, Choice, Member, Undecided, canonical
from kseg.segment_reader.payload.json.compiled import JsonDecoder
from kseg.segment_reader.payload.json.document import parse
from kseg.segment_reader.payload.json.formats import JSON_TEXT
from kseg.segment_reader.payload.json.reference import JsonReference, written
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.texts import Rows, with_texts_read

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
_UNDECIDED: Final = -1


def compiled_decoder(declared: pa.StructType, options: JsonOptions) -> PayloadDecoder:
    """The compiled decoder of a type, with or without choices. Raises InvalidSchema."""
    return ChoosingDecoder(declared, options) if options.choices else JsonDecoder(declared, options)


class ChoosingDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. options: with choices, and unknown fields are ignored.

    Raises InvalidSchema.
    """

    def __init__(self, declared: pa.StructType, options: JsonOptions) -> None:
        self._reference = JsonReference(declared, options)
        self._members: dict[str, _Members] = {}
        texts = self._with_texts(declared, "", options)
        kept = {path: how for path, how in options.formats.items() if not any(_is_in(path, at) for at in self._members)}
        formats = {**kept, **dict.fromkeys(self._members, JSON_TEXT)}
        self._own = None if "" in self._members else JsonDecoder(texts, replace(options, formats=formats, choices={}))

    @property
    def type(self) -> pa.StructType:
        return self._reference.type

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._reference.explain(payload, skip=skip)

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        status = np.zeros(len(payloads), np.uint8)
        bad = np.zeros(len(payloads), bool)
        if self._own is None:
            rows, status = self._members[""].decode(payloads, skip)
            bad |= status > Status.NULL
        else:
            decoded = self._own.decode(payloads, skip=skip)
            status = decoded.status.copy()

            def read(texts: pa.StringArray, _: pa.DataType, its: Rows, place: str) -> pa.Array:
                found, of_texts = self._members[place].decode(texts.cast(pa.binary()), 0)
                bad[its[of_texts > Status.NULL]] = True
                return found

            rows = with_texts_read(decoded.rows, self.type, np.arange(len(payloads)), read)
            bad |= status > Status.NULL  # another error may be written before the one that was found
        for row in np.flatnonzero(bad).tolist():
            status[row] = self.explain(payloads[row].as_py(), skip=skip).status
        if bad.any():
            rows = rows.take(pa.array(np.arange(len(rows)), mask=status != Status.DECODED))
        return DecodedPayloads(rows, status)

    def _with_texts(self, kind: pa.DataType, path: str, options: JsonOptions) -> pa.DataType:
        """The type with texts in place of choices, which become members."""
        choice = options.choices.get(path)
        if choice is not None:
            self._members[path] = _Members(choice, kind, path, options)
            return pa.string()
        if pa.types.is_struct(kind):
            return pa.struct(
                [(each.name, self._with_texts(each.type, _below(path, each.name), options)) for each in kind]
            )
        if pa.types.is_map(kind):
            return pa.map_(kind.key_type, self._with_texts(kind.item_type, f"{path}[]", options))
        return pa.list_(self._with_texts(kind.value_type, f"{path}[]", options)) if pa.types.is_list(kind) else kind


class _Members:
    """One choice's decoders. path: of the choice in the options."""

    def __init__(self, choice: Choice, kind: pa.StructType, path: str, options: JsonOptions) -> None:
        self._choice, self._type, self._depth = choice, kind, options.max_depth
        names = choice.names
        formats = {quoted(name): JSON_TEXT for name in names}
        usual = JsonOptions(formats=formats, unknown_fields="ignore", max_depth=options.max_depth)
        self._deciding = JsonDecoder(pa.struct([(name, pa.string()) for name in names]), usual)
        self._decoders = [
            compiled_decoder(kind.field(each.name).type, _of_member(options, _below(path, each.name)))
            for each in choice.members
        ]

    def decode(self, payloads: pa.BinaryArray, skip: int) -> tuple[pa.StructArray, npt.NDArray[np.uint8]]:
        """Objects, or nulls, as structs. Any status but DECODED and NULL means an error, and not always which one."""
        decided = self._deciding.decode(payloads, skip=skip)
        status = decided.status.copy()
        chosen = self._chosen(decided.rows, payloads, skip)
        chosen[status != Status.DECODED] = _UNDECIDED
        status[(status == Status.DECODED) & (chosen == _UNDECIDED)] = Status.WRONG_TYPE
        columns = []
        for number, decoder in enumerate(self._decoders):
            its = np.flatnonzero(chosen == number)
            decoded = decoder.decode(payloads.take(pa.array(its)), skip=skip)
            status[its] = decoded.status
            places = np.zeros(len(payloads), np.int64)
            places[its] = np.arange(len(its))
            columns.append(decoded.rows.take(pa.array(places, mask=chosen != number)))
        mask = pa.array(status != Status.DECODED)
        return pa.StructArray.from_arrays(columns, fields=list(self._type), mask=mask), status

    def _chosen(self, rows: pa.StructArray, payloads: pa.BinaryArray, skip: int) -> Numbers:
        """The number of the member of each of n objects, or _UNDECIDED. rows: the properties that decide."""
        members = self._choice.members
        columns = dict(zip(self._choice.names, rows.flatten(), strict=True))
        left = np.stack([_has_values(each, columns, len(rows)) for each in members])
        unclear = left.sum(axis=0) > 1
        if unclear.any():
            valid = {name: np.asarray(column.is_valid()) for name, column in columns.items()}
            for number, each in enumerate(members):
                left[number, unclear] &= _has_properties(each, valid, len(rows))[unclear]
        chosen = np.where(left.sum(axis=0) == 1, left.argmax(axis=0), _UNDECIDED)
        # A null looks like a property that is not written: which it is, only the document shows.
        nulls = unclear & np.asarray(pc.fill_null(pc.match_substring(payloads, NULL), False))
        for row in np.flatnonzero(nulls).tolist():
            chosen[row] = self._by_document(payloads[row].as_py(), skip) if rows[row].is_valid else _UNDECIDED
        return chosen

    def _by_document(self, payload: bytes, skip: int) -> int:
        try:
            return self._choice.members.index(self._choice.member(written(parse(payload, skip, self._depth), payload)))
        except Undecided:
            return _UNDECIDED


def _has_values(member: Member, columns: Mapping[str, pa.StringArray], n: int) -> Bools:
    found = np.ones(n, bool)
    for name, allowed in member.values.items():
        values = columns[name].dictionary_encode()
        fits = np.array([*(canonical(text) in allowed for text in values.dictionary.to_pylist()), True])
        found &= fits[np.asarray(values.indices.fill_null(len(values.dictionary)))]
    return found


def _has_properties(member: Member, valid: Mapping[str, Bools], n: int) -> Bools:
    found = np.ones(n, bool)
    for name in member.required:
        found &= valid[name]
    for name in member.excluded:
        found &= ~valid[name]
    return found


def _of_member(options: JsonOptions, path: str) -> JsonOptions:
    """The options of the documents at this path."""
    formats = {each[len(path) + 1 :]: how for each, how in options.formats.items() if each.startswith(f"{path}.")}
    choices = {each[len(path) + 1 :]: how for each, how in options.choices.items() if each.startswith(f"{path}.")}
    return replace(options, formats=formats, choices=choices)


def _is_in(path: str, at: str) -> bool:
    return path.startswith((f"{at}.", f"{at}["))


def _below(path: str, name: str) -> str:
    return f"{path}.{quoted(name)}" if path else quoted(name)

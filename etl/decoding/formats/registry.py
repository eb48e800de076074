"""All formats of payloads: a new one is a module of this folder, and an entry of `FORMATS`.

Functions are given as the text `module:function`, and their modules are loaded when they are first called: reading a
job file and planning a run load no decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeVar

from kseg.etl.decoding.rules import DecodingRules

if TYPE_CHECKING:
    import pyarrow as pa

    from kseg.client.registry.schemas import Resolved
    from kseg.etl.decoding.formats.documents import Members
    from kseg.etl.decoding.formats.port import DeclaredPayload, RegistryPayload, SchemaFormat, Uses
    from kseg.segment_reader.payload.decoder import PayloadDecoder

P = ParamSpec("P")
T = TypeVar("T")

SchemaForm = Literal["columns", "file", "registry"]
"""How a job file gives a schema: `{columns: {…}}`, `{file: …}` or `registry`."""


@dataclass(frozen=True, slots=True)
class Function(Generic[P, T]):
    """A function whose module is loaded at its first call. place: `module:function`."""

    place: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.load()(*args, **kwargs)

    def load(self) -> Callable[P, T]:
        """The function itself."""
        return _loaded(self.place)  # type: ignore[no-any-return]


@cache
def _loaded(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class InRegistry:
    """What a format needs if its schemas may be in a registry.

    type: of its schemas there. schemas: how the reader's schema of keys or values grows. kept: a schema's text, and
    those of its references by name, as the ledger stores them. row_type, decoder: by a writer's schema alone, for
    commands without a job; the tuple has the indexes of a message. indexed: a schema has several messages, whose
    indexes follow its id in payloads, and whose columns do not depend on one another. unions: a schema may be a union
    of records. fills: the reader's schema has values for fields that the writer's lacks. evolution: makes the
    `SchemaFormat` by which two versions are compared; None: the types of their columns are compared.
    """

    type: str
    schemas: Function[[RegistryPayload, DecodingRules], SchemaFormat]
    kept: Function[[str, Mapping[str, str]], tuple[str, Uses]]
    row_type: Function[[Resolved, tuple[int, ...]], pa.DataType]
    decoder: Function[[Resolved, tuple[int, ...]], PayloadDecoder]
    indexed: bool = False
    unions: bool = False
    fills: bool = False
    evolution: Function[[], SchemaFormat] | None = None


@dataclass(frozen=True, slots=True)
class InSamples:
    """How `kseg init` recognises a format in sampled payloads.

    document: the document in a payload, whose members become columns (`etl.decoding.formats.documents`); its result is
    None for a payload of another format. plain: the format that takes payloads with documents as one column. words:
    what payloads are called in counts, if each of them shows its format. every: whether all payloads of a sample are of
    the format, by its name, the payloads, and whether they are text (if not, none of them is); its result is None, or a
    note for people, which may be empty.
    """

    document: Function[[bytes], Members | None] | None = None
    plain: str = "bytes"
    words: str = ""
    every: Function[[str, Sequence[bytes], bool], str | None] | None = None


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """A format of payloads.

    name: in the job file. decoder: of payloads by what the plan declares. schemas: the forms of `schema:` that it
    takes, the usual one first; none: it needs no schema. suffix: of its schemas' files; None: they are `.json`, as
    those of other formats. options: the keys of the job file that have a meaning for it, of those that have none for
    all formats. unknown_fields: what a declared schema's unknown fields may be. around: the members of a document that
    are around the row. option_text: the text of a schema's file, as an option of Spark has it, as jobs pin it; None: as
    it is. declared_type: the type of the rows of a schema's text, by what unknown fields are and by rules of decoding,
    if these change it; its result is None where such rules read none of it. in_registry: None: no registry has its
    schemas. in_samples: None: `kseg init` does not recognise it in payloads.
    """

    name: str
    decoder: Function[[DeclaredPayload], PayloadDecoder]
    schemas: tuple[SchemaForm, ...] = ()
    suffix: str | None = None
    options: frozenset[str] = frozenset()
    unknown_fields: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    option_text: Function[[str], str] | None = None
    declared_type: Function[[str, str, DecodingRules], pa.DataType | None] | None = None
    in_registry: InRegistry | None = None
    in_samples: InSamples | None = None

    @property
    def indexed(self) -> bool:
        """Whether a registry's schema has several messages, each with columns of its own."""
        return self.in_registry is not None and self.in_registry.indexed


_FOLDER: Final = "kseg.etl.decoding.formats"
_PRIMITIVE: Final[Function[[DeclaredPayload], PayloadDecoder]] = Function(f"{_FOLDER}.primitives:decoder")
_OF_TIMES: Final = frozenset(("nanoseconds", "out_of_range_times"))
_OF_JSON: Final = _OF_TIMES | {"timestamp_format", "date_format", "formats", "time_zone"}

_IN_SAMPLE: Final[Function[[str, Sequence[bytes], bool], str | None]] = Function(f"{_FOLDER}.primitives:in_sample")

_ALL: Final = (
    PayloadFormat("bytes", _PRIMITIVE, in_samples=InSamples(words="bytes")),
    PayloadFormat("string", _PRIMITIVE, in_samples=InSamples(words="UTF-8 text")),
    *(
        PayloadFormat(name, _PRIMITIVE, in_samples=InSamples(every=_IN_SAMPLE))
        for name in ("short", "int", "long", "float", "double")
    ),
    PayloadFormat("boolean", _PRIMITIVE),
    PayloadFormat("uuid", _PRIMITIVE, in_samples=InSamples(every=_IN_SAMPLE)),
    PayloadFormat(
        "json",
        Function(f"{_FOLDER}.json:decoder"),
        schemas=("columns",),
        options=_OF_JSON,
        unknown_fields=("ignore", "rescue"),
        in_samples=InSamples(Function(f"{_FOLDER}.json:sampled_document"), plain="string", words="JSON objects"),
    ),
    PayloadFormat(
        "avro",
        Function(f"{_FOLDER}.avro:decoder"),
        schemas=("registry", "file"),
        suffix=".avsc",
        options=_OF_TIMES,
        declared_type=Function(f"{_FOLDER}.avro:declared_type"),
        in_registry=InRegistry(
            "AVRO",
            schemas=Function(f"{_FOLDER}.avro:schemas"),
            kept=Function(f"{_FOLDER}.avro:kept"),
            row_type=Function(f"{_FOLDER}.avro:registered_type"),
            decoder=Function(f"{_FOLDER}.avro:registered_decoder"),
            unions=True,
            fills=True,
            evolution=Function(f"{_FOLDER}.avro:AvroSchemas"),
        ),
    ),
    PayloadFormat(
        "protobuf",
        Function(f"{_FOLDER}.protobuf:decoder"),
        schemas=("registry", "file"),
        suffix=".proto",
        options=_OF_TIMES | {"message"},
        option_text=Function(f"{_FOLDER}.protobuf:option_text"),
        in_registry=InRegistry(
            "PROTOBUF",
            schemas=Function(f"{_FOLDER}.protobuf:schemas"),
            kept=Function(f"{_FOLDER}.protobuf:kept"),
            row_type=Function(f"{_FOLDER}.protobuf:registered_type"),
            decoder=Function(f"{_FOLDER}.protobuf:registered_decoder"),
            indexed=True,
        ),
    ),
    PayloadFormat(
        "connect_json",
        Function(f"{_FOLDER}.json:connect_decoder"),
        schemas=("columns", "file"),
        options=_OF_JSON,
        unknown_fields=("ignore", "rescue"),
        around=("payload",),
    ),
    PayloadFormat(
        "json_schema",
        Function(f"{_FOLDER}.json:schema_decoder"),
        schemas=("registry", "file"),
        options=_OF_JSON,
        unknown_fields=("ignore", "rescue"),
        declared_type=Function(f"{_FOLDER}.json:declared_type"),
        in_registry=InRegistry(
            "JSON",
            schemas=Function(f"{_FOLDER}.json:schemas"),
            kept=Function(f"{_FOLDER}.json:kept"),
            row_type=Function(f"{_FOLDER}.json:registered_type"),
            decoder=Function(f"{_FOLDER}.json:registered_decoder"),
        ),
    ),
)

FORMATS: Final[Mapping[str, PayloadFormat]] = {format.name: format for format in _ALL}
"""By name, in the order in which the job file's schema lists them."""


def in_samples() -> Iterator[tuple[str, InSamples]]:
    """The formats that are recognised in samples, by name."""
    return ((name, one.in_samples) for name, one in FORMATS.items() if one.in_samples is not None)


def in_registries() -> Iterator[tuple[PayloadFormat, InRegistry]]:
    """The formats whose schemas may be in a registry."""
    return ((one, one.in_registry) for one in FORMATS.values() if one.in_registry is not None)


def of_registry_type(type: str) -> tuple[PayloadFormat, InRegistry]:
    """The format of a registry's schemas of this type. Raises KeyError if no format has it."""
    return {own.type: (one, own) for one, own in in_registries()}[type]


def registry_type(format: str) -> str | None:
    """The type of the format's schemas in a registry; None if no registry has them."""
    own = FORMATS[format].in_registry
    return None if own is None else own.type


def in_registry(format: str) -> InRegistry:
    """What a registry's schemas of this format need."""
    own = FORMATS[format].in_registry
    assert own is not None  # the job file is refused
    return own


def schema_format(payload: RegistryPayload, rules: DecodingRules) -> SchemaFormat:
    """The format of a key or value whose schemas are in a registry."""
    return in_registry(payload.format).schemas(payload, rules)


def kept_text(format: str, text: str, references: Mapping[str, str]) -> tuple[str, Uses]:
    """The text of a registry's schema that the ledger stores. For Protobuf, protoc compiles it to descriptors here.

    Raises PayloadSchemaError.
    """
    return in_registry(format).kept(text, references)

"""Classes that define messages, and what a request's class declares besides its fields.

`StructType` turns the fields of a class body (see `fields`) into slots and a keyword constructor with Kafka's defaults.
Instances hold only values: `codec` encodes them, and one class serves all versions of its message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from kseg.client.protocol.error_policy import NO_ERRORS, ErrorPolicy
from kseg.client.protocol.permissions import NONE, Permissions
from kseg.client.protocol.routing import NOT_SENT, Route

#: Who sends a request: any client, a broker to a broker, or a broker or controller to a controller.
Scope: TypeAlias = Literal["client", "broker", "controller"]

_SHOWN_BYTES = 32

MAX_VERSION = 32767


class Versions(NamedTuple):
    """A closed range of versions; empty where `lowest` is above `highest`."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read "4+", "0-12", "3" or "none"."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def has(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


NEVER = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a definition: `kind` names its type, `of` is its struct class or the type of its elements."""

    kind: str
    versions: Versions
    default: Any
    of: str | type[Struct] | None = None
    nullable: Versions = NEVER
    tag: int | None = None
    tagged: Versions = NEVER
    flexible: Versions | None = None
    ignorable: bool = False
    name: str = ""

    def named(self, name: str) -> Field:
        """This field with its name in the class body: set once, when the class is created."""
        object.__setattr__(self, "name", name)
        return self

    def fresh_default(self) -> Any:
        """The default; a new object for lists and structs, which are mutable."""
        if self.default is None:
            return None
        if self.kind == "array":
            return []
        return self.struct() if self.kind == "struct" else self.default

    def struct(self) -> Any:
        """An instance of the nested struct, all defaults."""
        assert isinstance(self.of, type)
        return self.of()


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructType(type):
    """Collects the `Field`s of a class body into `FIELDS`, in wire order, and gives the class slots of their names."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructType:
        fields = tuple(value.named(key) for key, value in namespace.items() if isinstance(value, Field))
        body = {key: value for key, value in namespace.items() if not isinstance(value, Field)}
        body["__slots__"] = tuple(field.name for field in fields)
        body["FIELDS"] = fields
        cls = super().__new__(mcs, name, bases, body, **options)
        if fields:
            _late_constructor(cls, fields)
        return cls

    @property
    def __signature__(cls) -> Signature:
        """The constructor's parameters, for `inspect` and editors."""
        if "FIELDS" not in cls.__dict__:
            raise AttributeError("__signature__")
        fields: tuple[Field, ...] = cls.__dict__["FIELDS"]
        return Signature([Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.fresh_default()) for one in fields])


class _Unset:
    """Stands for "not given" where the default is mutable."""

    def __repr__(self) -> str:
        return "<default>"


def _late_constructor(cls: Any, fields: tuple[Field, ...]) -> None:
    """Give the class an `__init__` that puts the real one in its place on first use.

    A process uses few of the 500 structs, and compiling all constructors took half of the import time.
    """

    def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807
        cls.__init__ = real = _constructor(fields)
        real(self, *args, **values)

    cls.__init__ = __init__


def _constructor(fields: tuple[Field, ...]) -> Any:
    """`__init__(self, *, …)`, generated for its speed and its signature."""
    unset = _Unset()
    names: dict[str, Any] = {"unset": unset}
    parameters, body = [], []
    for field in fields:
        mutable = field.kind in ("array", "struct") and field.default is not None
        names[f"default_{field.name}"] = unset if mutable else field.default
        names[f"fresh_{field.name}"] = field.fresh_default
        parameters.append(f"{field.name}=default_{field.name}")
        value = f"fresh_{field.name}() if {field.name} is unset else {field.name}" if mutable else field.name
        body.append(f"    self.{field.name} = {value}")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(body)
    exec(source, names)
    return names["__init__"]


class Struct(metaclass=StructType):
    """A group of fields. Equal when class and all values are; not hashable, since values may change."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The values that differ from the defaults, long byte strings by their length."""
        values = ((field.name, getattr(self, field.name), field.fresh_default()) for field in self.FIELDS)
        shown = ", ".join(f"{name}={_shown(value)}" for name, value, default in values if value != default)
        return f"{type(self).__qualname__}({shown})"


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>" if len(value) > _SHOWN_BYTES else repr(bytes(value))
    return repr(value)


class Message(Struct):
    """A top-level struct, with the versions that exist and those that are flexible."""

    VERSIONS: ClassVar[Versions]
    FLEXIBLE: ClassVar[Versions]

    def __init_subclass__(cls, *, versions: str | None = None, flexible: str = "none") -> None:
        super().__init_subclass__()
        if versions is not None:
            cls.VERSIONS = Versions.parse(versions)
            cls.FLEXIBLE = Versions.parse(flexible)


class Response(Message):
    """Base of all responses. `answers` is the request's class, which defines key and versions."""

    KEY: ClassVar[int]

    def __init_subclass__(cls, *, answers: type[Request[Any]]) -> None:
        super().__init_subclass__()
        cls.KEY, cls.VERSIONS, cls.FLEXIBLE = answers.KEY, answers.VERSIONS, answers.FLEXIBLE


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Message, Generic[R_co]):
    """Base of all requests; the type parameter is the response's class. A request's class describes its API:

        class DeleteGroupsRequest(
            Request["DeleteGroupsResponse"], key=42, versions="0-2", flexible="2+", client_waits="1+"
        ):
            ROUTE = Route(
                RequestTarget.GROUP_COORDINATOR, RetrySafety.SAME_EFFECT, done_already=(E.GROUP_ID_NOT_FOUND,)
            )
            PERMISSIONS = permissions("DELETE group")
            ERRORS = error_policy(f"{GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP")

    KEY                the API key
    VERSIONS           that have a definition; FLEXIBLE: those with tagged fields (KIP-482)
    DEPRECATED         versions that Kafka 4 has dropped
    SCOPE              who sends it
    FOR_CLIENTS        versions that a client may choose by itself; others mean something else (see `versions`)
    BY_TOPIC_NAME      versions that name topics by their names; later ones by their ids alone (KIP-516)
    FIRST_TRANSACTION_PROTOCOL  versions that do not mean the second transaction protocol (KIP-890)
    CLIENT_WAITS       versions whose throttled response comes at once, so that the client has to wait (KIP-219)
    WITHOUT_CLIENT_ID  versions whose header lacks the client id
    ROUTE              which broker it is sent to, and whether it is retried after a lost response
    PERMISSIONS        the operations that an authorizer has to allow
    ERRORS             the reaction to each error code; ERRORS_BY_USE: that of a use of the API, by the use's name
    """

    KEY: ClassVar[int]
    SCOPE: ClassVar[Scope]
    DEPRECATED: ClassVar[Versions]
    FOR_CLIENTS: ClassVar[Versions]
    BY_TOPIC_NAME: ClassVar[Versions]
    FIRST_TRANSACTION_PROTOCOL: ClassVar[Versions]
    CLIENT_WAITS: ClassVar[Versions]
    WITHOUT_CLIENT_ID: ClassVar[Versions]
    ROUTE: ClassVar[Route] = NOT_SENT
    PERMISSIONS: ClassVar[Permissions] = NONE
    ERRORS: ClassVar[ErrorPolicy] = NO_ERRORS
    ERRORS_BY_USE: ClassVar[Mapping[str, ErrorPolicy]] = MappingProxyType({})

    def __init_subclass__(
        cls,
        *,
        key: int,
        versions: str,
        flexible: str = "none",
        scope: Scope = "client",
        deprecated: str = "none",
        for_clients: str = "0+",
        by_topic_name: str = "0+",
        first_transaction_protocol: str = "0+",
        client_waits: str = "none",
        without_client_id: str = "none",
    ) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.KEY = key
        cls.SCOPE = scope
        cls.DEPRECATED = Versions.parse(deprecated)
        cls.FOR_CLIENTS = Versions.parse(for_clients)
        cls.BY_TOPIC_NAME = Versions.parse(by_topic_name)
        cls.FIRST_TRANSACTION_PROTOCOL = Versions.parse(first_transaction_protocol)
        cls.CLIENT_WAITS = Versions.parse(client_waits)
        cls.WITHOUT_CLIENT_ID = Versions.parse(without_client_id)
        REQUESTS[cls.__name__.removesuffix("Request")] = cls

    @property
    def is_answered(self) -> bool:
        """Whether the broker sends a response at all."""
        return True


#: The request classes that have been imported so far, by the name of their API.
REQUESTS: Final[dict[str, type[Request[Any]]]] = {}

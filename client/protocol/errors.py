"""The exceptions of encoding and decoding.

    ProtocolError
    ├── DecodeError             the peer's bytes are not a message of this class and version
    ├── EncodeError             a value does not fit its field in this version
    │   ├── UnsupportedFieldError   a field is set that this version does not have
    │   └── JsonError               a JSON document does not describe a message
    └── UnsupportedVersionError     no version of an API that both sides support, or one that has no definition

None of them is retriable. All of them can be pickled with their address, because tasks pass them from worker processes
to the driver.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ProtocolError(Exception):
    """Base of this package's errors.

    `reason` says what is wrong, `message` names the message class ("" where unknown), `version` is the API version
    (-1 where unknown).
    """

    retriable: ClassVar[bool] = False

    def __init__(self, reason: str, *, message: str = "", version: int = -1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.version = version

    def __str__(self) -> str:
        return f"{self._address()}: {self.reason}" if self.message else self.reason

    def _address(self) -> str:
        return f"{self.message} v{self.version}" if self.version >= 0 else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class DecodeError(ProtocolError):
    """Bytes that are not a message of the expected class and version.

    `position` is the byte where reading stopped, counted from the start of the given data (for a whole
    response: from the correlation id on).
    """

    def __init__(self, reason: str, position: int, *, message: str = "", version: int = -1) -> None:
        super().__init__(reason, message=message, version=version)
        self.position = position

    def __str__(self) -> str:
        return f"{super().__str__()} (at byte {self.position})"


class EncodeError(ProtocolError):
    """A value that cannot be written: out of range, of the wrong type, or null where null is not allowed.

    `field` is its path within the message, such as `topics[0].partitions[2].fetch_offset`.
    """

    def __init__(self, reason: str, *, field: str = "", message: str = "", version: int = -1) -> None:
        super().__init__(reason, message=message, version=version)
        self.field = field

    def _address(self) -> str:
        return f"{super()._address()} {self.field}".rstrip()


class UnsupportedFieldError(EncodeError):
    """A field that the version does not have is set to something other than its default."""


class JsonError(EncodeError):
    """A JSON value that does not fit a field. `field` is its path in JSON's names (`topics[0].partitionIndex`)."""


class UnsupportedVersionError(ProtocolError):
    """There is no version of the API that both sides support, or the requested version has no definition here.

    `ours` and `theirs` are (lowest, highest); `theirs` is None if the peer does not offer the API at all.
    """

    def __init__(
        self,
        reason: str,
        *,
        message: str,
        version: int = -1,
        ours: tuple[int, int] | None = None,
        theirs: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(reason, message=message, version=version)
        self.ours = ours
        self.theirs = theirs


def _rebuild(kind: type[ProtocolError], args: tuple[Any, ...], state: dict[str, Any]) -> ProtocolError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error

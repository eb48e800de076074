"""Client properties from the command line: a Java properties file, `-X key=value`, `--bootstrap-servers`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kseg.client.config import ClientConfig
from kseg.etl.errors import Diagnostic
from kseg.jobs.api import bad_argument
from kseg.jobs.output.redaction import REDACTOR

CLIENT_ID = "kseg-api"
OPTION: Final = "--command-config"

_SECRET = re.compile(r"password|secret|jaas|token|\.key$|credential", re.IGNORECASE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def client_config(
    bootstrap_servers: str | None, file: str | None, pairs: Sequence[str], *, controllers: str | None = None
) -> ClientConfig:
    """The client's configuration by `client_properties`.

    Raises ConfigurationError, and ConfigError for properties that the client rejects.
    """
    properties = client_properties(bootstrap_servers, file, pairs, controllers=controllers)
    return ClientConfig.from_properties(properties, client_id=CLIENT_ID)


def client_properties(
    bootstrap_servers: str | None, file: str | None, pairs: Sequence[str], *, controllers: str | None = None
) -> dict[str, str]:
    """Client properties from the options, the later over the earlier: the file, `-X`, `--bootstrap-servers`,
    `--bootstrap-controllers`.

    Values that may be secrets are masked in all that this process says from here on. Raises ConfigurationError.
    """
    properties: dict[str, str] = {}
    if file is not None:
        properties |= PropertiesFile.read(file).values
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found or not key.strip():
            # A value without a key may be a secret.
            raise bad_argument("-X", "is not of the form key=value", "for example -X client.id=me")
        properties[key.strip()] = value
    named = {"bootstrap.servers": bootstrap_servers, "bootstrap.controllers": controllers}
    given = {key: value for key, value in named.items() if value is not None}
    if given:
        properties = {key: value for key, value in properties.items() if key not in named} | given
    REDACTOR.learn(value for key, value in properties.items() if may_be_secret(key))
    return properties


def may_be_secret(name: str) -> bool:
    """Whether a property of this name may hold a secret."""
    return _SECRET.search(name) is not None


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """The file of `--command-config`. lines: the line of each name, from 1 on."""

    file: str
    values: Mapping[str, str]
    lines: Mapping[str, int]

    @classmethod
    def read(cls, file: str) -> PropertiesFile:
        """Raises ConfigurationError: it cannot be read."""
        remedy = "give the path of a properties file"
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise bad_argument(
                OPTION, f"cannot read {file}: {error.strerror or type(error).__name__}", remedy
            ) from None
        except UnicodeDecodeError:
            raise bad_argument(OPTION, f"{file} is not UTF-8 text", remedy) from None
        return cls.of_text(file, text)

    @classmethod
    def of_text(cls, file: str, text: str) -> PropertiesFile:
        """A Java properties file: comments, continued lines, `=`, `:` or blanks between key and value, escapes.

        https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
        """
        entries = list(_entries(text))
        values = {name: value for _, name, value in entries}
        return cls(file, values, {name: line for line, name, _ in entries})

    def placed(self, faults: Iterable[Diagnostic]) -> list[Diagnostic]:
        """A job's faults, those of this file's properties at their lines here."""
        names = {f"kafka.{name}": name for name in self.values}
        return [self._fault(names[fault.path], fault) if fault.path in names else fault for fault in faults]

    def _fault(self, name: str, fault: Diagnostic) -> Diagnostic:
        return replace(fault, path=f"{OPTION} {self.file}", message=f"{name}: {fault.message}", line=self.lines[name])


def _entries(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and value."""
    for number, line in _logical_lines(text):
        parts = re.fullmatch(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, flags=re.DOTALL)
        assert parts is not None  # every part may be empty
        yield number, _unescaped(parts[1]), _unescaped(parts[2])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each with the number of its first line."""
    held, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        part = line.lstrip()
        if not held and (not part or part[0] in "#!"):
            continue
        first = first if held else number
        slashes = len(part) - len(part.rstrip("\\"))
        if slashes % 2:
            held += part[:-1]
            continue
        yield first, held + part
        held = ""
    if held:
        yield first, held


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        letter = found[1]
        return chr(int(letter[1:], 16)) if len(letter) > 1 else _ESCAPES.get(letter, letter)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, text, flags=re.DOTALL)

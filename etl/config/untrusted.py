"""Job files of people who may not run programs here: what an operator can have refused, by two environment variables.

    KSEG_UNTRUSTED_JOBS=1          job files are untrusted; nothing in a job file changes that
    KSEG_UNTRUSTED_ROOT=s3://lake/team     where their ledgers, tables, log files, schemas and reports may be

    refused                                     because it
    ------------------------------------------  -------------------------------------------------------------------
    steps other than `sql`                      run code
    `sasl.oauthbearer.token.callback`           runs code
    SQL that calls Java, runs scripts, names    runs code, or reads files: see `sql_findings`
      files, or is more than one query
    `spark.conf`, `spark.master`,               load classes, or send the run and its secrets elsewhere
      `spark.remote`, `submit_options`
    `${file:…}`                                 reads files of whoever runs the job
    paths outside of the root                   read and write what the operator's rights allow

Everything is checked in what the file says, before any of it is used. Environment variables stay readable: give a
driver of untrusted jobs an environment without secrets of others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from kseg.etl.config.document import PathKey
from kseg.etl.config.faults import Finding
from kseg.etl.config.paths import lies_within, normal_path, scheme_of
from kseg.etl.config.properties import Properties
from kseg.etl.config.secrets import names_file
from kseg.etl.errors import ConfigurationError

VARIABLE: Final = "KSEG_UNTRUSTED_JOBS"
ROOT: Final = "KSEG_UNTRUSTED_ROOT"
_REMEDY: Final = f"remove it: the operator declares job files untrusted ({VARIABLE})"
_SPARK: Final = ("conf", "master", "remote")
_CODE_PROPERTIES: Final = ("sasl.oauthbearer.token.callback",)
_FILE_PROPERTIES: Final = re.compile(
    r"(location|file|path|keytab|service_account|application_credentials)$", re.IGNORECASE
)
_FILE_IN_JAAS: Final = re.compile(r"(?i)\b(keytab|ticketcache)\s*=")

_TOKEN: Final = re.compile(
    r"""(?P<comment> --[^\r\n]* | /\*.*?\*/ )
      | (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
      | (?P<quoted> `(?:[^`]|``)*` )
      | (?P<word> \w+ )
      | (?P<other> \S )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME: Final = re.compile(r"[\w .@#-]*")
#: Functions that call Java by name, name another function by a text, or read a file of a path.
_CALLS: Final = frozenset({"reflect", "try_reflect", "java_method", "identifier", "from_protobuf", "to_protobuf"})
_BEGINNINGS: Final = ("select", "with", "from", "values")
_WRITES: Final = frozenset({"insert", "merge", "update", "delete"})


@dataclass(frozen=True, slots=True)
class Restrictions:
    """What holds for untrusted job files. root: one absolute path or URL, as `normal_path` gives it."""

    root: str

    @classmethod
    def of_process(cls) -> Restrictions | None:
        """Those of this process' environment; None where job files are trusted.

        Raises:
            ConfigurationError: the variable is neither 0 nor 1, or there is no root.
        """
        value = os.environ.get(VARIABLE, "").strip()
        if value in ("", "0"):
            return None
        if value != "1":
            raise ConfigurationError.of(VARIABLE, "is neither 0 nor 1", "set it to 1, or unset it")
        root = os.environ.get(ROOT, "").strip()
        try:
            return cls(normal_path(root, Path("/")))
        except ValueError as error:
            remedy = "set it to the folder or URL that job files may use, as in s3://lake/team"
            raise ConfigurationError.of(ROOT, str(error), remedy) from None

    def allow(self, place: str) -> bool:
        """Whether an absolute path or URL lies within the root; a local one by what its links lead to."""
        if scheme_of(place) == "file" and scheme_of(self.root) == "file":
            return lies_within(os.path.realpath(place), os.path.realpath(self.root))
        if ".." in place.split("/") or "?" in place:  # of log files' URLs, which are kept as they are written
            return False
        return lies_within(place, self.root)

    def findings(self, raw: Mapping[str, Any], folder: Path) -> Iterator[Finding]:
        """What is refused in a document as it is written, paths excepted: their types ask `allow`."""
        yield from _file_references(raw, ())
        for key in _SPARK:
            if _within(raw, ("spark", key)) is not None:
                yield Finding(("spark", key), "is not allowed in an untrusted job file", _REMEDY)
        if _within(raw, ("airflow", "execution", "submit_options")) is not None:
            yield Finding(
                ("airflow", "execution", "submit_options"), "is not allowed in an untrusted job file", _REMEDY
            )
        steps = raw.get("transform")
        for number, step in enumerate(steps if isinstance(steps, list | tuple) else ()):
            yield from _step_findings(step, ("transform", number))
        for place in (("kafka",), ("registry",), ("source", "segments", "options")):
            yield from self._property_findings(_within(raw, place), place, folder)

    def _property_findings(self, given: Any, section: tuple[str, ...], folder: Path) -> Iterator[Finding]:
        for name, text in Properties.read(given, section, folder, {}).written.items():
            in_login = name.endswith("jaas.config") and _FILE_IN_JAAS.search(text)
            if name in _CODE_PROPERTIES:
                yield Finding((*section, name), "runs code, which an untrusted job file must not", _REMEDY)
            elif in_login or text.strip().lower().startswith("file:"):
                yield Finding((*section, name), "names a file", _REMEDY)
            elif _FILE_PROPERTIES.search(name) and not self._allow_written(text, folder):
                yield Finding((*section, name), f"lies outside of {self.root}", f"move the file there ({ROOT})")

    def _allow_written(self, text: str, folder: Path) -> bool:
        if "${" in text:
            return False
        try:
            return self.allow(normal_path(text, folder))
        except ValueError:
            return False


def _within(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _file_references(value: Any, path: PathKey) -> Iterator[Finding]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _file_references(part, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _file_references(part, (*path, number))
    elif isinstance(value, str) and names_file(value):
        yield Finding(path, "refers to a file, which an untrusted job file must not", _REMEDY)


def _step_findings(step: Any, path: PathKey) -> Iterator[Finding]:
    if not isinstance(step, Mapping):
        return  # no step at all: its type says so
    for key, value in step.items():
        if key != "sql":
            yield Finding((*path, str(key)), "runs code, which an untrusted job file must not", _REMEDY)
        elif isinstance(value, str):
            for problem in sql_problems(value):
                yield Finding((*path, "sql"), problem, _REMEDY)


def sql_problems(query: str) -> Iterator[str]:
    """What an untrusted query must not have.

    It is one query that writes nothing; it calls no function that calls Java, is named by a text, or reads a path; it
    runs no script (`TRANSFORM … USING '…'`); it has no variable of Spark's (`${env:…}`); and none of its quoted names
    may be a path, as that of csv.`/etc/passwd` is. Where comments or quotations could be read in two ways, they are
    read as SQL.
    """
    tokens = [_Token.of(found) for found in _TOKEN.finditer(query) if found.lastgroup != "comment"]
    if "${" in query:
        yield "has a variable, which Spark would fill in"
    if next((token.name for token in tokens if token.text != "("), "") not in _BEGINNINGS:
        yield "is not a query: it begins with none of SELECT, WITH, FROM and VALUES"
    if any(token.kind == "other" and token.text in (";", "'", '"', "`") for token in tokens):
        yield "is more than one query, or has a quotation that does not end"
    for before, token, after in zip([_NOTHING, *tokens], tokens, [*tokens[1:], _NOTHING], strict=False):
        if after.text == "(" and (token.name in _CALLS or token.kind == "text"):
            yield f"calls {token.name or token.text}"
        if token.name == "using" and after.kind == "text":
            yield "runs a script"
        if token.kind == "word" and token.name in _WRITES:
            yield f"has {token.text}, which writes; a column of this name needs backticks"
        if token.kind == "text" and before.text == ".":
            yield f"has a name that may be a path: {token.text}"
        if token.kind == "quoted" and not _PLAIN_NAME.fullmatch(token.name):
            yield f"has a name that may be a path: {token.text}"


class _Token(NamedTuple):
    """name: in small letters, of words and of names in backticks."""

    kind: str
    text: str
    name: str

    @classmethod
    def of(cls, found: re.Match[str]) -> _Token:
        kind, text = str(found.lastgroup), found[0]
        return cls(kind, text, text.strip("`").lower() if kind in ("word", "quoted") else "")


_NOTHING: Final = _Token("", "", "")

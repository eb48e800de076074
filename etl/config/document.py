"""A job file's YAML as plain values, with the line of every key and item.

Differences to plain YAML 1.1, each because the surprise would cost a night:

* a key given twice is a fault (YAML keeps the last, silently);
* dates stay text (`topics: [2026-01-01]` names a topic; times are read where a time is expected);
* numbers keep their text (`umask-mode: 027` is 23 to YAML, and a property's value is what the file says);
* a key is text, as the file has it (`columns: {on: string, 1: string}` names the columns `on` and `1`);
* `<<` merges and anchors work, a value that holds itself is a fault, and a document may not expand without bound.

Messages never quote the text of a scalar: it may be a secret that should not be in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from kseg.etl.config.written_numbers import WrittenFloat, WrittenInt, as_written, key_as_written
from kseg.etl.errors import Diagnostic

PathKey = tuple[str | int, ...]

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

MAX_BYTES = 1 << 20
_MAX_NODES = 100_000


class _Loader(yaml.SafeLoader):
    """Safe YAML whose dates stay text, and `=`, to YAML 1.1 the key of a default value. anchored: the ids of nodes with
    an anchor."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.anchored: set[int] = set()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchored = getattr(event, "anchor", None) is not None
        node = super().compose_node(parent, index)
        if anchored:
            self.anchored.add(id(node))
        return node


_AS_TEXT: Final = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _AS_TEXT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(slots=True)
class Document:
    """A parsed file: `value` (None where it could not be parsed), faults found on the way, and lines by path.

    booleans: those of the file with their text. nulls: values that are written as `null` or `~`, and not left empty.
    anchored: scalars with an anchor, or that are an alias.
    """

    value: Any = None
    faults: list[Diagnostic] = field(default_factory=list)
    lines: dict[PathKey, int] = field(default_factory=dict)
    booleans: dict[PathKey, tuple[bool, str]] = field(default_factory=dict)
    nulls: set[PathKey] = field(default_factory=set)
    anchored: set[PathKey] = field(default_factory=set)

    def line(self, path: PathKey) -> int | None:
        """The 1-based line of this path, or of its nearest ancestor in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def with_lines(faults: Iterable[Diagnostic], file: str) -> list[Diagnostic]:
    """Faults that were found after the file had been read, in its order, each with the line of its path or of the
    nearest ancestor there."""
    lines = {dotted(path): line for path, line in read_document(Path(file)).lines.items()}
    found = [replace(fault, line=fault.line or _nearest(fault.path, lines)) for fault in faults]
    return sorted(found, key=lambda fault: fault.line or 0)


def _nearest(path: str, lines: dict[str, int]) -> int | None:
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)


def dotted(path: PathKey) -> str:
    """`("transform", 1, "sql")` -> `transform[1].sql`; the whole document is the empty text."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def read_document(file: Path) -> Document:
    """Read and parse a job file. Everything that is wrong with it is in `.faults`."""
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Document(faults=[Diagnostic("", f"cannot be read: {reason}", "give the path to a job file")])
    if len(data) > MAX_BYTES:
        return Document(faults=[Diagnostic("", f"is larger than {MAX_BYTES} bytes", "check that this is a job file")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Document(faults=[Diagnostic("", "is not UTF-8 text", "save the job file as UTF-8")])
    return parse_document(text)


def parse_document(text: str) -> Document:
    """Parse YAML text. Everything that is wrong with it is in `.faults`."""
    document = Document()
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                document.faults.append(Diagnostic("", "is empty", "start with `version: 1` and `name:`"))
            else:
                document.value = _Builder(loader, document).build(node, ())
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.value = None
        line = mark.line + 1 if mark else None
        if mark is not None and _is_tab(error, mark, text):
            document.faults.append(Diagnostic("", "is not YAML: it has a tab", "indent with spaces", line))
        else:
            remedy = "check the indentation, and whether quotes and brackets are closed, here and in the lines above"
            document.faults.append(Diagnostic("", f"is not YAML: {_without_quotes(error.problem)}", remedy, line))
    except yaml.YAMLError:
        document.value = None
        remedy = "remove control characters; save it as UTF-8"
        document.faults.append(Diagnostic("", "is not YAML: it has characters that YAML does not allow", remedy))
    except (RecursionError, _TooLargeError):
        document.value = None
        document.faults.append(
            Diagnostic("", "is nested too deeply, or expands to too many values", "write the values without anchors")
        )
    return document


def plain_scalar(text: str) -> Any:
    """What a file has that writes this text as a value without quotes: a number with its text, true or false, or text;
    None for null, and for a number that is too long."""
    loader = _Loader("")
    try:
        tag: str = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return _Builder(loader, Document()).scalar(yaml.ScalarNode(tag, text, loader.get_mark()), ())
    finally:
        loader.dispose()


def _is_tab(error: yaml.MarkedYAMLError, mark: yaml.Mark, text: str) -> bool:
    """Whether the parser has stopped at a tab, where it accepts only spaces."""
    return "cannot start any token" in (error.problem or "") and text[mark.index : mark.index + 1] == "\t"


def _without_quotes(problem: str | None) -> str:
    """The parser's words without the file's: it quotes tokens, and a token may be a secret (`password: *abc`)."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "…", problem or "it cannot be parsed")


class _TooLargeError(Exception):
    pass


class _Builder:
    """Nodes to values, noting lines and double keys on the way."""

    def __init__(self, loader: _Loader, document: Document) -> None:
        self._loader = loader
        self._document = document
        self._nodes = 0
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: PathKey) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES or id(node) in self._open:
            raise _TooLargeError
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            value = self.scalar(node, path)
            if isinstance(value, bool):
                self._document.booleans[path] = value, node.value
            if value is None and node.value:
                self._document.nulls.add(path)
            if id(node) in self._loader.anchored:
                self._document.anchored.add(path)
            return value
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(child, (*path, index)) for index, child in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, path: PathKey) -> dict[str, Any]:
        assert isinstance(node, yaml.MappingNode)
        own = {id(key) for key, _ in node.value}
        values: dict[str, Any] = {}
        own_keys: set[str] = set()
        for key_node, value_node in self._pairs(node):
            key = self._key(key_node, path)
            if key is None:
                remedy = "write keys as text; put a name such as null into quotes"
                self._fault(path, "a key is not text or a number", remedy, key_node)
                continue
            place = (*path, str(key))  # as text: an integer in a path is a list's index
            if key in own_keys and id(key_node) in own:
                self._fault(place, "is given twice", "keep one of them", key_node)
                continue
            if id(key_node) in own:
                own_keys.add(key)
            self._document.lines[place] = key_node.start_mark.line + 1
            values[key] = self.build(value_node, place)
        return values

    def _key(self, node: yaml.Node, path: PathKey) -> str | None:
        """The key's text; None for what is no name, such as null."""
        value = self.scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool | WrittenInt | WrittenFloat):
            return key_as_written(node.value, value)
        return value if isinstance(value, str) else None

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Merged keys first, so that the mapping's own win."""
        own: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                own.append((key, value))
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):
                if not isinstance(source, yaml.MappingNode) or id(source) in self._open:
                    raise yaml.constructor.ConstructorError(
                        None, None, "a merge (<<) takes a mapping or a list of mappings", value.start_mark
                    )
                self._nodes += len(source.value)
                if self._nodes > _MAX_NODES:
                    raise _TooLargeError
                yield from self._pairs(source)
        yield from own

    def scalar(self, node: yaml.ScalarNode, path: PathKey) -> Any:
        if node.tag in _NUMBERS and ":" in node.value:
            # Base 60 in YAML 1.1, text in YAML 1.2: nobody means it, and its time grows with the square of its length.
            return node.value
        try:
            value = self._loader.construct_object(node)
        except (yaml.constructor.ConstructorError, ValueError, OverflowError, LookupError):
            # Own words: the constructor's name the tag, and Python's quote the value. LookupError: PyYAML looks up the
            # words of `!!bool`, and the sign of `!!int` and `!!float`, without a check.
            self._fault(path, "has a YAML tag that is not supported", "write text, a number, true or false", node)
            return None
        return as_written(value, node.value) if node.tag in _NUMBERS else value

    def _fault(self, path: PathKey, message: str, remedy: str, node: yaml.Node) -> None:
        self._document.faults.append(Diagnostic(dotted(path), message, remedy, node.start_mark.line + 1))

"""Commands of `kseg` as pages and messages show them, and whether the command line takes them.

In a block of a page stands a whole command: what it lacks or does not know is an error. In a sentence or a message it
may be shortened (`kseg ingest --report`), and words of the sentence may follow it: only its name and its options count.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import click

from kseg.jobs.cli import COMMANDS, cli

_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_SHELLS = {"bash", "console", "sh", "text"}
#: The program in a line of shell: by its name, by a path, behind `$(`.
_PROGRAM = re.compile(r"(?:(?<=[\s(\"'])|^)(?:[\w./$~-]*/)?kseg (?=[a-z-])", re.MULTILINE)
_SPAN = re.compile(r"`kseg ([^`]+)`")
_MENTION = re.compile(r"(?<![\w./-])kseg ([a-z]+\b[^;`|()\"]*)")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
#: What stands for a value that the reader knows.
_PLACEHOLDER = re.compile(r"…|[A-Z][A-Z_]*|\$\{?\w+\}?|VALUE")


class Shown(NamedTuple):
    """A command somewhere: its words behind `kseg`, and whether it is whole."""

    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return shlex.join(("kseg", *self.words))


def on_page(page: str) -> Iterator[Shown]:
    """The commands of a page of Markdown: in blocks of shell, and between backquotes."""
    for _, language, text in _BLOCK.findall(page):
        if language in _SHELLS:
            yield from in_shell(text)
    for span in _SPAN.findall(_BLOCK.sub("", page)):
        words = _words(span)
        if re.fullmatch(r"[a-z]+|-.*", words[0]):  # not `kseg COMMAND`
            yield Shown(words, whole=False)


def in_shell(text: str) -> Iterator[Shown]:
    """The commands of some lines of shell."""
    for line in re.sub(r"\\\n *", " ", text).splitlines():
        code = re.sub(r"(^|\s)#\s.*", "", line)
        for program in _PROGRAM.finditer(code):
            yield Shown(_words(code[program.end() :]), whole=True)


def in_source(source: str) -> Iterator[Shown]:
    """The commands that strings of a module name, such as those of messages; what is filled in stands as VALUE."""
    for text in _strings(ast.parse(source)) if "kseg " in source else ():
        for mention in _MENTION.findall(text):
            sentence = re.split(r"[.:,](?:\s|$)|\n\s*\n|\bkseg ", mention)[0]
            name, *rest = sentence.split()
            below = [word for word in rest[:1] if isinstance(_command(name), click.Group)]
            if name in COMMANDS:  # else: what `kseg` is or does
                yield Shown((name, *below, *_OPTION.findall(sentence)), whole=False)


def _strings(tree: ast.AST) -> Iterator[str]:
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def _words(line: str) -> tuple[str, ...]:
    """The words of one command, up to where the shell ends it."""
    reader = shlex.shlex(re.sub(r" \d(?=[<>])", " ", line), posix=True, punctuation_chars="|;&<>()")
    reader.whitespace_split = True
    words: list[str] = []
    try:
        for word in reader:
            if word and set(word) <= set("|;&<>()"):
                break
            words.append(word)
    except ValueError:  # a quotation that ends in another line: here only its beginning counts
        words.append("VALUE")
    return tuple(words)


def _command(name: str) -> click.Command | None:
    return cli.get_command(click.Context(cli), name)


def fault(shown: Shown) -> str | None:
    """Why the command line does not take it; None if it does."""
    command: click.Command = cli
    context = click.Context(cli, info_name="kseg")
    words = [word.strip("[]") for word in shown.words]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            return f"no such command: {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    if not shown.whole:
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [
            word for word in words if word.startswith("-") and word.split("=")[0] not in {*known, "--help", "-h"}
        ]
        return f"no such option: {unknown[0]}" if unknown else None
    try:
        return _fault_of_words(command, context, [word for word in words if word])
    except click.UsageError as error:
        return error.format_message()


def _fault_of_words(command: click.Command, context: click.Context, words: list[str]) -> str | None:
    values, rest, _ = command.make_parser(context).parse_args(words)
    for parameter in command.params:
        value = values.get(parameter.name or "")
        given = [one for one in (value if isinstance(value, list | tuple) else [value]) if isinstance(one, str)]
        if parameter.required and not given:
            return f"missing: {parameter.human_readable_name}"
        if isinstance(parameter.type, click.Choice | click.types.IntParamType):
            for one in given:
                if not _PLACEHOLDER.fullmatch(one):
                    parameter.type(one, parameter, context)
    return f"one word too many: {rest[0]}" if rest else None

"""Which modules of the user a job's functions need, found without running them; packed for executors.

A job file names functions as `module:function`. Executors need that module and every module of the user that it
imports, directly or not. A module is the user's if it is neither of the standard library nor installed by pip, below
`site-packages` or elsewhere: executors get installed packages from their own environment. A package is packed whole,
since it may load modules and data files in ways that its source does not show (`importlib.import_module`).

Imports are read from the syntax tree. One that cannot be found is an error, unless the code itself allows for that: in
a `try` that catches ImportError, in `suppress(ImportError)`, or below an `if` on the platform, Python's version or
`__name__`. Those below `if TYPE_CHECKING` are left out.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from kseg.etl.errors import ConfigurationError
from kseg.etl.transform.python_archive import zipped
from kseg.etl.transform.transform import transform_of

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

OURS = frozenset({"kseg", "pyspark_kseg"})
_SPARK = frozenset({"pyspark", "py4j"})  # spark-submit takes them from Spark's own folder
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_CONDITIONS = frozenset({"version_info", "platform", "__name__"})
_REMEDY = "put it beside the job file or onto PYTHONPATH, or install its package"
_CALLBACK = "sasl.oauthbearer.token.callback"


@dataclass(frozen=True, slots=True)
class UserModule:
    """A top-level module or package. paths: its file, or its folder; a namespace package may have several."""

    name: str
    paths: tuple[Path, ...]

    def files(self) -> Iterator[tuple[str, Path]]:
        """Every file by its path in an archive, hidden ones left out: no module is hidden, and secrets often are
        (`.env`, `.netrc`, `.git/config`)."""
        for top in self.paths:
            if top.is_file():
                yield top.name, top
                continue
            for path in sorted(top.rglob("*")):
                below = path.relative_to(top).parts
                hidden = any(part.startswith(".") for part in below)
                if path.is_file() and "__pycache__" not in below and not hidden:
                    yield path.relative_to(top.parent).as_posix(), path


def references_of(job: Job) -> list[str]:
    """All that a job file names as `module:function` for executors: steps, a token callback, a layout of log files."""
    found = [reference for step in transform_of(job) for reference in step.references]
    found.append((job.kafka or {}).get(_CALLBACK, ""))
    found.append(job.source.segments.layout if job.source.segments else "")
    return [text for text in found if _is_reference(text)]


def modules_needed(references: Iterable[str], folders: Iterable[Path] = ()) -> tuple[UserModule, ...]:
    """The user's modules that these functions (`module:function`) need, by name.

    folders: searched before Python's own path.

    Raises:
        ConfigurationError: a module, or what one imports, is not found or cannot be packed.
    """
    importlib.invalidate_caches()
    search = _Search([*map(str, folders), *sys.path])
    for reference in references:
        search.follow(reference.partition(":")[0], f"the job file names {reference}")
    return tuple(search.modules[name] for name in sorted(search.modules))


def modules_zip(modules: Iterable[UserModule]) -> bytes:
    """An archive that Python imports these modules from."""
    return zipped({name: path.read_bytes() for module in modules for name, path in module.files()})


def _is_reference(text: str) -> bool:
    module, colon, function = text.partition(":")
    return bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


@dataclass
class _Search:
    """A walk along imports. path: as sys.path; modules: the user's, by top-level name; seen: by full name."""

    path: list[str]
    modules: dict[str, UserModule] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def follow(self, name: str, importer: str, *, optional: bool = False) -> None:
        """Take a module up, its parent packages, and what they import."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in OURS or top in _SPARK:
            return
        parts = name.split(".")
        path: Sequence[str] | None = self.path
        for end in range(1, len(parts) + 1):
            full = ".".join(parts[:end])
            spec = _find(full, path) if path is not None else None
            if spec is None:
                if not optional:
                    raise _not_found(full, importer)
                return
            if end == 1 and _installed(spec):
                return
            path = spec.submodule_search_locations
            if full not in self.seen:
                self.seen.add(full)
                self._add(full, spec, importer)

    def _add(self, name: str, spec: ModuleSpec, importer: str) -> None:
        source = _source(name, spec, importer)
        if "." not in name:
            folders = spec.submodule_search_locations
            paths = tuple(map(Path, folders)) if folders is not None else (Path(spec.origin or ""),)
            self.modules[name] = UserModule(name, paths)
        if source is not None:
            for imported in _imports(source, name, package=spec.submodule_search_locations is not None):
                self._follow(imported, str(source))

    def _follow(self, imported: _Import, importer: str) -> None:
        where = f"line {imported.line} of {importer} imports it"
        self.follow(imported.module, where, optional=imported.optional)
        for name in imported.names:  # each may be a module below it, or a name in it
            self.follow(f"{imported.module}.{name}", where, optional=True)


@dataclass(frozen=True, slots=True)
class _Import:
    module: str
    names: tuple[str, ...]
    line: int
    optional: bool


def _find(name: str, path: Sequence[str]) -> ModuleSpec | None:
    """`importlib.util.find_spec` on another path, without importing parent packages or asking `sys.modules`."""
    spec = PathFinder.find_spec(name, path)
    if spec is not None and (spec.origin is not None or "." in name):
        return spec
    for finder in sys.meta_path:  # of editable installs
        if finder not in (PathFinder, BuiltinImporter, FrozenImporter) and hasattr(finder, "find_spec"):
            hooked = finder.find_spec(name, None if "." not in name else path)
            if hooked is not None:
                return hooked
    return spec


def _installed(spec: ModuleSpec) -> bool:
    places = [Path(place) for place in (spec.submodule_search_locations or [spec.origin or ""])]
    if any(_INSTALLED & set(place.parts) for place in places):
        return True
    return all(place.name in _names_installed_in(place.parent) for place in places)


@cache
def _names_installed_in(folder: Path) -> frozenset[str]:
    """The names in a folder that pip installed there (`pip install --target`), by the distributions' records.

    A source folder of an editable install has metadata, too, but no such record.
    """
    found = metadata.distributions(path=[str(folder)]) if folder.is_dir() else ()
    recorded = (one for one in found if one.read_text("RECORD") is not None)
    return frozenset(file.parts[0] for one in recorded for file in one.files or ())


def _source(name: str, spec: ModuleSpec, importer: str) -> Path | None:
    """A module's source file; None for a package without an `__init__.py`. Raises ConfigurationError: it has none."""
    if spec.origin is None:
        return None
    source = Path(spec.origin)
    if isinstance(spec.loader, ExtensionFileLoader):
        raise ConfigurationError.of(
            "transform",
            f"module {name} is compiled code ({source}), which Python cannot import from an archive; {importer}",
            "install its package here and in the executors' environment",
        )
    if source.suffix != ".py" or not source.is_file():
        raise ConfigurationError.of(
            "transform",
            f"module {name} has no source file, it comes from {source}; {importer}",
            "unpack it beside the job file, or install its package",
        )
    return source


def _not_found(name: str, importer: str) -> ConfigurationError:
    return ConfigurationError.of("transform", f"there is no module {name}; {importer}", _REMEDY)


def _imports(source: Path, module: str, *, package: bool) -> Iterator[_Import]:
    """The imports of a source file, wherever they are in it. Raises ConfigurationError: it is no Python."""
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError.of("transform", f"{source} cannot be parsed: {error}") from error
    parent = module if package else module.rpartition(".")[0]
    yield from _walk(tree.body, parent, optional=False)


def _walk(nodes: Iterable[ast.AST], parent: str, *, optional: bool) -> Iterator[_Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (_Import(alias.name, (), node.lineno, optional) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                name = importlib.util.resolve_name(base, parent) if node.level else base
            except ImportError:
                continue  # a relative import beyond the top: it fails wherever it runs
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            yield _Import(name, names, node.lineno, optional)
        elif isinstance(node, (ast.Try, ast.TryStar)):
            caught = optional or any(_catches(handler.type) for handler in node.handlers)
            yield from _walk(node.body, parent, optional=caught)
            yield from _walk([*node.handlers, *node.orelse], parent, optional=caught)
            yield from _walk(node.finalbody, parent, optional=optional)
        elif isinstance(node, ast.If):
            names_in = _names(node.test)
            inside = optional or bool(names_in & _CONDITIONS) or names_in >= {"os", "name"}
            if "TYPE_CHECKING" not in names_in:
                yield from _walk(node.body, parent, optional=inside)
            yield from _walk(node.orelse, parent, optional=inside)
        elif isinstance(node, ast.With):
            caught = optional or any(_names(item.context_expr) >= {"suppress"} for item in node.items)
            yield from _walk(node.body, parent, optional=caught)
        else:
            if isinstance(node, ast.Call) and (imported := _by_name(node)):
                yield _Import(imported, (), node.lineno, optional)
            yield from _walk(ast.iter_child_nodes(node), parent, optional=optional)


def _by_name(call: ast.Call) -> str | None:
    """The module of `importlib.import_module("name")`."""
    match call.args:
        case [ast.Constant(value=str(name))] if "import_module" in _names(call.func) and not name.startswith("."):
            return name
    return None


def _catches(handled: ast.expr | None) -> bool:
    return handled is None or bool(_names(handled) & _CAUGHT)


def _names(expression: ast.expr) -> set[str]:
    """Every name and attribute in an expression."""
    nodes = list(ast.walk(expression))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }

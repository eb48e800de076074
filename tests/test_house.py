"""The layout of the source: which folders there are, what lies in their roots, no import circle, no file too long; and
its words: one name for one thing, docstrings that say what a thing is. What is left to mend is listed here, and the
lists only become shorter."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("client", "etl", "jobs", "segment_reader")
MOST_LINES = 450

#: Folders that have an `__init__.py`, below each part.
FOLDERS = {
    "client": """
        admin cluster fetch groups membership producer protocol protocol/embedded protocol/messages registry
        security transactions wire
    """,
    "segment_reader": """
        codecs decode encode log log/damage log/files log/layouts log/scan log/transactions
        payload payload/avro payload/json payload/protobuf
    """,
    "etl": """
        catalogs config decoding decoding/formats delta_log dispositions executors executors/local internal_topics
        kafka_writer ledger operations planning refusals rows run source source/brokers source/files spark spark_format
        spark_format/pyspark_kseg
        tables tables/delta tables/parquet tables/spark tasks telemetry transform
    """,
    "jobs": """ api bench broker commands demo explanations inference invocation kseg output packaging progress records
        registry report website
    """,
}
#: Modules that lie in a part's root. Those of `client` and `etl/places.py` are used by the folders
#: below.
ROOTS = {
    "client": {"__init__.py", "config.py", "errors.py", "offsets.py", "retry.py"},
    "segment_reader": {"__init__.py", "errors.py"},
    "etl": {"__init__.py", "errors.py", "places.py"},
    "jobs": {
        "__init__.py",
        "backfill.py",
        "cli.py",
        "ingest.py",
        "python_api.py",
        "setup.py",
        "setup_stamp.py",
        "submit.py",
    },
}


@pytest.mark.parametrize("part", PARTS)
def test_the_folders_are_those_that_are_drawn(part: str) -> None:
    found = {path.parent.relative_to(ROOT / part).as_posix() for path in (ROOT / part).rglob("__init__.py")}
    assert found - {"."} == set(FOLDERS[part].split())


def test_the_map_in_architecture_has_every_folder() -> None:
    """Folders are indented by two spaces below the folder that they are in."""
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## File map\n")[2].partition("\n## ")[0]
    drawn: dict[str, set[str]] = {part: set() for part in PARTS}
    above: list[str] = []
    for line in text.splitlines():
        match = re.match(r"((?:  )+)([a-z_]+)/", line)
        if match:
            depth = len(match[1]) // 2 - 2
            above[depth:] = [match[2]]
            if depth > 0 and above[0] in drawn:
                drawn[above[0]].add("/".join(above[1:]))
    assert drawn == {part: set(folders.split()) for part, folders in FOLDERS.items()}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_few_modules_in_its_root(part: str) -> None:
    assert {path.name for path in (ROOT / part).glob("*.py")} == ROOTS[part]


def test_no_file_is_too_long() -> None:
    folders = [*(ROOT / part for part in PARTS), ROOT / "airflow", ROOT / "tests"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_tests_are_no_packages() -> None:
    """Under importlib mode they need not be, and as packages they would have the bare names `etl`, `client` …"""
    assert [str(path) for path in (ROOT / "tests").rglob("__init__.py")] == []


# --- imports


@cache
def modules() -> dict[str, Path]:
    """The source's files by their full name, packages by that of the package."""
    found = {"kseg": ROOT / "jobs" / "kseg" / "__init__.py"}
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            if path.is_relative_to(ROOT / "jobs" / "kseg"):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(("kseg", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(name: str) -> Iterator[str]:
    """What a module imports of ours: when it is loaded, inside of functions, and for types alone."""
    for node in ast.walk(ast.parse(modules()[name].read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from [full] if full in modules() else [node.module or ""] if node.module in modules() else []


def circles() -> list[list[str]]:
    """Groups of modules that import one another: strongly connected components of more than one (Tarjan)."""
    graph = {name: sorted(set(imported(name)) - {name}) for name in modules()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found)


def test_no_modules_import_one_another() -> None:
    """A circle is two files that want a third one, or an argument."""
    assert circles() == []


#: What implements a port, beside the modules through which it is selected.
IMPLEMENTATIONS = (
    "etl.executors.connect",
    "etl.executors.driver",
    "etl.executors.local",
    "etl.executors.spark",
    "etl.source.brokers",
    "etl.source.files",
    "etl.spark.",
    "etl.tables.delta",
    "etl.tables.spark.",
)
LEFT_IMPORTS = {
    "operations.recover": {"source.files.log_directories"},
    "operations.spark_comparison": {"spark.dataframe"},
    "run.check_job": {"spark.catalogs"},
    "run.check_transform": {"spark.dataframe", "spark.job_session"},
    "run.context": {"spark.job_session"},
    "run.engine_choice": {"executors.driver", "spark.submission"},
    "run.range_jobs": {
        "spark.column_use",
        "spark.dataframe",
        "spark.narrowing",
        "spark.range_result_files",
        "spark.selection",
        "spark.task_entry",
    },
    "run.redrive_jobs": {"executors.driver", "spark.dataframe", "spark.narrowing"},
}


def test_run_and_operations_import_ports() -> None:
    """Imports inside of functions and for types alone count as well."""
    found: dict[str, set[str]] = {}
    for name in modules():
        if name.startswith(("kseg.etl.run.", "kseg.etl.operations.")):
            used = {other.removeprefix("kseg.") for other in imported(name)}
            if behind := {other for other in used if f"{other}.".startswith(IMPLEMENTATIONS)}:
                found[name.removeprefix("kseg.etl.")] = {other.removeprefix("etl.") for other in behind}
    assert found == LEFT_IMPORTS


# --- words


#: Public classes of this name are defined in several modules. Messages of the protocol have Kafka's names.
LEFT_TWICE = {
    *("AccountFailed", "AtTime", "Columns", "DeadLetters", "Engine", "Entry", "Event", "Finding", "Frame", "Kind"),
    *("Layout", "OffsetsGivenUp", "Problem", "Read", "Replica", "Resolved", "Rules", "Sink", "TaskWriter"),
    *("Unconfirmed", "View"),
}
#: Docstrings that begin with a word which makes no sentence, by part of the source. Those of `etl` with "Where"
#: describe sections in the job file's schema. All of `segment_reader` but "What" are in modules that numba compiles.
LEFT_OPENINGS = {
    "client": {"What": 1},
    "etl": {"What": 105, "Where": 4},
    "jobs": {"What": 1},
    "segment_reader": {"What": 16, "Where": 2, "As": 2, "Of": 1},
}


@cache
def lines_of(part: str) -> tuple[tuple[str, str], ...]:
    """Each line of a part's modules with its module's path."""
    paths = sorted((ROOT / part).rglob("*.py"))
    return tuple((str(path.relative_to(ROOT)), line) for path in paths for line in path.read_text().splitlines())


def test_a_class_name_means_one_thing() -> None:
    found: dict[str, set[str]] = {}
    for part in PARTS:
        for path, line in lines_of(part):
            match = re.match(r"class ([A-Z]\w*)", line)
            if match and not path.startswith("client/protocol/"):
                found.setdefault(match[1], set()).add(path)
    assert {name for name, paths in found.items() if len(paths) > 1} == LEFT_TWICE


def test_docstrings_say_what_a_thing_is() -> None:
    found: dict[str, Counter[str]] = {}
    for part in PARTS:
        words = (re.match(r'\s*"""(Of|What|Where|As|Whose|Who)\b', line) for _, line in lines_of(part))
        found[part] = Counter(word[1] for word in words if word)
    assert {part: dict(counted) for part, counted in found.items() if counted} == LEFT_OPENINGS


# --- formats of payloads


#: Names that mean nothing else. `json` and the like are names of Spark's types and of output as well.
FORMATS_OF_PAYLOADS = {"avro", "protobuf", "connect_json", "json_schema", "AVRO", "PROTOBUF"}


def format_names(node: ast.AST) -> Iterator[str]:
    """The names of formats that a comparison, a pattern or the keys and values of a mapping have."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.MatchValue):
        parts = [node.value]
    elif isinstance(node, ast.Dict):
        parts = [*node.keys, *node.values]
    for part in parts:
        elements = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
        yield from (one.value for one in elements if isinstance(one, ast.Constant) and one.value in FORMATS_OF_PAYLOADS)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('payload.format == "avro"', ["avro"]),
        ('"x" if kind in ("json", "protobuf") else "y"', ["protobuf"]),
        ('{"AVRO": 1}', ["AVRO"]),
        ('match kind:\n    case "json_schema":\n        pass', ["json_schema"]),
        ('payload.format == "words"', []),
    ],
)
def test_names_of_formats_are_found(code: str, found: list[str]) -> None:
    assert [name for node in ast.walk(ast.parse(code)) for name in format_names(node)] == found


def test_what_a_format_can_do_is_asked_of_its_registry() -> None:
    """A new format is a module and an entry: no code elsewhere chooses by a format's name."""
    formats = "kseg.etl.decoding.formats."
    lines = {
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        if name.startswith(("kseg.etl.", "kseg.jobs.")) and not name.startswith(formats)
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.expr | ast.pattern) and any(format_names(node))
    }
    assert lines == set()

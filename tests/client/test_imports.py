"""What importing the client loads, each tried in a process of its own; and that its imports have no circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Set
from graphlib import TopologicalSorter
from pathlib import Path

import kseg.client
from kseg.client.protocol import messages

CLIENT = Path(kseg.client.__file__).parent


def loaded_by(module: str) -> set[str]:
    """The client's modules that importing one module loads, by their names below `kseg.client`."""
    program = f"import sys, {module}; print(*(name for name in sys.modules if name.startswith('kseg.client.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return {name.removeprefix("kseg.client.") for name in done.stdout.split()}


def messages_among(loaded: set[str]) -> set[str]:
    return {name.removeprefix("protocol.messages.") for name in loaded if name.startswith("protocol.messages.")}


def test_the_package_alone_loads_nothing() -> None:
    assert loaded_by("kseg.client") == set()


def test_a_cluster_loads_what_finds_brokers() -> None:
    assert messages_among(loaded_by("kseg.client.cluster.cluster")) == {"connection", "metadata"}


def test_a_task_loads_what_reads_records() -> None:
    loaded = loaded_by("kseg.etl.tasks.writing")
    assert messages_among(loaded) == {"connection", "metadata", "fetch"}
    assert not {name.partition(".")[0] for name in loaded} & {
        "admin",
        "groups",
        "membership",
        "producer",
        "transactions",
    }
    assert "protocol.registry" not in loaded


def test_the_registry_loads_all_messages() -> None:
    every = {path.stem for path in Path(messages.__file__).parent.glob("*.py")} - {"__init__"}
    assert messages_among(loaded_by("kseg.client.protocol.registry")) == every


def test_no_modules_import_each_other() -> None:
    """Not for types either (`if TYPE_CHECKING`), nor within functions; the package's own names are lazy."""
    paths = {_name_of(path): path for path in CLIENT.rglob("*.py")}
    del paths["kseg.client"]
    graph = {name: _imports_of(path, paths.keys()) - {name} for name, path in paths.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def _name_of(path: Path) -> str:
    parts = path.relative_to(CLIENT.parent).with_suffix("").parts
    return ".".join(["kseg", *parts]).removesuffix(".__init__")


def _imports_of(path: Path, modules: Set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules or {node.module} & modules
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
    return found

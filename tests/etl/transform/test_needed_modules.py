"""Which modules of the user a job's functions need, and what is refused."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.transform.needed_modules import modules_needed, modules_zip, references_of

JOB = """
version: 1
name: orders
kafka: {bootstrap.servers: "localhost:9092", sasl.oauthbearer.token.callback: "my_tokens:fetch",
  security.protocol: SASL_PLAINTEXT, sasl.mechanism: OAUTHBEARER}
source: {topics: [orders]}
transform: [{arrow: "my_package.steps:shout"}, {arrow: "my_step:first"}, {sql: "SELECT * FROM __rows__"},
  {python: "yaml:frame"}]
sink: {path: ./lake/orders}
ledger: ./lake/_ledger
"""


Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write({"steps.py": "import helpers"}): files in the folder that is searched."""

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


def packed(folder: Path, *references: str) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(modules_zip(modules_needed(references, [folder])))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_modules_that_a_job_names_are_packed_but_not_installed_ones(tmp_path: Path, write: Write) -> None:
    files = {
        "my_step.py": "1",
        "my_tokens.py": "2",
        "my_package/__init__.py": "",
        "my_package/steps.py": "3",
        "my_package/data/table.csv": "4",
    }
    write(files | {"orders.yaml": JOB, "my_package/__pycache__/steps.pyc": "5", "another.py": "6"})
    references = references_of(load_job(tmp_path / "orders.yaml"))
    assert sorted(references) == ["my_package.steps:shout", "my_step:first", "my_tokens:fetch", "yaml:frame"]
    assert packed(tmp_path, *references) == {name: text.encode() for name, text in files.items()}
    assert modules_needed(["yaml:frame", "json:loads", "kseg.etl.tasks.writing:drop"]) == ()


def test_what_they_import_is_packed_too(tmp_path: Path, write: Write) -> None:
    files = {
        "steps.py": "import os, yaml\nfrom helpers.text import shout\n",
        "helpers/__init__.py": "",
        "helpers/text.py": "from . import tables\nfrom ..too import far\nfrom .deep.words import loud as shout\n",
        "helpers/tables.py": "def late():\n    import lazy\n",
        "helpers/deep/__init__.py": "from .. import tables",
        "helpers/deep/words.py": "import plain.inner, steps\nfrom constants import *\n",
        "lazy.py": "import importlib\nnamed = importlib.import_module('by_name')\n",
        "by_name.py": "",
        "constants.py": "",
        "plain/inner.py": "class A:\n    import in_class\n",  # a namespace package
        "in_class.py": "",
    }
    write(files | {"unused.py": "", "test_steps.py": "import nothing_like_that"})
    assert set(packed(tmp_path, "steps:shout")) == set(files)


def test_what_pip_installed_elsewhere_is_not_the_user_s(tmp_path: Path, write: Write) -> None:
    """`pip install --target`: beside the user's own modules, or in a folder of its own on Python's path."""
    write(
        {
            "steps.py": "import heavy, single, mine",
            "mine.py": "",
            "heavy/__init__.py": "from heavy import compiled",
            "heavy/compiled.abi3.so": "",
            "single.py": "import nowhere_to_be_found",
            "heavy-1.0.dist-info/METADATA": "Name: heavy\nVersion: 1.0\n",
            "heavy-1.0.dist-info/RECORD": "heavy/__init__.py,,\nheavy/compiled.abi3.so,,\nsingle.py,,\n",
            "mine.egg-info/PKG-INFO": "Name: mine\nVersion: 1.0\n",
            "mine.egg-info/SOURCES.txt": "mine.py\nsteps.py\n",
        }
    )
    assert set(packed(tmp_path, "steps:fn")) == {"steps.py", "mine.py"}


def test_folders_of_the_user_may_have_the_names_of_ours(tmp_path: Path, write: Write) -> None:
    files = {f"{name}/__init__.py": "" for name in ("client", "etl", "jobs", "segment_reader")}
    files |= {"etl/mine.py": "from jobs.steps import fn", "jobs/steps.py": "import client, segment_reader, kseg.etl"}
    write(files)
    assert set(packed(tmp_path, "etl.mine:fn")) == set(files)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import missing", "no module missing; line 1 of .*steps.py imports it"),
        ("def f():\n    from missing.inner import x", "no module missing; line 2 of"),
        ("import pack.missing", "no module pack.missing; line 1 of"),
        ("from pack import here\nfrom pack.missing import x", "no module pack.missing; line 2 of"),
        ("try:\n    import missing\nexcept ValueError:\n    pass", "no module missing; line 2 of"),
        ("def broken(:", "steps.py cannot be parsed"),
    ],
)
def test_what_cannot_be_found_is_refused(tmp_path: Path, write: Write, text: str, named: str) -> None:
    write({"steps.py": text, "pack/__init__.py": "", "pack/here.py": ""})
    with pytest.raises(ConfigurationError, match=named) as caught:
        modules_needed(["steps:fn"], [tmp_path])
    assert caught.value.exit_code == 2


def test_a_module_that_the_job_file_names_is_refused_with_the_name_of_the_function(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no module nowhere_to_be_found; the job file names") as caught:
        modules_needed(["nowhere_to_be_found:fn"], [tmp_path])
    assert "PYTHONPATH" in str(caught.value.faults)


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import missing\nexcept ImportError:\n    missing = None",
        "try:\n    import missing\nexcept (ValueError, ModuleNotFoundError):\n    import missing_too",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import missing",
        "import typing\nif typing.TYPE_CHECKING:\n    import missing",
        "import sys\nif sys.version_info >= (3, 11):\n    import tomllib\nelse:\n    import missing",
        "if __name__ == '__main__':\n    import missing",
        "from pack import not_a_module",
        "import pyspark.sql.functions, py4j",
    ],
)
def test_what_the_code_allows_to_be_missing_is_not(tmp_path: Path, write: Write, text: str) -> None:
    write({"steps.py": text, "pack/__init__.py": ""})
    assert "steps" in {module.name for module in modules_needed(["steps:fn"], [tmp_path])}


def test_compiled_code_and_archives_are_refused(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"steps.py": "import compiled", "compiled.abi3.so": ""})
    with pytest.raises(ConfigurationError, match="module compiled is compiled code"):
        modules_needed(["steps:fn"], [tmp_path])
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("zipped_steps.py", "")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "more.zip")])
    with pytest.raises(ConfigurationError, match="module zipped_steps has no source file"):
        modules_needed(["zipped_steps:fn"])

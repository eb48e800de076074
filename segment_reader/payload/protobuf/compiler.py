"""`.proto` source text -> file descriptors: what a registry serves, and what people write.

By protoc, as the package `grpcio-tools` brings it (the extra `protobuf`): proto2, proto3 and editions exactly as all
other languages read them. It runs as a process of its own, since its messages go to standard error and text from
elsewhere shall not end this one. Workers need none of it: they get the descriptors.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from kseg.segment_reader.payload.errors import InvalidSchema, UnsupportedSchema
from kseg.segment_reader.payload.protobuf.built_in import BUILT_IN

_SECONDS: Final = 60
_SCHEMA: Final = "schema.proto"
#: Warnings of protoc, and of the library that it writes its log with.
_NOISE: Final = re.compile(r"warning:|^WARNING: |^[IW]\d{4} ")


def compile_text(text: str, references: Mapping[str, str] | None = None, *, name: str = _SCHEMA) -> bytes:
    """A FileDescriptorSet with all imports, the schema's own file last.

    references: texts of the files that it imports, and of those that these import, by the name in the `import`.
    google/protobuf/*.proto and `built_in` need none. name: the file's, as messages of protoc give it.

    Raises:
        InvalidSchema: protoc refuses it; the reason is protoc's, with line and column.
        UnsupportedSchema: the extra `protobuf` is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="kseg-protoc-") as folder:
        root = Path(folder)
        own = name if name not in (references or {}) else f"kseg_{PurePosixPath(name).name}"
        for path, content in {**(references or {}), own: text}.items():
            _write(root, path, content)
        return _protoc([root], own)


def compile_file(path: Path, root: Path | None = None) -> bytes:
    """Compiles a file like `compile_text`: it imports what lies in its folder or in one above it, up to `root`.

    Raises as `compile_text` does.
    """
    path = path.resolve()
    folders = [path.parent]
    if root is not None and path.is_relative_to(root := root.resolve()):
        while folders[-1] != root:
            folders.append(folders[-1].parent)
    return _protoc(folders, path.name)


def _write(root: Path, path: str, content: str) -> None:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not path.endswith(".proto") or "\0" in path:
        raise InvalidSchema(path, "no path of an imported file: it must be relative and end with .proto")
    target = root / parts
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, "utf-8")


def _protoc(folders: Sequence[Path], name: str) -> bytes:
    if importlib.util.find_spec("grpc_tools") is None:
        raise UnsupportedSchema(
            "", "a .proto text needs protoc: pip install 'kafka-segment-etl[protobuf]', or give a file of descriptors"
        )
    with tempfile.TemporaryDirectory(prefix="kseg-protoc-") as folder:
        out = Path(folder) / "descriptors"
        built_in = Path(folder) / "include"
        for path, content in BUILT_IN.items():
            _write(built_in, path, content)
        includes = [f"--proto_path={each}" for each in (*folders, built_in)]  # the first one that has a file counts
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *includes, "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={out}", str(folders[0] / name)],
                capture_output=True,
                timeout=_SECONDS,
                text=True,
            )
        except subprocess.TimeoutExpired:
            raise InvalidSchema(name, f"protoc has not ended after {_SECONDS} s") from None
        if done.returncode or not out.exists():
            raise InvalidSchema("", _reason(done.stderr, folders))
        return out.read_bytes()


def _reason(said: str, folders: Sequence[Path]) -> str:
    """protoc's errors in one line, without its folders."""
    for folder in folders:
        said = said.replace(f"{folder}/", "")
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _NOISE.search(line)]
    return re.sub(r"\s+", " ", "; ".join(lines[:3])) or "protoc refuses the schema"

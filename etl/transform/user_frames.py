"""Finds where in the user's code an error was raised: the innermost frame that is neither a library's nor ours.

Steps call libraries, so the last frame of a traceback is often json's or pandas'; the line to correct is the one that
called them.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

_LIBRARIES: Final = ("site-packages", "dist-packages", "pyspark", "pyspark.zip")
_STANDARD: Final = PurePath(sysconfig.get_paths()["stdlib"]).name  # python3.11, also on another machine


class Frame(NamedTuple):
    """A frame of a traceback. line: from 1."""

    file: str
    line: int
    function: str


def user_frame(frames: Sequence[Frame], references: Iterable[str] = ()) -> Frame | None:
    """The innermost frame in the packages of these functions (`module:function`), else in no library, else of all."""
    packages = {reference.partition(":")[0].partition(".")[0] for reference in references}
    of_steps = (frame for frame in reversed(frames) if packages & _names(frame.file))
    of_no_library = (frame for frame in reversed(frames) if not _is_library(frame.file))
    return next(of_steps, None) or next(of_no_library, None) or (frames[-1] if frames else None)


def step_of(frames: Sequence[Frame], steps: Mapping[str, str]) -> str | None:
    """The place in the job file of the step in whose module the error was raised, or through which it was called.

    steps: `module:function` by place. None where no frame is in a step's module, or several steps have the module.
    """
    for frame in reversed(frames):
        found = [place for place, reference in steps.items() if _is_module(frame.file, reference.partition(":")[0])]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def raised_at(error: BaseException, references: Iterable[str]) -> dict[str, str | int]:
    """`file`, `line` and `function` of an error that a step raised in this process, for its address."""
    frames = [Frame(f.filename, f.lineno or 0, f.name) for f in traceback.extract_tb(error.__traceback__)[1:]]
    frame = user_frame(frames, references)
    return frame._asdict() if frame is not None else {}


def _names(file: str) -> set[str]:
    path = PurePath(file)
    return {*path.parts[:-1], path.stem}


def _is_module(file: str, module: str) -> bool:
    path, names = PurePath(file), module.split(".")
    parts = path.parts[:-1] if path.name == "__init__.py" else (*path.parts[:-1], path.stem)
    return list(parts[-len(names) :]) == names


def _is_library(file: str) -> bool:
    parts = PurePath(file).parts
    return file.startswith("<") or any(part in _LIBRARIES or part == _STANDARD for part in parts)

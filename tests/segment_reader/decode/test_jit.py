"""The cache of compiled functions, seen from new processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOOK = """
import sys
from kseg.segment_reader.decode.jit import is_cached
from kseg.segment_reader.decode.primitives import crc32
import numpy as np
print(is_cached(crc32))
if sys.argv[1:]:
    crc32(np.zeros(8, np.uint8), 0, 8)
    print(is_cached(crc32))
"""


def answers(cache: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK, *words],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return done.stdout.split()


def test_a_function_is_cached_from_its_first_call_on_for_all_processes(tmp_path: Path) -> None:
    assert answers(tmp_path) == ["False"]
    assert answers(tmp_path, "call it") == ["False", "True"]
    assert answers(tmp_path) == ["True"]
    assert answers(tmp_path / "another") == ["False"]

"""The cache of compiled functions, seen from new processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOOK = """
import sys
from kseg.segment_reader.decode.jit import is_cached, warn_if_compiling
from kseg.segment_reader.decode.primitives import crc32
import numpy as np
print(is_cached(crc32))
if sys.argv[1:]:
    for _ in range(2):
        warn_if_compiling(crc32)
        crc32(np.zeros(8, np.uint8), 0, 8)
    print(is_cached(crc32))
"""


def answers(cache: Path, *words: str) -> list[str]:
    return look(cache, *words).stdout.split()


def look(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOOK, *words],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip


def test_a_function_is_cached_from_its_first_call_on_for_all_processes(tmp_path: Path) -> None:
    assert answers(tmp_path) == ["False"]
    assert answers(tmp_path, "call it") == ["False", "True"]
    assert answers(tmp_path) == ["True"]
    assert answers(tmp_path / "another") == ["False"]


def test_a_process_that_has_to_compile_says_so_once(tmp_path: Path) -> None:
    assert look(tmp_path, "call it").stderr.count("kseg: compiling a decoder") == 1
    assert look(tmp_path, "call it").stderr == ""


CACHED_FIRST = """
import sys
import numba as nb
import numpy as np
from kseg.segment_reader.decode.primitives import crc32
data = np.arange(8, dtype=np.uint8)
alone = crc32(data, 0, 8)
print("numba.typed.typeddict" in sys.modules)
@nb.njit
def both(data):
    return crc32(data, 0, 8), np.sum(data)
print(both(data) == (alone, 28))
"""


def test_machine_code_is_loaded_without_the_compiler_which_other_functions_still_find(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for compiles in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", CACHED_FIRST],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        assert done.stdout.split() == [str(compiles), "True"]

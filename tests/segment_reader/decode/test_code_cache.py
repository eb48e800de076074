"""The files of compiled functions: damaged and foreign ones are not run, and what cannot be kept is no error."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import llvmlite
import numba as nb
import numpy as np
import pytest
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCPUCodegen

from kseg.segment_reader.decode import code_cache, jit
from kseg.segment_reader.decode.primitives import crc32

NEXT = "def following(number):\n    return number + {step}\n"


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """process(source): a function as a new process that imports this source has it: nothing of it is compiled yet."""
    monkeypatch.setattr(nb.config, "CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setattr(code_cache, "_warn_not_kept", code_cache._warn_not_kept.__wrapped__)

    def start(source: str = NEXT.format(step=1)) -> Any:
        (tmp_path / "functions.py").write_text(source)
        spec = importlib.util.spec_from_file_location("functions", tmp_path / "functions.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "functions", module)
        sys.dont_write_bytecode, written = True, sys.dont_write_bytecode
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = written
        return jit.compiled(module.following)

    return start


def loaded(function: Any) -> int:
    """How many signatures of a function this process has loaded rather than compiled."""
    return sum(function.stats.cache_hits.values())


def the_file(function: Any) -> Path:
    (path,) = function._cache.files()
    return Path(path)


def test_the_next_process_loads_what_one_has_compiled(process: Callable[..., Any]) -> None:
    first, second = process(), process()
    assert not jit.is_cached(first)
    assert (first(1), loaded(first)) == (2, 0)
    assert jit.is_cached(second)
    assert (second(1), loaded(second)) == (2, 1)
    second._cache.flush()
    assert not jit.is_cached(process())


def cut(data: bytes, at: int) -> bytes:
    return data[:at]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped])
@pytest.mark.parametrize("part", [0, 0.02, 0.9])
def test_a_damaged_file_is_compiled_again_and_replaced(
    process: Callable[..., Any], caplog: pytest.LogCaptureFixture, damage: Callable[[bytes, int], bytes], part: float
) -> None:
    first = process()
    first(1)
    path = the_file(first)
    whole = path.read_bytes()
    path.write_bytes(damage(whole, int(part * len(whole))))
    damaged, after = process(), process()
    assert (damaged(1), loaded(damaged)) == (2, 0)
    assert f"{path} cannot be used" in caplog.text
    assert (after(1), loaded(after)) == (2, 1)


def test_code_for_other_types_is_not_run_whatever_its_file_is_called(process: Callable[..., Any]) -> None:
    """With numba's numbered entries this was a race of two processes: one got code that took an integer for a float."""
    whole, real = process(), process()
    whole(1)
    integers = the_file(whole)
    real(1.5)
    (reals,) = {*real._cache.files()} - {integers}
    reals.write_bytes(integers.read_bytes())
    both = process()
    assert (both(1.5), loaded(both)) == (2.5, 0)
    assert (both(1), loaded(both)) == (2, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(nb, "__version__", "0.99"),
        lambda patch: patch.setattr(llvmlite, "__version__", "0.99"),
        lambda patch: patch.setattr(JITCPUCodegen, "magic_tuple", lambda _: ("x86_64", "another CPU", "+avx512f")),
        lambda patch: patch.setattr(JITCPUCodegen, "magic_tuple", lambda _: ("x86_64", "this CPU", "-avx512f")),
    ],
    ids=["numba", "llvmlite", "CPU", "features of the CPU"],
)
def test_code_of_another_compiler_or_processor_is_left_to_it(
    process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    process()(1)
    with monkeypatch.context() as patch:
        change(patch)
        other, again = process(), process()
        assert (other(1), loaded(other)) == (2, 0)
        assert (again(1), loaded(again)) == (2, 1)
    here = process()
    assert (here(1), loaded(here)) == (2, 1)


def test_code_of_another_source_is_not_run(process: Callable[..., Any]) -> None:
    process()(1)
    changed = process(NEXT.format(step=10))
    assert (changed(1), loaded(changed)) == (11, 0)


def test_what_cannot_be_kept_or_read_is_compiled(
    process: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    function = process()
    (folder,) = (tmp_path / "compiled").iterdir()
    folder.rmdir()
    folder.write_text("as if the folder could not be written any more")
    assert function(1) == 2
    assert f"not kept in {folder}" in caplog.text
    folder.unlink()
    process()(1)
    path = the_file(process())
    path.unlink()
    path.mkdir()  # no permission would not stop root
    unreadable = process()
    assert (unreadable(1), loaded(unreadable)) == (2, 0)
    assert not [*folder.glob("*.tmp.*")]


def test_without_a_folder_for_it_nothing_is_kept(process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    assert process()(1) == 2
    assert not jit.is_cached(process())


def test_functions_that_are_not_compiled_have_no_cache(
    process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nb.config, "DISABLE_JIT", 1)
    function = process()
    assert function(1) == 2
    assert type(function) is type(the_file)
    assert not jit.is_cached(function)


def test_other_releases_of_the_compiler_are_prepared_before_code_is_loaded(
    process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    process()(1)
    function, prepared = process(), process()
    refreshed = Mock()
    monkeypatch.setattr(function.targetctx, "refresh", refreshed)  # all functions have one context
    function(1)
    refreshed.assert_not_called()
    monkeypatch.setattr(code_cache, "_LOADS_WITHOUT_COMPILER", False)
    prepared(1)
    refreshed.assert_called()


ALL = """
import pickle, pkgutil, importlib, sys
import kseg.segment_reader
from kseg.segment_reader.decode.code_cache import CodeCache
found = {}
for module in pkgutil.walk_packages(kseg.segment_reader.__path__, "kseg.segment_reader."):
    for value in vars(importlib.import_module(module.name)).values():
        if isinstance(getattr(value, "_cache", None), CodeCache):
            found[id(value)] = value
loaded = 0
for function in found.values():
    for path in function._cache.files():
        _, _, _, sig, *_ = pickle.loads(path.read_bytes()[32:])[0]
        loaded += function._cache.load_overload(sig, function.targetctx) is not None
print(loaded, "numba.typed.typeddict" in sys.modules)
"""


def test_all_code_on_this_machine_is_loaded_without_the_compiler() -> None:
    """A symbol that only the compiler's preparation makes known would end the process."""
    crc32(np.zeros(8, np.uint8), 0, 8)  # so that there is some
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, check=True, timeout=300)
    loaded, prepared = done.stdout.split()
    assert int(loaded) > 0
    assert prepared == "False"

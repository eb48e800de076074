"""C functions of the compression libraries, for compiled code to call.

Topics whose producers do not linger have ten records a batch or fewer, and there the way through Python costs five
times what decompressing a batch does. The wheels of `lz4` and `zstandard` export the functions of the C libraries that
they contain, so compiled code calls the same code without Python between.

Where a build exports nothing (hidden symbols, another interpreter), the linker still needs the names: they then stand
for functions that report failure, and `AVAILABLE` tells callers not to use them.

Sources: lz4.h (LZ4_decompress_safe), zstd.h (ZSTD_decompressDCtx, ZSTD_decompressBound).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final

import llvmlite.binding as llvm

from kseg.segment_reader.codecs.lz4 import LZ4
from kseg.segment_reader.codecs.zstd import ZSTD

#: What the linker knows the functions by: their own names could be taken by another library in the process.
LINKED: Final = "kseg_{}"

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_LZ4_DECOMPRESS = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _INT)
_ZSTD_DECOMPRESS = ctypes.CFUNCTYPE(_SIZE, _POINTER, _POINTER, _SIZE, _POINTER, _SIZE)
_ZSTD_BOUND = ctypes.CFUNCTYPE(ctypes.c_ulonglong, _POINTER, _SIZE)


def _library(module: str) -> Any:
    """An extension module as a C library, None where it cannot be opened as one. It is not imported."""
    with suppress(ImportError, OSError):
        found = find_spec(module)
        if found is not None and found.origin is not None:
            return ctypes.CDLL(found.origin)
    return None


def _addresses(library: Any, prototypes: dict[str, Any]) -> Iterator[bool]:
    """Gives each function to the linker; whether the library has it."""
    for name, prototype in prototypes.items():
        function = getattr(library, name, None)
        if function is None:
            _STAND_INS.append(prototype(lambda *_: -1))
        target = _STAND_INS[-1] if function is None else function
        llvm.add_symbol(LINKED.format(name), ctypes.cast(target, _POINTER).value)
        yield function is not None


_STAND_INS: Final[list[Any]] = []  # the linker keeps addresses alone, so these objects must not be collected
_LZ4 = _library("lz4.block._block")
_ZSTD = _library("zstandard._cffi")
_HAS_LZ4: Final = all([*_addresses(_LZ4, {"LZ4_decompress_safe": _LZ4_DECOMPRESS})])
_HAS_ZSTD: Final = all(
    [*_addresses(_ZSTD, {"ZSTD_decompressDCtx": _ZSTD_DECOMPRESS, "ZSTD_decompressBound": _ZSTD_BOUND})]
) and hasattr(_ZSTD, "ZSTD_createDCtx")

#: A bit for each codec whose functions compiled code can call: 1 << its number.
AVAILABLE: Final = _HAS_LZ4 << LZ4.number | _HAS_ZSTD << ZSTD.number


class _ZstdContext:
    """zstd's working memory (about 160 KB), used again for each frame. One thread at a time may use it."""

    def __init__(self) -> None:
        _ZSTD.ZSTD_createDCtx.restype = _POINTER
        self.address: int = _ZSTD.ZSTD_createDCtx() or 0

    def __del__(self) -> None:
        if self.address and _ZSTD is not None:  # at the interpreter's end the library's name may be gone first
            _ZSTD.ZSTD_freeDCtx(_POINTER(self.address))


_THREAD = threading.local()


def zstd_context() -> int:
    """The address of this thread's context for ZSTD_decompressDCtx; 0 where there is none."""
    if not _HAS_ZSTD:
        return 0
    context = getattr(_THREAD, "context", None)
    if context is None:
        context = _THREAD.context = _ZstdContext()
    return int(context.address)

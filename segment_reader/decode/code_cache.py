"""Machine code on disk: one file for each function, types of arguments, processor and release of the compiler.

numba's own cache has two faults that matter here. It loads all that it can compile before it loads an entry, which
takes a quarter of a second in each process that decodes. And it finds an entry by an index, in which an entry has a
number: two processes that compile one function at the same time, for two types of arguments or on two hosts with one
home folder and different processors, give their entries the same number, and one of them runs the other's code.

So a file's name has a hash of its key, and the file has the key and a checksum of its bytes:

    SHA-256 of the rest, 32 bytes | pickle of (key, what numba serializes)

A file that is missing, damaged, not readable or of another key is no error: the function is compiled again, and the
file is replaced. Folders are those of numba (`numba.core.caching`): NUMBA_CACHE_DIR, beside the source, in the user's
cache.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import uuid
from collections.abc import Iterator
from functools import cache
from glob import escape
from pathlib import Path
from typing import Any, Final

import llvmlite
import numba as nb
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

_LOG = logging.getLogger(__name__)

SUFFIX: Final = ".nbc"
_DIGEST: Final = hashlib.sha256().digest_size

# In this release, all that machine code calls is known before the compiler is prepared (`base._load_global_helpers`); a
# symbol that is not known would end the process. Of another release this has to be read first.
_LOADS_WITHOUT_COMPILER: Final = nb.version_info[:2] == (0, 68)


class CodeCache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """The machine code of one function.

    Raises RuntimeError when it is made: no folder can be written.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        # Of the source that was imported: it may be replaced, or gone, while the process runs.
        self._stamp = self._impl.locator.get_source_stamp()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types of arguments; None: it has to be compiled.

        The compiler is not prepared for it. Code that calls back into Python needs that, and so do ufuncs (numba's
        issue 2198); compiled functions of this package are neither. Compiling a function makes the same preparation.
        """
        if not self._enabled:
            return None
        if not _LOADS_WITHOUT_COMPILER:
            target_context.refresh()
        key = self._key(sig, target_context.codegen())
        path = self._file(key)
        try:
            made = _read(path, key)
            return None if made is None else self._impl.rebuild(target_context, made)
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever pickle makes of bytes that this release has not written
            _LOG.warning("kseg: %s cannot be used, the function is compiled again: %r", path, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for other processes, where its file can be written."""
        if not self._enabled or not self._impl.check_cachable(data):
            return
        try:
            self._impl.locator.ensure_cache_path()
            key = self._key(sig, data.codegen)
            _write(self._file(key), key, self._impl.reduce(data))
        except OSError as error:
            _warn_not_kept(self._cache_path, str(error))

    def flush(self) -> None:
        """Remove the code of all types of arguments."""
        for path in self.files():
            path.unlink(missing_ok=True)

    def files(self) -> Iterator[Path]:
        """Files with code of this function as its source is, of any processor and release of the compiler."""
        yield from Path(self._cache_path).glob(f"{escape(self._impl.filename_base)}.*{SUFFIX}")

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """numba's key has the types, the processor with its features, and hashes of the function."""
        return (nb.__version__, llvmlite.__version__, self._stamp, *self._index_key(sig, codegen))

    def _file(self, key: tuple[Any, ...]) -> Path:
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self._cache_path) / f"{self._impl.filename_base}.{name}{SUFFIX}"


def _read(path: Path, key: tuple[Any, ...]) -> Any:
    """What was written with this key; None: it was another one. Raises OSError, and ValueError: the file is damaged."""
    data = memoryview(path.read_bytes())
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise ValueError("its checksum is another one")
    found, made = pickle.loads(data[_DIGEST:])
    return made if found == key else None


def _write(path: Path, key: tuple[Any, ...], made: Any) -> None:
    """Atomically: other processes read and write the same file. With the usual permissions: other users read it too."""
    body = dumps((key, made))
    scratch = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
    try:
        scratch.write_bytes(hashlib.sha256(body).digest() + body)
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


@cache
def _warn_not_kept(folder: str, reason: str) -> None:
    _LOG.warning("kseg: compiled decoders are not kept in %s, each process compiles them: %s", folder, reason)

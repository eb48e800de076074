"""Tests that a store is put-if-absent: all commits of ledgers and tables depend on it.

    check_refuses   one conditional PUT (if the key is absent) onto an existing key: the store must reject it
    check_races     several concurrent conditional PUTs for each of 100 keys: the store must accept at most one

A store that ignores `If-None-Match` overwrites the object and responds 200: then two processes could hold one lease,
and a later commit could erase an earlier one. delta-rs cannot PUT a given key, so this uses obstore (`object_store`).
On a local file system, the conditional PUT of its Rust crate is a hard link, which fails if the name exists.

The keys are below `_kseg/` in the folder of the ledger or table; Delta's listings and VACUUM ignore this folder.

Stores that `object_store` does not open are not checked: HDFS, whose rename is atomic; S3 with AWS_S3_LOCKING_PROVIDER;
and Amazon S3 itself (which is put-if-absent) if its keys are not in options or environment variables.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kseg.etl.errors import ConfigurationError, Diagnostic, RetriableFailure
from kseg.etl.ledger.local_folders import nearest_existing
from kseg.etl.ledger.object_store import is_local, local_path, open_store
from kseg.etl.ledger.store_errors import store_error
from kseg.etl.places import store_scheme

if TYPE_CHECKING:
    from obstore.store import ObjectStore

FOLDER: Final = "_kseg"
KEY: Final = f"{FOLDER}/put-if-absent"
RACES: Final = 100
CONTENDERS: Final = 3
LANES: Final = 5
"""How many keys are tested at the same time."""

_BODY: Final = b"kseg puts this object, on condition that it is absent, whenever a run starts. The store must refuse.\n"
_REMEDY: Final = (
    "use a store with conditional PUTs (If-None-Match) for ledger and tables, or enable them; Amazon S3, Google Cloud "
    "Storage, Azure and local file systems have them"
)
_UNSAFE: Final = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename", "mount_allow_unsafe_rename")
_YES: Final = frozenset({"true", "1", "yes", "t", "y"})


def check_refuses(location: str, options: Mapping[str, str], *, setting: str, **address: str) -> None:
    """Check with one request (two the first time) that the store rejects a conditional PUT onto an existing key.

    location: a local path or URL; a local folder is created. options: delta-rs's options. setting: the key of the job
    file that names the location ("ledger").

    Raises:
        ConfigurationError: the store overwrites the object, or rejects options or credentials.
        RetriableFailure: the store does not respond.
    """
    store = _open(location, options, setting, address)
    if store is None:
        return
    for _ in range(2):  # the first PUT creates the key if it does not exist
        if not _put(store, KEY, location, setting, address):
            return
    raise _not_put_if_absent("it accepted a conditional PUT onto an existing object", setting, address)


def check_races(location: str, options: Mapping[str, str], *, setting: str, **address: str) -> int:
    """Check with concurrent PUTs for 100 keys that at most one PUT for each is accepted. As `check_refuses` otherwise.

    Returns:
        The number of keys; 0 if this store is not checked.
    """
    store = _open(location, options, setting, address)
    if store is None:
        return 0
    folder = f"{FOLDER}/race-{secrets.token_hex(8)}"
    keys = [f"{folder}/{number}" for number in range(RACES)]
    winners = dict.fromkeys(keys, 0)
    lanes = [keys[lane::LANES] for lane in range(LANES)]
    barriers = [threading.Barrier(CONTENDERS) for _ in lanes]
    lock = threading.Lock()

    def contend(lane: int) -> None:
        try:
            for key in lanes[lane]:
                barriers[lane].wait()
                if _put(store, key, location, setting, address):
                    with lock:
                        winners[key] += 1
        except BaseException:
            barriers[lane].abort()
            raise

    try:
        with ThreadPoolExecutor(len(lanes) * CONTENDERS, "kseg-race") as pool:
            contending = [pool.submit(contend, lane) for lane in range(len(lanes)) for _ in range(CONTENDERS)]
        failures = [failure for one in contending if (failure := one.exception()) is not None]
        if failures:
            raise next((one for one in failures if not isinstance(one, threading.BrokenBarrierError)), failures[0])
    finally:
        _delete(store, keys)
    # No winner is not an error: a response was lost, and the repeated PUT found the object that it had created.
    if several := sum(count > 1 for count in winners.values()):
        raise _not_put_if_absent(
            f"for {several} of {RACES} keys it accepted several of {CONTENDERS} PUTs", setting, address
        )
    return RACES


def put_new(
    location: str, options: Mapping[str, str], key: str, body: bytes, *, setting: str, **address: str
) -> bool | None:
    """Write a file on condition that there is none of this key, as delta-rs writes an entry of a table's log.

    Returns:
        Whether it was written. False may also mean that the response to a request which wrote it was lost. None: the
        store is not opened here (`open_store`).

    Raises:
        ConfigurationError: the store rejects options or credentials.
        RetriableFailure: the store does not respond.
    """
    store = _open(location, options, setting, address)
    return None if store is None else _put(store, key, location, setting, address, body)


def unsafe_option(location: str, options: Mapping[str, str]) -> str | None:
    """The option that allows delta-rs to overwrite another writer's commit by a rename; None if none does."""
    given = {key.lower(): value for key, value in options.items()}
    for key in _UNSAFE:
        value = given.get(key) or ("://" in location and os.environ.get(key.upper())) or ""
        if value.lower() in _YES:
            return key
    return None


def refuse_unsafe(location: str, options: Mapping[str, str], *, setting: str, **address: str) -> None:
    """Raises ConfigurationError if there is an `unsafe_option`."""
    if option := unsafe_option(location, options):
        message = f"{option} lets two writers overwrite each other's commit"
        remedy = "unset it: commits use conditional PUTs and need no rename"
        raise ConfigurationError([Diagnostic(setting, message, remedy)], **address)


class StoreChecks:
    """Checks every store of a run's tables once.

    checked: locations whose store has been checked already.
    """

    def __init__(self, *checked: str) -> None:
        self._lock = threading.Lock()
        self._refusing = {store_of(location) for location in checked}
        self._raced: set[tuple[str, str]] = set()

    def raced_in(self, location: str) -> None:
        """Record that `check_races` has just tested this store, because a ledger was created there."""
        self._raced.add(store_of(location))

    def check(self, location: str, options: Mapping[str, str], *, making: bool, table: str) -> None:
        """Check a table's store before a commit to the table. making: whether the table is about to be created.

        Raises:
            ConfigurationError, RetriableFailure: as `check_refuses`.
        """
        refuse_unsafe(location, options, setting="sink", table=table)
        store = store_of(location)
        with self._lock:
            if making and store not in self._raced:
                check_races(location, options, setting="sink", table=table)
                self._raced.add(store)
            elif store not in self._refusing | self._raced:
                check_refuses(location, options, setting="sink", table=table)
            self._refusing.add(store)


def store_of(location: str) -> tuple[str, str]:
    """The unit that has one implementation of put-if-absent: a bucket, a container, or a mounted file system."""
    if not is_local(location):
        parts = urlsplit(location)
        return store_scheme(parts.scheme), parts.netloc
    return "file", str(nearest_existing(Path(local_path(location)).absolute()).stat().st_dev)


# --- obstore


def _open(location: str, options: Mapping[str, str], setting: str, address: Mapping[str, str]) -> ObjectStore | None:
    """The store; None if it is not checked."""
    from obstore.exceptions import BaseError

    try:
        return open_store(location, options)
    except (BaseError, OSError, ValueError) as error:
        raise _fault(error, location, setting, address) from error


def _put(
    store: ObjectStore, key: str, location: str, setting: str, address: Mapping[str, str], body: bytes = _BODY
) -> bool:
    """Whether the key was absent."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError

    try:
        obstore.put(store, key, body, mode="create", use_multipart=False)
    except AlreadyExistsError:
        return False
    except (BaseError, OSError) as error:
        raise _fault(error, location, setting, address) from error
    return True


def _delete(store: ObjectStore, keys: list[str]) -> None:
    import obstore
    from obstore.exceptions import BaseError

    try:
        obstore.delete(store, keys)
    except (BaseError, OSError):
        for key in keys:  # some may not exist
            with suppress(BaseError, OSError):
                obstore.delete(store, key)


def _fault(error: Exception, location: str, setting: str, address: Mapping[str, str]) -> Exception:
    text = str(error).partition("\n\nDebug source")[0]
    return store_error(
        f"cannot write below {location}", OSError(text), setting=setting, otherwise=RetriableFailure, **address
    )


def _not_put_if_absent(found: str, setting: str, address: Mapping[str, str]) -> ConfigurationError:
    message = f"the store is not put-if-absent: {found}. Two writers would overwrite each other's commit"
    return ConfigurationError([Diagnostic(setting, message, _REMEDY)], **address)

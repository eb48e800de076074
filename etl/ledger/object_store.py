"""Access to single keys in the store of a ledger or table with obstore, because delta-rs does not offer this.

obstore uses the same Rust crate as delta-rs (object_store), with the same options and environment variables.

These stores are not opened: schemes that obstore does not support (such as HDFS); S3 with AWS_S3_LOCKING_PROVIDER,
where delta-rs commits through a lock table; and Amazon S3 itself (no endpoint is set) if keys or region come from
profiles, single sign-on or roles. delta-rs finds these like the AWS SDK; obstore uses only options and environment
variables, and would send useless requests to the machine's metadata service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from kseg.etl.places import literal, store_scheme

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_LOCKING: Final = "aws_s3_locking_provider"
_ENDPOINTS: Final = ("aws_endpoint_url", "aws_endpoint", "aws_endpoint_url_s3")
_ROLES: Final = ("aws_iam_role_arn", "aws_s3_assume_role_arn")

# Options of the HTTP client: obstore takes them apart from the store's own.
_CLIENT: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)


def open_store(location: str, options: Mapping[str, str]) -> ObjectStore | None:
    """The store of a location; None if it cannot be opened in the same way as by delta-rs.

    location: a local path or URL; a local folder is created. options: delta-rs's options.

    Raises:
        obstore's BaseError, OSError, ValueError: it rejects an option.
    """
    from obstore.store import LocalStore, from_url

    given = {key.lower(): value for key, value in options.items()}
    if is_local(location):
        return LocalStore(local_path(location), automatic_cleanup=True, mkdir=True)
    scheme, colon, rest = location.partition(":")
    scheme = store_scheme(scheme)
    if scheme not in ("s3", "gs", "az", "azure", "abfs", "abfss", "adl"):
        return None
    if scheme == "s3" and (_given(_LOCKING, given) or _is_amazons(given)):
        return None
    url = f"{scheme}{colon}{rest}"
    client = {name: value for key, value in given.items() if (name := _unprefixed(key)) in _CLIENT}
    config = {key: value for key, value in given.items() if _unprefixed(key) not in _CLIENT and _takes(url, key)}
    if scheme == "s3":
        config["disable_bulk_delete"] = "true"  # many stores have no DeleteObjects, which would be retried for minutes
    retries: dict[str, Any] = {"max_retries": int(given["max_retries"])} if "max_retries" in given else {}
    settings: Any = {"config": config, "client_options": client or None, "retry_config": retries or None}
    store: ObjectStore = from_url(url, **settings)
    return store


def _given(key: str, options: Mapping[str, str]) -> bool:
    """Whether an S3 option is set, here or in the environment. key: with `aws_`, which the option may omit."""
    return bool(options.get(key) or options.get(key.removeprefix("aws_")) or os.environ.get(key.upper()))


def _is_amazons(options: Mapping[str, str]) -> bool:
    """Whether this is Amazon S3 and delta-rs may use more settings than the given ones."""
    if any(_given(key, options) for key in _ENDPOINTS):
        return False
    keys = _given("aws_access_key_id", options) and _given("aws_secret_access_key", options)
    region = _given("aws_region", options) or _given("aws_default_region", options)
    return not (keys and region) or any(_given(key, options) for key in _ROLES)


def _takes(url: str, key: str) -> bool:
    """Whether the store supports this option; delta-rs has additional ones."""
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    from obstore.store import from_url

    try:
        from_url(url, config={key: ""})  # type: ignore[call-overload]
    except UnknownConfigurationKeyError:
        return False
    except BaseError:
        pass  # a value that it does not take
    return True


class StoredFiles:
    """Files below a location, read by their keys; the store is opened when the first file is read.

    location, options: see `open_store`.
    """

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location, self._options = location, options
        self._store: ObjectStore | None = None

    def read(self, key: str) -> bytes:
        """The content of a file.

        Raises:
            FileNotFoundError: there is no file with this key.
            OSError, ValueError: the store cannot be opened, or does not respond.
        """
        if is_local(self._location):
            return Path(local_path(self._location), key).read_bytes()
        import obstore
        from obstore.exceptions import BaseError, NotFoundError

        try:
            store = self._store = self._store or open_store(self._location, self._options)
            if store is None:
                raise OSError(f"{self._location} is no store that is opened here")
            return bytes(obstore.get(store, key).bytes())
        except NotFoundError as error:
            raise FileNotFoundError(key) from error
        except (BaseError, OverflowError) as error:  # the latter of an option that is a number
            self._store = None  # perhaps the environment has other credentials by now
            raise OSError(str(error)) from error


def is_local(location: str) -> bool:
    return "://" not in location or location.startswith("file:")


def local_path(location: str) -> str:
    """The local path of a path or a `file:` URI."""
    return unquote(urlsplit(location).path) if location.startswith("file:") else location


def place_of(location: str) -> str:
    """The canonical form of a location: for a local path, without symbolic links, as delta-rs opens it; for a URL,
    without escapes."""
    return os.path.realpath(local_path(location)) if is_local(location) else literal(location)


def _unprefixed(key: str) -> str:
    for prefix in ("aws_", "azure_", "google_"):
        key = key.removeprefix(prefix)
    return key

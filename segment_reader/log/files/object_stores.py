"""Log files in object stores: S3, Google Cloud Storage, Azure, HDFS, and whatever else fsspec reaches.

    s3://bucket/prefix?region=eu-north-1&endpoint_override=localhost:9000&scheme=http
    gs://bucket/prefix        abfss://container@account.dfs.core.windows.net/prefix        hdfs://name-node/prefix

Objects are read by ranges alone. A reader that goes through an object gets a few MB at once, so that a round trip is
paid for each of these and not for each batch; one that reads here and there gets little more than it asks for.

A store's settings come from its own environment variables (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_…), from the URI's query, or from options: the arguments of pyarrow's file
system, for S3 also by the names that delta-rs has for them (aws_access_key_id …); for others those of the fsspec one.
Secrets in a URI are rejected: it appears in plans, logs and errors.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from pyarrow import fs

from kseg.segment_reader.log.errors import LogFileError, SegmentGone, StoreRefused, StoreUnavailable
from kseg.segment_reader.log.files.storage import OpenFile, Storage, StorageEntry

T = TypeVar("T")

#: The least that is asked for at once: less costs a round trip all the same.
LEAST_BYTES: Final = 32 * 1024
#: How far ahead is read at most, for one who reads on where the read before ended.
READ_AHEAD_BYTES: Final = 4 * 1024 * 1024
_PAUSES: Final = (0.2, 1.0, 3.0)

_S3: Final = ("s3", "s3a", "s3n")
_S3_NAMES: Final = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "default_region": "region",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
}
_TRUTHS: Final = {
    "anonymous",
    "force_virtual_addressing",
    "allow_delayed_open",
    "background_writes",
    "check_directory_existence_before_creation",
}
_SECONDS: Final = {"request_timeout", "connect_timeout"}
_SECRET: Final = re.compile(r"(?i)(secret|password|token|(account|access|private)_?key|credential|sas)")
_GONE: Final = re.compile(
    r"(?i)NO_SUCH_|NoSuch|RESOURCE_NOT_FOUND|status (code )?404|HTTP 404|BlobNotFound|ContainerNotFound"
)
_REFUSED: Final = re.compile(
    r"(?i)ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|UNRECOGNIZED_CLIENT|"
    r"(INVALID|EXPIRED)_(CLIENT_)?TOKEN|INVALID_CLIENT_TOKEN|TOKEN_?EXPIRED|MISSING_AUTHENTICATION|"
    r"status (code )?40[13]|HTTP 40[13]|permission.?denied|unauthenticated|authenticationfailed|authorization"
)
_REMEDY: Final = (
    "give credentials that may list and read it: by the environment, or as storage options (never in the URI)"
)


class ArrowFile:
    """An object, or a file of any file system that Arrow knows. Views stay valid."""

    def __init__(self, path: str, file: pa.NativeFile) -> None:
        self.path = path
        self.size: int = _asked(lambda: file.size(), path, None)
        self._file = file
        self._data: bytes | pa.Buffer = b""
        self._start = 0
        self._ahead = 0

    def read(self, position: int, length: int) -> memoryview:
        length = max(0, min(length, self.size - position))
        have = self._start + len(self._data)
        if not self._start <= position <= position + length <= have:
            self._fetch(position, length, have)
        first = position - self._start
        return memoryview(self._data)[first : first + length]

    def _fetch(self, position: int, length: int, have: int) -> None:
        """Asks for what is missing. Who reads on gets twice as much each time; a jump starts over."""
        kept = b""
        if have and self._start <= position <= have:
            kept = bytes(memoryview(self._data)[position - self._start :])
            self._ahead = min(READ_AHEAD_BYTES, max(LEAST_BYTES, 2 * self._ahead))
        else:
            self._ahead = 0
        begin = position + len(kept)
        wanted = max(length - len(kept), self._ahead, LEAST_BYTES)
        count = min(wanted, self.size - begin)
        got = _asked(lambda: self._file.read_at(count, begin), self.path, begin) if count > 0 else b""
        if len(got) < min(length - len(kept), count):
            raise SegmentGone(self.path, begin, f"{len(got)} of {count} bytes were read: it became shorter")
        self._data, self._start = kept + got if kept else got, position

    def close(self) -> None:
        self._file.close()
        self._data = b""


class ArrowStorage:
    """S3, Google Cloud Storage, Azure, HDFS and whatever else `pyarrow.fs` or fsspec reaches."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem

    def list(self, folder: str) -> list[StorageEntry]:
        selector = fs.FileSelector(folder)
        found = _asked(lambda: self._filesystem.get_file_info(selector), folder, None)
        entries = [
            StorageEntry(info.base_name, info.type == fs.FileType.Directory, info.size or 0)
            for info in found
            if info.type in (fs.FileType.File, fs.FileType.Directory)
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def open(self, path: str) -> OpenFile:
        return ArrowFile(path, _asked(lambda: self._filesystem.open_input_file(path), path, None))

    def read_all(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return bytes(file.read(0, file.size))
        finally:
            file.close()


def open_objects(location: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The storage that a URI names, and the path in it. Raises ValueError."""
    parts = urlsplit(location)
    _refuse_secrets(location, parts.scheme, parts.username, parts.password, parts.query)
    query = dict(parse_qsl(parts.query))
    try:
        if parts.scheme in _S3:
            return ArrowStorage(_s3(parts.netloc, query | dict(options))), f"{parts.netloc}{parts.path}".rstrip("/")
        if options and parts.scheme in ("gs", "gcs"):
            return ArrowStorage(
                fs.GcsFileSystem(**_typed(query | dict(options)))
            ), f"{parts.netloc}{parts.path}".rstrip("/")
        if options and parts.scheme in ("abfs", "abfss"):
            return _azure(parts.netloc, parts.path, query | dict(options))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_shown(location)}: {error}") from error
    if not options:
        try:
            filesystem, path = fs.FileSystem.from_uri(location)
            return ArrowStorage(filesystem), path.rstrip("/")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if parts.scheme in ("gs", "abfs", "abfss"):
                raise ValueError(f"{_shown(location)}: {error}") from error
    return _through_fsspec(location, options)


def _s3(bucket: str, given: Mapping[str, str]) -> fs.FileSystem:
    properties: dict[str, str] = {}
    for name, value in given.items():
        plain = name.lower().removeprefix("aws_")
        if plain == "allow_http":
            if value.lower() == "true":
                properties.setdefault("scheme", "http")
            continue
        properties[_S3_NAMES.get(plain, plain)] = value
    of_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = properties.get("endpoint_override") or of_environment or ""
    if endpoint.startswith(("http://", "https://")):
        properties["scheme"], _, endpoint = endpoint.partition("://")
    if endpoint:
        properties["endpoint_override"] = endpoint
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if "region" not in properties and region:
        properties["region"] = region
    if "region" not in properties and not endpoint:
        properties["region"] = _asked(lambda: fs.resolve_s3_region(bucket), f"s3://{bucket}", None)
    return fs.S3FileSystem(**_typed(properties))


def _azure(netloc: str, path: str, given: Mapping[str, str]) -> tuple[Storage, str]:
    container, _, host = netloc.rpartition("@")
    properties = {name.lower().removeprefix("azure_storage_"): value for name, value in given.items()}
    properties.setdefault("account_name", host.split(".")[0])
    return ArrowStorage(fs.AzureFileSystem(**_typed(properties))), f"{container or netloc}{path}".rstrip("/")


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: value.lower() == "true" if name in _TRUTHS else float(value) if name in _SECONDS else value
        for name, value in given.items()
    }


def _through_fsspec(location: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        scheme = urlsplit(location).scheme
        raise ValueError(
            f"{_shown(location)}: pyarrow does not support {scheme}://; install fsspec, which may support it"
        ) from None
    try:
        filesystem, path = url_to_fs(location, **options)
    except (ValueError, ImportError, TypeError) as failure:
        raise ValueError(f"{_shown(location)}: {failure}") from failure
    return ArrowStorage(fs.PyFileSystem(fs.FSSpecHandler(filesystem))), path.rstrip("/")


def _refuse_secrets(location: str, scheme: str, user: str | None, password: str | None, query: str) -> None:
    named = [name for name, _ in parse_qsl(query) if _SECRET.search(name)]
    if password is not None or named or (user is not None and scheme in _S3):
        raise ValueError(
            f"{_shown(location)}: a URI appears in plans and logs and must not have credentials in it; "
            "give them by the environment or as storage options"
        )


def _shown(location: str) -> str:
    """A URI for people: without its query, and without a user and password."""
    parts = urlsplit(location)
    host = parts.netloc.rpartition("@")[2] if parts.password is not None or parts.scheme in _S3 else parts.netloc
    return f"{parts.scheme}://{host}{parts.path}"


def _asked(question: Callable[[], T], path: str, position: int | None) -> T:
    """Asks a store, several times where that may help; what it says no with becomes one of our errors."""
    for pause in (*_PAUSES, None):
        try:
            return question()
        except (OSError, pa.ArrowException) as error:
            mapped = _error_of(error, path, position)
            if pause is None or not isinstance(mapped, StoreUnavailable):
                raise mapped from None
            time.sleep(pause)
    raise AssertionError  # the last round returns or raises


def _error_of(error: Exception, path: str, position: int | None) -> LogFileError:
    text = str(error).removeprefix("[Errno 2] ")
    if isinstance(error, FileNotFoundError) or (_GONE.search(text) and not isinstance(error, PermissionError)):
        return SegmentGone(path, position, "there is no such object or folder")
    if isinstance(error, PermissionError) or _REFUSED.search(text):
        return StoreRefused(path, position, text, _REMEDY)
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return SegmentGone(path, position, text)
    if isinstance(error, OSError):
        return StoreUnavailable(path, position, text)
    return LogFileError(path, position, text)

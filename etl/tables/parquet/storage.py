"""Locations of tables: local paths, URIs and the stores behind them.

Data files are written and listed through `pyarrow.fs`; whatever commits them gets its location and options from the
same value. Whoever names a place but opens nothing does not load pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kseg.etl.catalogs.registry import resolve
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.object_store import place_of
from kseg.etl.ledger.store_errors import store_error
from kseg.etl.places import is_file_url, literal

if TYPE_CHECKING:
    import pyarrow.fs as pafs

# Names that delta-rs (object_store) and pyarrow's S3 client have for the same thing.
_S3_OPTIONS = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "session_token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
}
_S3_SCHEMES = ("s3", "s3a", "s3n")
_BUCKETS = ("s3", "gcs")
_UNRESERVED = "/:@!$&'()*+,;=~"
_FILE = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)


class Opened(NamedTuple):
    """A file system and the table's root folder in it. uri: the same place as `TableLocation` has it."""

    fs: pafs.FileSystem
    root: str
    uri: str

    def path(self, relative: str) -> str:
        return f"{self.root}/{relative}"

    @property
    def has_folders(self) -> bool:
        """Whether a file's folder has to be there before it. A bucket has none: pyarrow would ask for the bucket and
        put an empty object for the folder and for each one above it, for every file.
        """
        return self.fs.type_name not in _BUCKETS

    @contextmanager
    def asked(self, doing: str) -> Iterator[None]:
        """Around all that asks the file system: its errors leave typed, as those of delta-rs do.

        doing: as a message begins ("cannot write a data file").

        Raises:
            RetriableFailure: the store does not answer, or not now.
            ConfigurationError: it wants other settings or credentials.
            FileNotFoundError: as it is: what it means depends on what was asked for.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise store_error(doing, error, setting="sink", table=self.uri) from error


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table's location: an absolute local path or a URI, and the options of its store (names as delta-rs has them).

    Options may hold secrets: they are not shown, and they travel to the tasks that write files.
    """

    uri: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, place: str | Path, options: Mapping[str, str] | None = None) -> TableLocation:
        """A path (made absolute), a `file:` URI (made a path; nothing in it is encoded) or another URI (`s3a:` becomes
        `s3:`).

        Raises:
            ConfigurationError: a `file:` URI names a host.
        """
        text = str(place)
        if is_file_url(text):
            text = _FILE.sub("", text)
            if text.startswith("//"):
                raise ConfigurationError.of("sink", f"{place} names a host in a file URL", "write file:///folder")
        elif urlsplit(text).scheme in _S3_SCHEMES:
            text = f"s3://{text.partition('://')[2]}"
        if "://" not in text:
            text = str(Path(text).absolute())
        return cls(text.rstrip("/") or "/", tuple(sorted((options or {}).items())))

    @classmethod
    def of_table(cls, table: str) -> TableLocation | None:
        """The location of a target of the job file; None if only a Spark session knows it. Raises as `of`."""
        found = resolve(table)
        return None if found.location is None else cls.of(found.location, found.credentials)

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    @property
    def place(self) -> str:
        """One spelling for each place: of a local path without symbolic links."""
        return place_of(self.uri)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The store's options, as delta-rs takes them."""
        return dict(self.options) or None

    def open(self) -> Opened:
        """The file system, to write and list files.

        Raises:
            ConfigurationError: there is no client for the URI's scheme.
        """
        import pyarrow.fs as pafs

        if self.is_local:
            return Opened(pafs.LocalFileSystem(), self.uri, self.uri)
        scheme = urlsplit(self.uri).scheme
        if scheme in _S3_SCHEMES and self.options:
            return Opened(self._s3(), self._s3_root, self.uri)
        try:
            fs, root = pafs.FileSystem.from_uri(self._encoded)
        except (ValueError, NotImplementedError, ImportError) as error:
            raise ConfigurationError.of("sink", f"cannot write to {self.uri}: {error}") from error
        return Opened(fs, root.rstrip("/"), self.uri)

    def open_for_writing(self) -> Opened:
        """The same, where files will be written: S3 takes one that is smaller than a part of an upload in one request
        instead of three.
        """
        if urlsplit(self.uri).scheme in _S3_SCHEMES:
            if self.options:
                return Opened(self._s3(allow_delayed_open=True), self._s3_root, self.uri)
            import pyarrow.fs as pafs

            encoded = self._encoded
            more = "&" if "?" in encoded else "?"
            fs, root = pafs.FileSystem.from_uri(f"{encoded}{more}allow_delayed_open=true")
            return Opened(fs, root.rstrip("/"), self.uri)
        return self.open()

    @property
    def _encoded(self) -> str:
        """The URL as Arrow wants it, for the keys that delta-rs has of it: what is encoded already stays so. Options of
        Arrow's store behind `?` stay as they are; a table's URL has none (`etl.places`)."""
        scheme, _, rest = self.uri.partition("://")
        host, slash, path = rest.partition("/")
        path, mark, options = path.partition("?")
        return f"{scheme}://{host}{slash}{quote(unquote(path), safe=_UNRESERVED)}{mark}{options}"

    @property
    def _s3_root(self) -> str:
        return literal(self.uri).removeprefix("s3://")

    def _s3(self, **more: Any) -> pafs.FileSystem:
        import pyarrow.fs as pafs

        settings = more
        for key, value in self.options:
            name = key.lower().removeprefix("aws_")
            if name in _S3_OPTIONS:
                settings[_S3_OPTIONS[name]] = value
            elif name == "allow_http" and value.lower() == "true":
                settings["scheme"] = "http"
        return pafs.S3FileSystem(**settings)

    def __str__(self) -> str:
        return self.uri

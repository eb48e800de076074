"""An S3 server in memory whose conditional PUTs are atomic, racing, ignored or unknown, as in stores of many makes.

It knows what delta-rs and pyarrow ask of a bucket: GET (also of a range), HEAD, PUT, uploads in parts, DELETE,
DeleteObjects, ListObjectsV2. Signatures are not checked (`harness.s3` has a server that does).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Conditional = Literal["atomic", "racing", "ignored", "unknown"]


@dataclass
class MemoryS3:
    """A bucket `logs`. conditional: what becomes of `If-None-Match: *`. asked: (method, key) of all requests.

    on_write: called with the key after each object that was written or deleted, before that is answered. page: keys of
    one answer to a listing.
    """

    port: int
    conditional: Conditional = "atomic"
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    on_write: Callable[[str], None] | None = None
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    page: int = 1_000

    @property
    def options(self) -> dict[str, str]:
        """As delta-rs takes them."""
        return {
            "aws_access_key_id": "anybody",
            "aws_secret_access_key": "anything",
            "aws_endpoint_url": f"http://127.0.0.1:{self.port}",
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name.upper(): value for name, value in self.options.items()},
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def put(self, key: str, body: bytes, *, only_if_absent: bool) -> int:
        """The status of a PUT."""
        conditional = self.conditional if only_if_absent else "ignored"
        if conditional == "unknown":
            return 501
        if conditional == "racing":
            # The check, then the write: as a gateway over a file system does it.
            there = key in self.objects
            time.sleep(0.01)
            if there:
                return 412
        with self.lock:
            if conditional == "atomic" and key in self.objects:
                return 412
            self.objects[key] = (body, time.time())
        self.written(key)
        return 200

    def delete(self, *keys: str) -> None:
        for key in keys:
            with self.lock:
                self.objects.pop(key, None)
            self.written(key)

    def written(self, key: str) -> None:
        if self.on_write is not None:
            self.on_write(key)


@contextmanager
def serve_memory_s3(conditional: Conditional = "atomic") -> Iterator[MemoryS3]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.store = MemoryS3(server.server_address[1], conditional)  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.store  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: with Nagle's algorithm the second waits 40 ms for the first one's
    # acknowledgement.
    disable_nagle_algorithm = True

    @property
    def store(self) -> MemoryS3:
        return self.server.store  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: Any) -> None:
        pass

    def _begin(self) -> tuple[str, dict[str, list[str]], bytes]:
        parts = urlsplit(self.path)
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        query = parse_qs(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _unchunked(body)
        self.store.asked.append((self.command, key or f"?{query.get('prefix', [''])[0]}"))
        return key, query, body

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self) -> None:
        self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")

    def do_PUT(self) -> None:
        key, query, body = self._begin()
        if "uploadId" in query:
            self.store.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, ETag=_etag(body))
            return
        status = self.store.put(key, body, only_if_absent=self.headers.get("If-None-Match") == "*")
        code = {412: "PreconditionFailed", 501: "NotImplemented"}.get(status)
        refusal = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self._answer(status, refusal if code else b"", ETag=_etag(body))

    def do_GET(self) -> None:
        key, query, _ = self._begin()
        if not key:
            self._list(query)
            return
        found = self.store.objects.get(key)
        if found is None:
            self._missing()
            return
        data, written = found
        headers = {"ETag": _etag(data), "Last_Modified": formatdate(written, usegmt=True)}
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if span and self.command == "GET":
            first = int(span[1]) if span[1] else max(0, len(data) - int(span[2]))
            last = min(int(span[2]), len(data) - 1) if span[1] and span[2] else len(data) - 1
            self._answer(206, data[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **headers)
        else:
            self._answer(200, data, **headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        key, query, _ = self._begin()
        if "uploadId" in query:
            self.store.uploads.pop(query["uploadId"][0], None)
        else:
            self.store.delete(key)
        self._answer(204)

    def do_POST(self) -> None:
        key, query, body = self._begin()
        if "uploads" in query:
            upload = secrets.token_hex(8)
            self.store.uploads[upload] = {}
            self._answer(200, _result("InitiateMultipartUploadResult", UploadId=upload, Key=key))
            return
        if "uploadId" in query:
            parts = self.store.uploads.pop(query["uploadId"][0])
            whole = b"".join(part for _, part in sorted(parts.items()))
            self.store.put(key, whole, only_if_absent=False)
            self._answer(200, _result("CompleteMultipartUploadResult", Key=key, ETag=_etag(whole)))
            return
        keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
        self.store.delete(*keys)
        gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())

    def _list(self, query: dict[str, list[str]]) -> None:
        def first(name: str) -> str:
            return query.get(name, [""])[0]

        prefix, delimiter, page = first("prefix"), first("delimiter"), self.store.page
        after = first("continuation-token") or first("start-after")
        with self.store.lock:
            there = sorted((key, len(data), at) for key, (data, at) in self.store.objects.items())
        folders: set[str] = set()
        entries = []
        more = last = ""
        for key, size, written in there:
            if not key.startswith(prefix) or key <= after:
                continue
            if len(entries) == page:
                more = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>"
                break
            last = key
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(written))
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified><ETag>&quot;x&quot;</ETag>"
                f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders))
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>logs</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries) + len(folders)}</KeyCount>"
            f"<MaxKeys>{page}</MaxKeys><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}"
            f"{''.join(entries)}{common}</ListBucketResult>"
        )
        self._answer(200, body.encode(), Content_Type="application/xml")


def _result(name: str, **fields: str) -> bytes:
    inner = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in {"Bucket": "logs", **fields}.items())
    return f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inner}</{name}>'.encode()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def _unchunked(body: bytes) -> bytes:
    """The payload of a streaming upload: chunks, each behind its length in hexadecimal digits."""
    found = b""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        found, body = found + body[:size], body[size + 2 :]
    return found

"""AWS Glue Schema Registry as its JSON 1.1 protocol has it, for AWS' own client: schemas, their versions, and errors.

https://docs.aws.amazon.com/glue/latest/dg/aws-glue-api-schema-registry-api.html
"""

from __future__ import annotations

import json
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REGION = "eu-central-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hunter2/hunter2"}
_PAGE = 2
"""Versions in one answer, so that lists have several."""


class Fault(Exception):
    """An answer that is an error. code: of AWS, empty for none."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(status, code, message)
        self.status, self.code, self.message = status, code, message


@dataclass
class GlueServer:
    """faults: the next answers. asked: operations with what was asked for. versions: documents by their UUID."""

    url: str
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def register(
        self, name: str, text: str, *, form: str = "AVRO", status: str = "AVAILABLE", registry: str = "default-registry"
    ) -> uuid.UUID:
        """The UUID of a schema's next version."""
        version = uuid.uuid4()
        self.versions[str(version)] = {
            "SchemaVersionId": str(version),
            "SchemaDefinition": text,
            "DataFormat": form,
            "SchemaArn": f"arn:aws:glue:{REGION}:123456789012:schema/{registry}/{name}",
            "VersionNumber": len(self._of(name, registry)) + 1,
            "Status": status,
            "CreatedTime": "2026-11-28T00:00:00.000Z",
        }
        return version

    def get_schema_version(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "SchemaVersionId" in asked:
            found = self.versions.get(asked["SchemaVersionId"])
        else:
            number = asked["SchemaVersionNumber"]["VersionNumber"]
            named = self._named(asked["SchemaId"])
            found = next((one for one in named if one["VersionNumber"] == number), None)
        if found is None:
            raise Fault(400, "EntityNotFoundException", "Schema version is not found.")
        return found

    def list_schema_versions(self, asked: dict[str, Any]) -> dict[str, Any]:
        named = self._named(asked["SchemaId"])
        start = int(asked.get("NextToken", 0))
        names = ("SchemaArn", "SchemaVersionId", "VersionNumber", "Status", "CreatedTime")
        page = [{name: one[name] for name in names} for one in named[::-1][start : start + _PAGE]]
        more = {"NextToken": str(start + _PAGE)} if start + _PAGE < len(named) else {}
        return {"Schemas": page, **more}

    def _named(self, schema: dict[str, str]) -> list[dict[str, Any]]:
        found = self._of(schema["SchemaName"], schema["RegistryName"])
        if not found:
            raise Fault(400, "EntityNotFoundException", f"Schema is not found. SchemaName: {schema['SchemaName']}")
        return found

    def _of(self, name: str, registry: str) -> list[dict[str, Any]]:
        return [one for one in self.versions.values() if one["SchemaArn"].endswith(f":schema/{registry}/{name}")]


def with_header(version: uuid.UUID, body: bytes, *, compressed: bool = False) -> bytes:
    """A payload as AWS' serializer writes it."""
    return bytes([3, 5 if compressed else 0]) + version.bytes + (zlib.compress(body) if compressed else body)


@contextmanager
def glue_server() -> Iterator[GlueServer]:
    """Start one, and stop it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service, _, operation = self.headers["X-Amz-Target"].partition(".")
            assert (service, self.headers["Content-Type"]) == ("AWSGlue", "application/x-amz-json-1.1")
            server.asked.append((operation, asked))
            server.logins.append(self.headers["Authorization"])
            try:
                if server.faults:
                    raise server.faults.pop(0)
                operations = {
                    "GetSchemaVersion": server.get_schema_version,
                    "ListSchemaVersions": server.list_schema_versions,
                }
                status, document = 200, operations[operation](asked)
            except Fault as fault:
                status, document = fault.status, {"__type": fault.code, "Message": fault.message}
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server = GlueServer(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()

"""A real S3 server for a local folder: S3Proxy on a local port; it verifies signatures.

with s3proxy(directory, "lake") as store:
    environment(store.port)      # environment variables for clients
    store.bucket                 # the folder of bucket "lake"; a file written there is an object
"""

from __future__ import annotations

import contextlib
import http.client
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kseg.jobs.broker import jars
from kseg.jobs.broker.child import Child, await_ready, end_all
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.broker.properties import HOST

KEY, SECRET = "reader", "a secret of the reader"
_LIGHT: Final = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOGBACK: Final = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%d %p %m%n</pattern></encoder></appender><root level="warn"><appender-ref ref="out"/></root></configuration>"""


@dataclass(frozen=True)
class S3Store:
    """port: that of the server. bucket: the folder of its only bucket. pid: that of its process."""

    port: int
    bucket: Path
    pid: int


def environment(port: int) -> dict[str, str]:
    """The environment variables with which clients use the store at a port of this machine."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # S3Proxy, like many other stores, does not support trailing CRC64 checksums of uploads.
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }


@contextmanager
def s3proxy(directory: Path, bucket: str, *, light: bool = False) -> Iterator[S3Store]:
    """Start it in an empty directory, and stop it. light: with little memory and JIT compilation, for tests."""
    (directory / "buckets" / bucket).mkdir(parents=True)
    (directory / "logback.xml").write_text(_LOGBACK)
    (port,) = free_ports(1)
    (directory / "s3proxy.conf").write_text(
        f"s3proxy.endpoint=http://{HOST}:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={KEY}\ns3proxy.credential={SECRET}\njclouds.provider=filesystem\n"
        f"jclouds.identity=none\njclouds.credential=none\njclouds.filesystem.basedir={directory / 'buckets'}\n"
    )
    options = [*(_LIGHT if light else ("-Xmx1g",)), "-Dlogback.configurationFile=logback.xml"]
    command = [find_java().command, *options, "-cp", jars.class_path(jars.S3PROXY), "org.gaul.s3proxy.Main"]
    log = directory / "s3proxy.log"
    child = Child([*command, "--properties", "s3proxy.conf"], log_file=log, directory=directory, remove=False)
    try:
        await_ready({"the S3 server": child}, lambda: _answers(port), within=120)
        yield S3Store(port, directory / "buckets" / bucket, child.pid)
    finally:
        end_all([child], signal.SIGTERM, 20)


def _answers(port: int) -> bool:
    try:
        with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=5)) as connection:
            connection.request("GET", "/")
            connection.getresponse().read()
    except OSError:
        return False
    return True

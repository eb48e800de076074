"""The jars that Kafka and Delta need: downloaded from Maven Central once, then kept in the cache.

``jars.lock``, beside this file, lists every jar of a set with its SHA-256, one per line. Archives also have a
classifier and an extension::

    kafka-4.3.1     org.apache.kafka kafka-clients 4.3.1 <sha256>
    apicurio-3.0.9  io.apicurio apicurio-registry-app 3.0.9 <sha256> all tar.gz

``fetch`` passes this list to Ivy, which is part of pyspark, so neither Maven nor a Kafka download is needed. The list
is complete, so Ivy resolves no dependencies and reads no POMs, and several JVMs share the list: 53 jars arrive in 4 s,
compared with 38 s if one Ivy resolves the dependencies. ``python -m kseg.jobs.broker.lock`` writes the lock file for
another version.

A set is downloaded under a file lock, into a temporary folder. When all jars are there and their checksums match, the
folder is renamed. So two processes that need the same jars at the same time download them only once.

Environment:
    KSEG_CACHE         root of the cache (default ``$XDG_CACHE_HOME/kseg``, ``~/.cache/kseg``)
    KSEG_IVY_SETTINGS  an Ivy settings file that names another repository, for closed networks
    HTTPS_PROXY, NO_PROXY  as for other programs; passed on to Java, which does not read them itself

Ivy's Java trusts the certificate authorities that the rest of the machine trusts. A Java that did not come with the
operating system (the one from PyPI) knows only its own list, so it cannot talk to a repository behind a company's own
authority, although pip just did. The authorities that Python sees are written as a Java key store (JKS), big-endian,
strings as two bytes of length and UTF-8::

    magic 0xFEEDFEED, version 2, count    int32 each
    per entry: 2 = trusted certificate int32, alias string, created int64, "X.509" string, length int32, DER bytes
    SHA-1 of password and all the above   left as zeros: Java compares it only when it is given a password
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import ssl
import struct
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from kseg.etl.spark import cache as kseg_cache
from kseg.jobs.broker.errors import JarsUnavailable
from kseg.jobs.broker.java import Java, find_java

_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")


def authorities(environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """DER of the certificates that Python's ssl trusts (SSL_CERT_FILE counts there) or that the environment names."""
    context = ssl.create_default_context()
    for name in _VARIABLES:
        if environ.get(name) and Path(environ[name]).is_file():
            context.load_verify_locations(cafile=environ[name])
    return context.get_ca_certs(binary_form=True)


def java_key_store(certificates: Iterable[bytes]) -> bytes:
    """A JKS file of trusted certificates, without a password."""
    entries = []
    for number, der in enumerate(certificates):
        head = struct.pack(">i", 2) + _text(f"ca-{number}") + struct.pack(">q", 0) + _text("X.509")
        entries.append(head + struct.pack(">i", len(der)) + der)
    return struct.pack(">Iii", 0xFEEDFEED, 2, len(entries)) + b"".join(entries) + bytes(20)


def trust_options(folder: Path) -> list[str]:
    """Java's system properties that make it use such a key store, which is written into ``folder``."""
    store = folder / "authorities.jks"
    store.write_bytes(java_key_store(authorities()))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


KAFKA = "kafka-4.3.1"
OLD_KAFKA = "kafka-3.9.2"
DELTA = kseg_cache.DELTA
S3PROXY = "s3proxy-2.9.0"
YARN = "hadoop-yarn-3.5.0"
LIVY = "livy-0.7.1"
OPENLINEAGE = "openlineage-1.54.0"
APICURIO = "apicurio-3.0.9"

Progress = Callable[[str, int, int], None]
"""Called with (set name, jars arrived, jars in all)."""

#: Ivy's pattern for the names of downloaded files, which gives the same names as `Jar.filename`.
RETRIEVED = "[artifact]-[revision](-[classifier]).[ext]"

_JVMS = 4
_REMEDY = (
    "Check the network and try again. In a closed network set KSEG_IVY_SETTINGS to an Ivy settings file that names "
    "your repository, or copy the cache's jars folder from a machine that has it."
)
#: Maven Central, without reading POMs: no dependencies are resolved.
SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""/>
  </resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One artifact, as Maven addresses it, and the SHA-256 of its bytes. An archive (tar.gz) is kept unpacked."""

    organisation: str
    module: str
    version: str
    sha256: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def filename(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.version}{classifier}.{self.extension}"

    @property
    def kept(self) -> str:
        """The name in the cache: of the jar, or of the folder that an archive was unpacked into."""
        return self.filename if self.extension == "jar" else f"{self.module}-{self.version}"


@cache
def locked_sets() -> Mapping[str, tuple[Jar, ...]]:
    """All jar sets of the lock file by name."""
    sets: dict[str, list[Jar]] = {}
    text = resources.files("kseg.jobs.broker").joinpath("jars.lock").read_text()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, *jar = line.split()
            sets.setdefault(name, []).append(Jar(*jar))
    return {name: tuple(jars) for name, jars in sets.items()}


def directory(name: str) -> Path:
    """The folder of a set's jars, whether or not it exists yet."""
    return kseg_cache.jar_folder(name)


def present(name: str) -> bool:
    """Whether all jars of a set are in the cache (by name; checksums were verified after the download)."""
    folder = directory(name)
    return all((folder / jar.kept).exists() for jar in locked_sets()[name])


def ensure(name: str, *, progress: Progress | None = None) -> Path:
    """The folder with a set's jars, which are fetched first if they are missing.

    Raises JarsUnavailable (no network, jars missing in the repository, wrong checksums), JavaMissing.
    """
    folder = directory(name)
    if not present(name):
        with _alone(folder):
            if not present(name):
                fetch(name, folder, progress=progress)
    return folder


def class_path(name: str) -> str:
    """A set's jars as a Java class path; fetches them if they are missing."""
    folder = ensure(name)
    return os.pathsep.join(str(folder / jar.filename) for jar in locked_sets()[name])


def fetch(name: str, target: Path, *, progress: Progress | None = None) -> None:
    """Download a whole set into ``target``, replacing it. If the download fails, ``target`` is unchanged."""
    jars = locked_sets()[name]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
        work = Path(scratch)
        arrived = work / "jars"
        tell = (lambda done: progress(name, done, len(jars))) if progress else (lambda _: None)
        try:
            _run_ivy(ivy_command(find_java()), jars, work, arrived, tell)
        except JarsUnavailable as failure:
            if "PKIX" not in failure.message:
                raise
            # This Java trusts fewer certificate authorities than the machine does: try again with the machine's.
            _run_ivy(ivy_command(find_java(), *trust_options(work)), jars, work, arrived, tell)
        _check_sums(name, jars, arrived)
        _unpack(jars, arrived)
        if target.exists():
            target.rename(work / "replaced")
        arrived.rename(target)


def ivy_command(java: Java, *options: str) -> list[str]:
    """``java … org.apache.ivy.Main``, with the jar that pyspark ships."""
    pyspark = importlib.util.find_spec("pyspark")
    folders = list(pyspark.submodule_search_locations or []) if pyspark else []
    found = [jar for folder in folders for jar in (Path(folder) / "jars").glob("ivy-*.jar")]
    if not found:
        raise JarsUnavailable("pyspark is not installed; its copy of Ivy fetches the jars.", remedy="Run `make setup`.")
    small = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    options = (*small, *proxy_options(os.environ), *options)
    return [java.command, *options, "-cp", str(found[0]), "org.apache.ivy.Main"]


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java's system properties for the proxy that the environment names."""
    options = []
    for scheme in ("http", "https"):
        proxy = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY")
        if not proxy:
            continue
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        options.append(f"-D{scheme}.proxyHost={parts.hostname}")
        if parts.port:
            options.append(f"-D{scheme}.proxyPort={parts.port}")
    direct = environ.get("no_proxy") or environ.get("NO_PROXY")
    if options and direct:
        hosts = [f"*{host.strip()}" if host.strip().startswith(".") else host.strip() for host in direct.split(",")]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def _run_ivy(
    command: Sequence[str], jars: Sequence[Jar], work: Path, arrived: Path, progress: Callable[[int], None]
) -> None:
    own = os.environ.get("KSEG_IVY_SETTINGS")
    if own and not Path(own).is_file():
        raise JarsUnavailable(
            f"KSEG_IVY_SETTINGS names {own}, which is not a file.", remedy="Set it to an Ivy settings file."
        )
    settings = Path(own) if own else work / "settings.xml"
    if not own:
        settings.write_text(SETTINGS)
    shares = [jars[start::_JVMS] for start in range(min(_JVMS, len(jars)))]
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, share in enumerate(shares):
            module, log = work / f"ivy-{number}.xml", work / f"ivy-{number}.log"
            module.write_text(_ivy_module(share))
            arguments = ["-settings", str(settings), "-cache", str(work / f"cache-{number}"), "-ivy", str(module)]
            arguments += ["-confs", "default", "-retrieve", f"{arrived}/{RETRIEVED}"]
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [*command, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=work
                )
            running.append((process, log))
        while any(process.poll() is None for process, _ in running):
            progress(sum(1 for _ in work.glob("cache-*/**/*.jar")))
            time.sleep(0.1)
    finally:
        for process, _ in running:
            if process.poll() is None:
                process.kill()
            process.wait()
    missing = [jar.filename for jar in jars if not (arrived / jar.filename).exists()]
    if missing:
        where = f"the repositories of {own}" if own else "Maven Central"
        reason = _reason([log for _, log in running])
        raise JarsUnavailable(
            f"{len(missing)} of {len(jars)} jars could not be fetched from {where}: {reason}", remedy=_REMEDY
        )
    progress(len(jars))


def _ivy_module(jars: Sequence[Jar]) -> str:
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="kseg" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(_ivy_dependency(jar) for jar in jars)}</dependencies></ivy-module>"
    )


def _ivy_dependency(jar: Jar) -> str:
    artifact = ""
    if jar.extension != "jar":
        kind = f'type="{jar.extension}" ext="{jar.extension}" m:classifier="{jar.classifier}"'
        artifact = f'<artifact name="{jar.module}" {kind}/>'
    address = f'org="{jar.organisation}" name="{jar.module}" rev="{jar.version}"'
    return f'<dependency {address} transitive="false" conf="default->*">{artifact}</dependency>'


def _unpack(jars: Sequence[Jar], folder: Path) -> None:
    for jar in jars:
        if jar.extension == "tar.gz":
            with tarfile.open(folder / jar.filename) as archive:
                archive.extractall(folder / jar.kept, filter="data")
            (folder / jar.filename).unlink()


def _reason(logs: Sequence[Path]) -> str:
    """The most informative line of Ivy's logs."""
    text = "\n".join(log.read_text(errors="replace") for log in logs)
    for pattern in (
        r"host not found host=\S+|Host \S+ not found[^\n]*|UnknownHostException[^\n]*",
        r"SSLHandshakeException[^\n]*|Connection (?:refused|timed out)[^\n]*",
        r"UNRESOLVED DEPENDENCY[^\n]*|unresolved dependency[^\n]*",
        r"\t?(?:Server access Error|download failed|not found)[^\n]*",
    ):
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            return match[0].strip().rstrip(".") + "."
    return (text.strip().splitlines() or ["Ivy printed nothing."])[-1]


def _check_sums(name: str, jars: Sequence[Jar], folder: Path) -> None:
    wrong = [jar.filename for jar in jars if sha256(folder / jar.filename) != jar.sha256]
    if wrong:
        raise JarsUnavailable(
            f"Downloaded jars of {name} differ from those in jars.lock: wrong SHA-256 of {', '.join(wrong)}.",
            remedy="Ask the administrator of the repository. Nothing was kept.",
        )


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock beside a folder, after waiting for other processes. The kernel releases it if the owner dies."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

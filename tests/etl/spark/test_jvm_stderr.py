"""Of what a JVM writes to stderr one line of Java's is left out; all else comes through, also after the start."""

from __future__ import annotations

import subprocess
import sys

START = r"""
import subprocess, sys, threading
from kseg.etl.spark.jvm_stderr import without_incubator_warning

child = "import sys; w = sys.stderr.write; "
child += "w('WARNING: Using incubator modules: jdk.incubator.vector\\nWARNING: other\\n50%'); sys.stderr.flush(); "
child += "sys.stdin.read(); w('\\nlast words')"
with without_incubator_warning():
    jvm = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE)
print("mine", file=sys.stderr, flush=True)
jvm.communicate(b"")
jvm.wait()
for reader in [thread for thread in threading.enumerate() if thread.name == "jvm-stderr"]:
    reader.join()
"""


def test_one_line_is_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=120)
    assert "incubator" not in done.stderr
    assert all(words in done.stderr for words in ("mine\n", "WARNING: other\n", "50%", "\nlast words")), done.stderr

"""What a worker finds loaded when it is forked: it loads no machine code and generates no protocol code of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.broker

#: Preloads, and then reads one record as a task does; prints what it has read, and what it has loaded only for that.
PROGRAM = """
import json, sys
from kseg.etl.tasks.preload import preload

preload()
from numba.core.registry import CPUDispatcher

from kseg.client import ClientConfig
from kseg.client.protocol.reader import reader
from kseg.client.protocol.writer import writer
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask

def loaded():
    modules = [module for name, module in sys.modules.items() if name.startswith("kseg.")]
    functions = [found for module in modules for found in vars(module).values() if isinstance(found, CPUDispatcher)]
    return {f"{found.__module__}.{found.__name__}" for found in functions if found.signatures}

before, readers, writers = loaded(), reader.cache_info().misses, writer.cache_info().misses
config = ClientConfig.from_properties({"bootstrap.servers": sys.argv[1]}, client_id="test")
rows = RangeReader(RangeTask(sys.argv[2], 0, 0, 1), config, DecodeOptions())
print(json.dumps({
    "rows": sum(batch.num_rows for batch in rows),
    "before": len(before),
    "machine code": sorted(loaded() - before),
    "readers": reader.cache_info().misses - readers,
    "writers": writer.cache_info().misses - writers,
}))
"""


def test_a_worker_finds_all_that_it_reads_records_with(kafka: Any, produce: Callable[..., None]) -> None:
    topic = kafka.topic()
    produce(topic, [(0, b"key", b"value")])
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, kafka.bootstrap_servers, topic], capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    assert found.pop("before") > 0
    assert found == {"rows": 1, "machine code": [], "readers": 0, "writers": 0}
